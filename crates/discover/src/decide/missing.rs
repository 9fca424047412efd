//! Programs that commands need: what shows them to rooms, and what to do where nothing has them.

use hothouse_host::programs::Grant;

use crate::{draft::Draft, finding::Findings, host::HostFacts};

/// Programs, and what installs them.
const PACKAGES: [(&str, &str); 18] = [
    ("node", "apt-get install nodejs npm"),
    ("npm", "apt-get install npm"),
    ("python3", "apt-get install python3 python3-venv"),
    ("cargo", "https://rustup.rs, or apt-get install cargo"),
    ("go", "apt-get install golang-go"),
    ("ruby", "apt-get install ruby-full"),
    ("bundle", "apt-get install bundler"),
    (
        "php",
        "apt-get install php-cli php-mbstring php-xml php-curl php-sqlite3 php-pgsql php-mysql",
    ),
    ("composer", "apt-get install composer"),
    ("mix", "apt-get install elixir"),
    ("java", "apt-get install default-jdk-headless"),
    ("mvn", "apt-get install maven"),
    ("gradle", "apt-get install gradle"),
    ("dotnet", "https://dot.net"),
    ("deno", "npm install --global deno"),
    ("just", "apt-get install just, or cargo install just"),
    ("hugo", "apt-get install hugo"),
    ("make", "apt-get install make"),
];

/// Proposes tools, and tells what is missing.
pub(super) fn decide(found: &Findings, host: &HostFacts, draft: &mut Draft) {
    for (program, evidence) in &found.programs {
        if host.in_room.contains(program) {
            continue;
        }
        match host.grants.get(program) {
            Some(Grant::Tools(folders)) => {
                for folder in folders {
                    if !draft.tools.contains(folder) {
                        draft.tools.push(folder.clone());
                    }
                }
            }
            Some(Grant::Mount(source, target)) => {
                draft.mounts.push((source.clone(), target.clone()))
            }
            None => {
                let how = PACKAGES.iter().find(|(name, _)| name == program);
                let how =
                    how.map_or("install it".to_owned(), |(_, how)| format!("install it (`{how}`)"));
                draft.missing.push(format!(
                    "`{program}` is needed ({evidence}) and this host does not have it: {how}"
                ));
            }
        }
    }
}

/// Tells where this host's version of a program is older than what the repository asks for.
pub(super) fn versions(found: &Findings, host: &HostFacts, draft: &mut Draft) {
    for pin in &found.pins {
        let Some(have) = host.versions.get(pin.program) else { continue };
        if is_older(have, &pin.version) {
            draft.caveats.push(format!(
                "the repository asks for {} {} ({}:{}); this host has {have}, so installing may fail",
                pin.program, pin.version, pin.evidence.file, pin.evidence.line
            ));
        }
    }
}

/// Whether a version is below the least that a text asks for, by its first two numbers.
fn is_older(have: &str, wanted: &str) -> bool {
    let numbers = |text: &str| -> Vec<u32> {
        let start = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
        let text = &text[start..];
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        text[..end].split('.').filter_map(|part| part.parse().ok()).take(2).collect()
    };
    let (have, wanted) = (numbers(have), numbers(wanted));
    !wanted.is_empty() && have[..have.len().min(wanted.len())] < wanted[..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_versions_are_told() {
        for (have, wanted, expected) in [
            ("3.11.7", "3.12", true),
            ("3.11.7", "3.11", false),
            ("20.11.1", ">=18", false),
            ("20.11.1", "22.x", true),
            ("20.11.1", "lts/iron", false),
            ("1.22", "1.21.0", false),
        ] {
            assert_eq!(is_older(have, wanted), expected, "{have} {wanted}");
        }
    }
}
