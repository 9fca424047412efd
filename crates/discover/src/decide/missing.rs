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

/// Stacks that bring a program.
const STACKS: [(&str, &str); 9] = [
    ("node", "node"),
    ("npm", "node"),
    ("python3", "python"),
    ("uv", "python"),
    ("cargo", "rust"),
    ("go", "go"),
    ("dotnet", "dotnet"),
    ("pnpm", "node"),
    ("ucm", "unison"),
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
                let install = PACKAGES
                    .iter()
                    .find(|(name, _)| name == program)
                    .map(|(_, how)| format!("install it (`{how}`)"));
                let stack = STACKS
                    .iter()
                    .find(|(name, _)| name == program)
                    .map(|(_, stack)| format!("use `stack = \"{stack}\"` under `[room]`"));
                let how: Vec<String> = install.into_iter().chain(stack).collect();
                let how = if how.is_empty() { "install it".to_owned() } else { how.join(", or ") };
                draft.missing.push(format!(
                    "`{program}` is needed ({evidence}) and this host does not have it: {how}"
                ));
            }
        }
    }
}
