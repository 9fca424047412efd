//! Programs that commands need: what shows them to rooms, and what to do where nothing has them.

use hothouse_host::programs::Grant;

use crate::{
    draft::Draft,
    finding::{Evidence, Findings},
    host::HostFacts,
};

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

/// Stacks that have programs, where the host has not.
const STACKS: [(&str, &[&str]); 5] = [
    ("node", &["node", "npm", "npx", "pnpm", "yarn", "bun"]),
    ("python", &["python3", "python", "pip3", "uv", "poetry"]),
    ("rust", &["cargo", "rustc"]),
    ("go", &["go"]),
    ("dotnet", &["dotnet"]),
];

/// The version of a program that a stack has, where that matters.
const STACK_VERSIONS: [(&str, &str, &str); 1] = [("node", "node", "22")];

/// Proposes a stack for a program, unless the draft has another one; returns whether the room then has the program.
fn propose(draft: &mut Draft, program: &str, evidence: &Evidence) -> bool {
    let Some((stack, _)) = STACKS.iter().find(|(_, programs)| programs.contains(&program)) else {
        return false;
    };
    let chosen = draft.stack.get_or_insert_with(|| ((*stack).to_owned(), Vec::new()));
    if chosen.0 != *stack {
        return false;
    }
    if !chosen.1.contains(evidence) {
        chosen.1.push(evidence.clone());
    }
    true
}

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
            None if propose(draft, program, evidence) => {}
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
        if !is_older(have, &pin.version) {
            continue;
        }
        if let Some(folder) = newer(host, pin.program, &pin.version) {
            draft.tools.retain(|tool| tool != &folder);
            // The first one is found first.
            draft.tools.insert(0, folder);
            continue;
        }
        let offered = STACK_VERSIONS.iter().find(|(program, ..)| *program == pin.program);
        let fits = offered.is_some_and(|(_, _, version)| !is_older(version, &pin.version));
        if !(fits && propose(draft, pin.program, &pin.evidence)) {
            draft.caveats.push(format!(
                "the repository asks for {} {} ({}:{}); this host has {have}, so installing may fail",
                pin.program, pin.version, pin.evidence.file, pin.evidence.line
            ));
        }
    }
}

/// Returns what shows a version of a program that fits, where the user has one beside the usual: the lowest of them.
fn newer(host: &HostFacts, program: &str, wanted: &str) -> Option<String> {
    let all = host.installed.get(program)?;
    let mut fitting: Vec<_> =
        all.iter().filter(|(version, _)| !is_older(version, wanted)).collect();
    fitting.sort_by_key(|(version, _)| crate::host::numbers(version));
    fitting.first().map(|(_, folder)| folder.clone())
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
    fn a_version_that_the_user_has_beside_the_usual_one_is_proposed() {
        let mut host = HostFacts::default();
        let known = ["3.10.1", "3.12.1", "3.13.0"]
            .map(|version| (version.to_owned(), format!("~/.pyenv/versions/{version}")));
        host.installed.insert("python3".into(), known.to_vec());
        assert_eq!(newer(&host, "python3", "3.12").as_deref(), Some("~/.pyenv/versions/3.12.1"));
        assert_eq!(newer(&host, "python3", "3.14"), None);
        assert_eq!(newer(&host, "node", "22"), None);
    }

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
