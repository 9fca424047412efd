//! Package managers in a room: where they store downloads, and which of the user's settings they
//! get.
//!
//! Their stores and caches are one tree of the sandbox beside its worktree, on the same file
//! system: nothing ends up in the worktree, and `fork --from` copies all of it. No two sandboxes
//! ever share a writable one ([`caches`](crate::caches) provides their initial content).

mod harmless;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use hothouse_host::{FileError, files};
use hothouse_model::{
    SandboxRecord, config,
    room::{RoomMount, RoomOrder},
};
use hothouse_workspace::golden::PNPM_STORE;

use crate::{Engine, environment, outside, trees};

/// The tree of caches among the data of services, which cannot have this name.
pub(crate) const CACHES: &str = ".caches";

/// Its path in a room.
const INSIDE: &str = "/var/cache/hothouse";

/// The variables that point managers to their part of it. pip, uv, yarn 1, Go builds and others
/// follow the first.
const PARTS: [(&str, &str); 7] = [
    ("XDG_CACHE_HOME", ""),
    ("npm_config_cache", "npm"),
    ("YARN_GLOBAL_FOLDER", "yarn-berry"),
    ("BUN_INSTALL_CACHE_DIR", "bun"),
    ("GOMODCACHE", "go-mod"),
    ("GOCACHE", "go-build"),
    ("CARGO_HOME", "cargo"),
];

/// Variables for pnpm's store, for versions up to 10 and later ones. npm warns about the first, so
/// only pnpm projects get them.
const PNPM_VARIABLES: [&str; 2] = ["npm_config_store_dir", "pnpm_config_store_dir"];

/// Files that only pnpm projects have.
const PNPM_FILES: [&str; 2] = ["pnpm-lock.yaml", "pnpm-workspace.yaml"];

/// Lockfiles of Node package managers other than npm.
const OTHER_LOCKFILES: [&str; 4] = ["yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb"];

/// The compile cache of Node services. Commands do not use it: tests that measure coverage would be
/// less precise.
pub(crate) const NODE_COMPILE_CACHE: (&str, &str) =
    ("NODE_COMPILE_CACHE", "/var/cache/hothouse/node-compile");

/// Variables that set certificates for tools with their own bundle.
const OWN_BUNDLES: [&str; 6] = [
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
];

/// Where administrators add certificate authorities: Debian and Alpine, Fedora, openSUSE, Arch.
const ADDED_AUTHORITIES: [&str; 4] = [
    "/usr/local/share/ca-certificates",
    "/etc/pki/ca-trust/source/anchors",
    "/etc/pki/trust/anchors",
    "/etc/ca-certificates/trust-source/anchors",
];

/// The maximum size of a settings file.
const SETTINGS_MOST: u64 = 1 << 20;

/// Settings that are passed on: the user's files, the filter for their harmless part, and the path
/// in the room.
struct Settings {
    /// In ascending precedence; `~` is the user's home.
    from: &'static [&'static str],
    keep: fn(&str) -> String,
    /// A system-wide path, so that the agent can still have its own.
    inside: &'static str,
}

const NPM_INSIDE: &str = "/etc/npmrc";

const SETTINGS: [Settings; 4] = [
    Settings {
        from: &["/usr/etc/npmrc", "/etc/npmrc", "~/.npmrc"],
        keep: harmless::npmrc,
        inside: NPM_INSIDE,
    },
    Settings {
        from: &["/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf"],
        keep: harmless::pip_conf,
        inside: "/etc/pip.conf",
    },
    Settings {
        from: &["/etc/uv/uv.toml", "~/.config/uv/uv.toml"],
        keep: harmless::uv,
        inside: "/etc/uv/uv.toml",
    },
    Settings {
        from: &["~/.cargo/config", "~/.cargo/config.toml"],
        keep: harmless::cargo,
        // cargo searches every parent of the current folder.
        inside: "/.cargo/config.toml",
    },
];

/// Whether only the agent gets a variable: its folder does not belong to the room's root.
pub(crate) fn is_agents(variable: &str) -> bool {
    PARTS.iter().any(|(name, _)| *name == variable)
        || PNPM_VARIABLES.contains(&variable)
        || variable == "UV_LINK_MODE"
}

/// Returns the folder of programs that cargo installs.
pub(crate) fn cargo_programs() -> String {
    format!("{INSIDE}/cargo/bin")
}

impl Engine {
    /// Provides a starting room with the stores of package managers and the user's harmless
    /// settings.
    pub(crate) fn give_managers(
        &self,
        sandbox: &SandboxRecord,
        room: &config::Room,
        order: &mut RoomOrder,
    ) -> Result<(), FileError> {
        let folder = trees::places(sandbox).data().join(CACHES);
        if !files::exists(&folder) {
            self.make_caches(sandbox, &folder)?;
        }
        let target = PathBuf::from(INSIDE);
        order.mounts.push(RoomMount { source: folder, target, writable: true, own: true });
        let worktree = trees::open_worktree(sandbox)?;
        let is_there = |name: &str| matches!(worktree.stat(Path::new(name)), Ok(Some(_)));
        let variables = variables(PNPM_FILES.into_iter().any(is_there));
        order.wall.environment.extend(variables);
        let mounts = order.mounts.iter().map(|mount| mount.target.clone());
        let own = order.aliases.iter().chain([&order.worktree]).chain(&order.tools).cloned();
        let shown: Vec<_> = own.chain(mounts).collect();
        let (home, wall) = (&self.with.home, &self.with.wall);
        let search_path = wall.environment.get("PATH").map(String::as_str).unwrap_or_default();
        let in_room = environment::search_path("/home/agent", &order.tools);
        let host = outside::Host { home, search_path, in_room: &in_room };
        order.wall.caveats.extend(outside::find(&worktree, room, &shown, &host));
        self.give_settings(order)?;
        let has_other_manager = OTHER_LOCKFILES.into_iter().any(is_there);
        let stack = sandbox.stack.as_deref();
        if let Some((name, prefix)) =
            environment::node_headers(stack, &order.tools, has_other_manager)
        {
            // The user's own setting takes precedence.
            order.wall.environment.entry(name.to_owned()).or_insert(prefix);
        }
        Ok(())
    }

