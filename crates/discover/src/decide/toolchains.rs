//! Toolchains of the version that a repository names, if this host has another one: Node comes from npm's registry, and
//! rustup is told which of the installed toolchains to use.

use crate::{
    draft::{Draft, DraftService, DraftWork},
    finding::{Evidence, Findings, Pin},
    host::{HostFacts, numbers},
};

use super::{free, service};

/// Long-term lines of Node, the most common ones first.
const LINES: [u32; 6] = [22, 24, 20, 26, 18, 25];

/// The oldest line that current npm releases can install.
const OLDEST: u32 = 18;

/// Files that choose a version for developers' machines, rather than for an image or CI.
const CHOOSING: [&str; 6] =
    [".nvmrc", ".node-version", ".tool-versions", "mise.toml", ".mise.toml", "package.json"];

/// Whether to install a version of Node even if the host's is newer.
pub(super) fn is_chosen(pin: &Pin) -> bool {
    pin.program == "node" && CHOOSING.contains(&crate::text::name(&pin.evidence.file))
}

/// Adds a task that installs a version of Node, which everything that runs Node waits for. Returns whether that is
/// possible.
pub(super) fn bring_node(
    host: &HostFacts,
    pin: &Pin,
    allows: impl Fn(&str) -> bool,
    draft: &mut Draft,
) -> bool {
    let named = numbers(pin.version.trim_start_matches('v')).first().copied();
    let fits = |line: &u32| allows(&format!("{line}.999"));
    let line = named
        .filter(|line| {
            pin.version.starts_with(|c: char| c.is_ascii_digit() || c == 'v') && fits(line)
        })
        .or_else(|| LINES.into_iter().find(fits));
    let Some(line) = line.filter(|line| *line >= OLDEST && host.has("npm")) else { return false };
    if draft.stack.is_some() {
        return false;
    }
    let name = free("node", |name| draft.services.iter().any(|service| service.name == name));
    let run = node_command(line);
    let mut task = service(&name, "", &run, true, std::slice::from_ref(&pin.evidence));
    let have = host.versions.get("node").map_or("none", String::as_str);
    task.note = Some(format!("Node {line} from npm's registry: this host has {have}"));
    let Some(first) = draft.services.iter().position(uses_node) else { return true };
    let bringing: Vec<String> = draft
        .services
        .iter()
        .filter(|service| uses_node(service) && service.needs.is_empty())
        .map(|service| service.name.clone())
        .collect();
    for service in draft.services.iter_mut().filter(|service| uses_node(service)) {
        // Services that wait for an install wait for Node indirectly.
        if !service.needs.iter().any(|need| bringing.contains(need)) {
            service.needs.insert(0, name.clone());
        }
    }
    draft.services.insert(first, task);
    draft.setup = draft.setup.as_deref().map(|setup| format!("{{ {run}; }} && {setup}"));
    true
}

/// Whether a service runs Node or one of its package managers.
fn uses_node(service: &DraftService) -> bool {
    let DraftWork::Run { run, .. } = &service.work else { return false };
    let programs = ["node", "npm", "npx", "pnpm", "yarn", "bun", "bunx"];
    run.split(|c: char| c.is_whitespace() || ";|&{}()".contains(c))
        .any(|word| programs.contains(&word))
}

/// Returns the command that installs a line of Node unless it is the default. Native modules are built with its own
/// headers.
fn node_command(line: u32) -> String {
    // Newer npm releases do not run on older Node releases.
    let npm =
        if line < 20 { " && npm install --silent --global --prefix ~/.local npm@10" } else { "" };
    format!(
        "case $(node --version) in v{line}.*) ;; *) arch=$(uname -m | sed 's/aarch64/arm64/; s/x86_64/x64/') && d=$HOME/.local/node-{line} && mkdir -p $d ~/.local/bin && npm install --silent --no-save --prefix $d node-linux-$arch@{line}{npm} && printf '#!/bin/sh\\nexport npm_config_nodedir=%s\\nexec %s/bin/node \"$@\"\\n' $d/node_modules/node-linux-$arch $d/node_modules/node-linux-$arch > ~/.local/bin/node && chmod 755 ~/.local/bin/node;; esac"
    )
}

