//! Programs that commands need: how rooms get them, and what to do if they are missing.

use hothouse_host::programs::Grant;

use crate::{
    draft::Draft,
    finding::{Evidence, Findings},
    host::HostFacts,
};

/// Programs, and the packages that contain them.
const PACKAGES: [(&str, &str); 20] = [
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
    ("pg_config", "apt-get install libpq-dev"),
    ("mariadb_config", "apt-get install libmariadb-dev"),
];

/// Stacks with programs that the host may lack.
const STACKS: [(&str, &[&str]); 5] = [
    ("node", &["node", "npm", "npx", "pnpm", "yarn", "bun"]),
    ("python", &["python3", "python", "pip3", "uv", "poetry"]),
    ("rust", &["cargo", "rustc"]),
    ("go", &["go"]),
    ("dotnet", &["dotnet"]),
];

/// Proposes a stack for a program, unless the draft has another one; returns whether the room then has the program.
pub(super) fn propose(draft: &mut Draft, program: &str, evidence: &Evidence) -> bool {
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

/// Proposes tools, and reports missing programs.
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
            // A stack replaces the whole system of a room: if this host has what the others need, the program is
            // reported as missing instead.
            None if !has_others(found, host, program) && propose(draft, program, evidence) => {}
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

/// Whether other programs of the repository belong to another stack, and this host has them.
fn has_others(found: &Findings, host: &HostFacts, program: &str) -> bool {
    let stack_of = |program: &str| {
        STACKS.iter().find(|(_, programs)| programs.contains(&program)).map(|(stack, _)| *stack)
    };
    let own = stack_of(program);
    found.programs.iter().any(|(other, _)| {
        stack_of(other).is_some_and(|stack| Some(stack) != own) && host.has(other)
    })
}