    pub(crate) fn give_settings(&self, order: &mut RoomOrder) -> Result<(), FileError> {
        let folder = self.with.wall.authorities.join("settings");
        for settings in &SETTINGS {
            let kept = self.harmless(settings);
            if kept.is_empty() {
                continue;
            }
            let name = settings.inside.trim_matches(['/', '.']).replace('/', "-");
            let source = folder.join(name);
            if files::read_capped(&source, SETTINGS_MOST).ok().as_deref() != Some(kept.as_bytes()) {
                files::make_private_folder(&folder)?;
                files::replace(&source, kept.as_bytes(), 0o644)?;
            }
            let target = PathBuf::from(settings.inside);
            order.mounts.push(RoomMount { source, target, writable: false, own: true });
            if settings.inside == NPM_INSIDE {
                let variable = ("npm_config_globalconfig".to_owned(), NPM_INSIDE.to_owned());
                order.wall.environment.extend([variable]);
            }
        }
        order.wall.environment.extend(self.trust_like_host(&order.wall.environment));
        let of_host = self.with.wall.environment.iter();
        let known = of_host.filter(|(name, value)| harmless::variable(name, value));
        let known = known.map(|(name, value)| (name.clone(), value.clone()));
        let go = self.read_settings("~/.config/go/env");
        for (name, value) in harmless::go_env(&go).into_iter().chain(known) {
            order.wall.environment.entry(name).or_insert(value);
        }
        Ok(())
    }

    /// Returns variables that point tools with their own certificates to the room's, if the host sets them too or its
    /// administrator added authorities: behind a proxy that intercepts TLS nothing could be installed otherwise.
    fn trust_like_host(&self, known: &BTreeMap<String, String>) -> Vec<(String, String)> {
        let of_host = &self.with.wall.environment;
        // The variable that the wall sets for Node names only the wall's own certificate.
        let is_open = |name: &str| name == OWN_BUNDLES[0] || !known.contains_key(name);
        let added = has_added_authorities();
        let is_meant = |name: &str| added || of_host.contains_key(name);
        let told = OWN_BUNDLES.iter().filter(|name| is_meant(name) && is_open(name));
        let bundle = crate::wall::bundle_inside().display().to_string();
        told.map(|name| ((*name).to_owned(), bundle.clone())).collect()
    }

    fn harmless(&self, settings: &Settings) -> String {
        let texts = settings.from.iter().map(|path| self.read_settings(path));
        let kept: Vec<_> = texts.map(|text| (settings.keep)(&text)).collect();
        // TOML files cannot be concatenated: the user's own takes precedence.
        match settings.inside.ends_with(".toml") {
            true => kept.into_iter().rfind(|text| !text.is_empty()).unwrap_or_default(),
            false => kept.concat(),
        }
    }

    fn read_settings(&self, path: &str) -> String {
        let bytes = files::read_capped(&self.expand(path), SETTINGS_MOST).unwrap_or_default();
        String::from_utf8(bytes).unwrap_or_default()
    }
}

/// Whether the host's administrator added certificate authorities to those of the distribution.
fn has_added_authorities() -> bool {
    let added = ADDED_AUTHORITIES.iter().map(|folder| files::list(Path::new(folder)));
    added.flatten().any(|found| !found.is_empty())
}

/// Returns the variables of a room's managers.
fn variables(is_pnpm: bool) -> Vec<(String, String)> {
    let inside = |part: &str| match part {
        "" => INSIDE.to_owned(),
        part => format!("{INSIDE}/{part}"),
    };
    let mut all: Vec<_> =
        PARTS.iter().map(|(name, part)| ((*name).to_owned(), inside(part))).collect();
    if is_pnpm {
        all.extend(PNPM_VARIABLES.map(|name| (name.to_owned(), PNPM_STORE.to_owned())));
    }
    // Hard links do not work between two mounts, and uv would warn each time.
    all.push(("UV_LINK_MODE".to_owned(), "copy".to_owned()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_lies_in_the_tree_that_comes_along() {
        let all = variables(true);
        let paths = all.iter().filter(|(name, _)| name != "UV_LINK_MODE");
        for (name, value) in paths {
            assert!(value.starts_with(INSIDE), "{name}={value}");
            assert!(is_agents(name), "{name}");
        }
        assert!(NODE_COMPILE_CACHE.1.starts_with(INSIDE) && PNPM_STORE.starts_with(INSIDE));
        assert!(!variables(false).iter().any(|(name, _)| name.contains("store_dir")));
    }
}