/// Tells rustup to use an installed toolchain if the repository names a missing one: rooms cannot add toolchains to
/// those of the host.
pub(super) fn settle_rust(found: &Findings, host: &HostFacts, draft: &mut Draft) {
    let Some(pin) = found.pins.iter().find(|pin| pin.program == "rustc") else { return };
    if host.toolchains.is_empty() || host.in_room.contains("cargo") {
        return;
    }
    let channel = pin.version.trim();
    let is_it = |name: &&String| name.starts_with(&format!("{channel}-")) || *name == channel;
    if host.toolchains.iter().any(|name| is_it(&name)) {
        return;
    }
    let of = |channel: &str| host.toolchains.iter().find(|name| name.starts_with(channel)).cloned();
    let nightly = channel.starts_with("nightly");
    let used = if nightly { of("nightly").or_else(|| of("stable")) } else { of("stable") };
    let Some(used) = used.or_else(|| host.toolchains.last().cloned()) else { return };
    tell_rust(&used, &pin.evidence, channel, draft);
}

fn tell_rust(used: &str, evidence: &Evidence, channel: &str, draft: &mut Draft) {
    draft.caveats.push(format!(
        "the repository asks for Rust {channel} ({}:{}); this host has no such toolchain, so {used} is used (`rustup toolchain install {channel}` adds it)",
        evidence.file, evidence.line
    ));
    for service in &mut draft.services {
        let DraftWork::Run { run, .. } = &service.work else { continue };
        if run.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "cargo") {
            service.env.insert("RUSTUP_TOOLCHAIN".to_owned(), used.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(program: &'static str, version: &str, file: &str) -> Pin {
        let evidence = Evidence { file: file.into(), line: 1, fact: String::new() };
        Pin { program, version: version.into(), evidence }
    }

    fn draft() -> Draft {
        let mut web = service("web", "", "npm run dev", false, &[]);
        web.needs = vec!["install".into()];
        let services = vec![
            service("build", "", "cargo build", true, &[]),
            service("install", "", "npm ci", true, &[]),
            web,
        ];
        Draft { services, setup: Some("npm ci".into()), ..Draft::default() }
    }

    fn host() -> HostFacts {
        let mut host = HostFacts::default();
        host.grants.insert("cargo".into(), hothouse_host::programs::Grant::Tools(vec![]));
        host.in_room.insert("npm".into());
        host.versions.insert("node".into(), "20.1.0".into());
        host.toolchains = vec!["1.90.0-x86_64-unknown-linux-gnu".into(), "stable-x86_64".into()];
        host
    }

    #[test]
    fn node_is_brought_before_what_installs() {
        for (version, allowed, line) in [
            ("24.1.0", "24", Some(24)),
            ("v18", "18", Some(18)),
            (">=22", "22 24 26", Some(22)),
            (">=26", "26", Some(26)),
            ("14", "14", None),
        ] {
            let mut draft = draft();
            let allows =
                |have: &str| allowed.split(' ').any(|line| have.starts_with(&format!("{line}.")));
            let pin = pin("node", version, ".nvmrc");
            assert_eq!(bring_node(&host(), &pin, allows, &mut draft), line.is_some(), "{version}");
            let Some(line) = line else { continue };
            let names: Vec<_> = draft.services.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(names, ["build", "node", "install", "web"]);
            assert_eq!(draft.services[2].needs, ["node"]);
            assert_eq!(draft.services[3].needs, ["install"]);
            let DraftWork::Run { run, .. } = &draft.services[1].work else { panic!() };
            assert!(run.contains(&format!("node-linux-$arch@{line}")), "{run}");
            assert!(draft.setup.unwrap().ends_with("&& npm ci"));
        }
    }

    #[test]
    fn rustup_is_told_what_is_installed() {
        for (channel, used) in [
            ("1.85", Some("stable-x86_64")),
            ("1.90.0", None),
            ("stable", None),
            ("nightly-2024-01-01", Some("stable-x86_64")),
        ] {
            let mut draft = draft();
            let pins = vec![pin("rustc", channel, "rust-toolchain.toml")];
            let found = Findings { pins, ..Findings::default() };
            settle_rust(&found, &host(), &mut draft);
            let told = draft.services[0].env.get("RUSTUP_TOOLCHAIN").map(String::as_str);
            assert_eq!(told, used, "{channel}");
            assert_eq!(draft.caveats.len(), usize::from(used.is_some()));
            assert!(draft.services[1].env.is_empty());
        }
    }
}
