//! Node package managers: which one a folder uses, its install command, and the folders of its workspace.

use std::collections::BTreeSet;

use hothouse_model::glob;

use crate::{
    finding::{Findings, Install, Pin},
    host::HostFacts,
    text,
    view::View,
};

/// The package manager of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manager {
    pub(super) name: &'static str,
    lockfile: Option<String>,
    /// The version, from `packageManager` or the lockfile.
    version: Option<String>,
}

const LOCKFILES: [(&str, &str); 7] = [
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
    ("package-lock.json", "npm"),
    ("npm-shrinkwrap.json", "npm"),
    ("pnpm-workspace.yaml", "pnpm"),
];

impl Manager {
    /// Determines the manager from `packageManager` and lockfiles.
    pub(super) fn of(view: &View<'_>, dir: &str) -> Self {
        let declared = view.json(&text::join(dir, "package.json"));
        let declared =
            declared.and_then(|value| value["packageManager"].as_str().map(str::to_owned));
        let (named, version) = match declared.as_deref().and_then(|text| text.split_once('@')) {
            Some((name, version)) => (
                Some(name.to_owned()),
                version.split('+').next().map(str::to_owned).filter(|text| is_version(text)),
            ),
            None => (None, None),
        };
        let of_lock = LOCKFILES.iter().find_map(|(file, name)| {
            let path = text::join(dir, file);
            view.has(&path).then_some((*name, path))
        });
        let known = ["npm", "pnpm", "yarn", "bun"];
        let name = named.and_then(|named| known.into_iter().find(|known| *known == named));
        let name = name.or(of_lock.as_ref().map(|(name, _)| *name)).unwrap_or("npm");
        let lockfile =
            of_lock.filter(|(of_lock, path)| *of_lock == name && !path.ends_with("workspace.yaml"));
        let lockfile = lockfile.map(|(_, path)| path);
        let of_lock = || {
            let lockfile = view.text(lockfile.as_deref()?)?;
            match name {
                "pnpm" => pnpm_of(&lockfile),
                "yarn" => yarn_of(&lockfile),
                _ => None,
            }
        };
        let version = version.or_else(of_lock);
        Self { name, lockfile, version }
    }

    /// Returns the command that runs a script.
    pub(super) fn run(&self, script: &str) -> String {
        match (self.name, script) {
            ("npm", "start") => "npm start".to_owned(),
            ("npm", script) => format!("npm run {script}"),
            (name, script) => format!("{name} run {script}"),
        }
    }

    /// Returns the command that runs a dependency's program.
    pub(super) fn exec(&self, line: &str) -> String {
        match self.name {
            "pnpm" => format!("pnpm exec {line}"),
            "yarn" => format!("yarn {line}"),
            "bun" => format!("bunx {line}"),
            _ => format!("npx {line}"),
        }
    }

    /// Adds the install step of a folder.
    pub(super) fn install(
        &self,
        view: &View<'_>,
        host: &HostFacts,
        dir: &str,
        dependencies: &BTreeSet<String>,
        is_workspace: bool,
        found: &mut Findings,
    ) {
        if dependencies.is_empty() && !is_workspace {
            return;
        }
        let is_berry = self.name == "yarn"
            && (view.has(&text::join(dir, ".yarnrc.yml"))
                || self.major().is_some_and(|major| major >= 2));
        let line = match (self.name, &self.lockfile) {
            ("npm", Some(_)) => "test -e node_modules/.package-lock.json || npm ci --no-audit --no-fund".to_owned(),
            ("npm", None) => "test -e node_modules/.package-lock.json || npm install --no-audit --no-fund --no-package-lock".to_owned(),
            ("pnpm", Some(_)) => "pnpm install --frozen-lockfile".to_owned(),
            // Its lockfile names no registry: packages come from npm's configured one.
            ("yarn", Some(_)) if is_berry && !names_registry(view, dir) => {
                "YARN_NPM_REGISTRY_SERVER=$(npm config get registry) yarn install --immutable"
                    .to_owned()
            }
            ("yarn", Some(_)) if is_berry => "yarn install --immutable".to_owned(),
            // A host without yarn allows rooms no registry of yarn's own: packages come from npm's configured one. The
            // hashes of the lockfile hold for both.
            ("yarn", Some(lockfile)) if !host.has("yarn") && names_usual_registry(view, lockfile) => {
                r##"( r=$(npm config get registry); cp yarn.lock ~/; trap 'cp ~/yarn.lock .' EXIT; sed -Ei "s#https://registry\.(yarn|npm)[a-z]*\.[a-z]+/#${r%/}/#" yarn.lock; yarn install --frozen-lockfile --registry $r )"##.to_owned()
            }
            ("yarn", Some(_)) => "yarn install --frozen-lockfile".to_owned(),
            ("bun", Some(_)) => "bun install --frozen-lockfile".to_owned(),
            (name, _) => format!("{name} install"),
        };
        // A browser of several hundred megabytes, which rooms already have.
        let line = match dependencies.contains("cypress") {
            true => format!("export CYPRESS_INSTALL_BINARY=0; {line}"),
            false => line,
        };
        let run = match self.bootstrap(host) {
            Some(first) => format!(
                "{first} && {}",
                if line.contains("||") || line.contains("; ") {
                    format!("{{ {line}; }}")
                } else {
                    line
                }
            ),
            None => line,
        };
        let file = self.lockfile.clone().unwrap_or_else(|| text::join(dir, "package.json"));
        let evidence =
            view.evidence(&file, "", format!("dependencies are installed by {}", self.name));
        found.needs("node", &evidence);
        // Its releases from 11 on do not start on older ones of Node.
        if self.name == "pnpm" && self.major().is_some_and(|major| major >= 11) {
            let version = self.version.as_deref().unwrap_or_default();
            let fact = format!("pnpm {version} needs Node 22.13 or later");
            let why = view.evidence(&text::join(dir, "package.json"), "packageManager", fact);
            let pin = Pin { program: "node", version: ">=22.13".to_owned(), evidence: why };
            if !found.pins.iter().any(|known| known.program == "node") {
                found.pins.push(pin);
            }
        }
        if self.name == "npm" || self.bootstrap(host).is_some() {
            found.needs("npm", &evidence);
        } else {
            found.needs(self.name, &evidence);
        }
        // Plug'n'Play has no dependency folder.
        let fills = if is_berry && !uses_node_modules(view, dir) {
            vec![".yarn", ".pnp.cjs"]
        } else {
            vec!["node_modules"]
        };
        found.installs.push(Install {
            manager: self.name,
            dir: dir.to_owned(),
            run,
            fills,
            evidence: vec![evidence],
        });
    }

    /// Returns the command that installs the manager in the room if the host does not have it.
    fn bootstrap(&self, host: &HostFacts) -> Option<String> {
        if self.name == "npm" || host.has(self.name) {
            return None;
        }
        let package = match (self.name, self.major()) {
            // The package `yarn` ends at version 1.
            ("yarn", Some(major)) if major >= 2 => "@yarnpkg/cli-dist".to_owned(),
            ("yarn", _) if self.version.is_none() => "yarn@1".to_owned(),
            (name, _) => name.to_owned(),
        };
        let version = self
            .version
            .as_deref()
            .filter(|_| !package.contains("@1"))
            .map(|version| format!("@{version}"));
        let name = self.name;
        Some(format!(
            "{{ command -v {name} >/dev/null || npm install --global --prefix ~/.local {package}{}; }}",
            version.unwrap_or_default()
        ))
    }

    fn major(&self) -> Option<u32> {
        self.version.as_deref()?.split('.').next()?.parse().ok()
    }
}

/// Whether a lockfile names the public registry of yarn or npm.
fn names_usual_registry(view: &View<'_>, lockfile: &str) -> bool {
    let text = view.text(lockfile).unwrap_or_default();
    ["registry.yarn", "registry.npm"].iter().any(|name| text.contains(&format!("https://{name}")))
}

/// Returns the last pnpm release that writes this version of lockfiles: later ones have other defaults.
fn pnpm_of(lockfile: &str) -> Option<String> {
    let line = lockfile.lines().take(5).find(|line| line.starts_with("lockfileVersion"))?;
    let version: String = line.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
    let release = match version.split('.').next()? {
        "5" => "7",
        "6" => "8",
        "9" => "10",
        _ => return None,
    };
    Some(release.to_owned())
}

/// Returns the yarn release that writes this version of lockfiles; lockfiles of yarn 1 have no version.
fn yarn_of(lockfile: &str) -> Option<String> {
    let mut lines = lockfile.lines().take(10).skip_while(|line| *line != "__metadata:");
    let line = lines.find_map(|line| line.trim().strip_prefix("version: "))?;
    let release = match line.trim_matches('"').parse().ok()? {
        0..=5 => "2",
        6 | 7 => "3",
        _ => "4",
    };
    Some(release.to_owned())
}

fn is_version(text: &str) -> bool {
    !text.is_empty()
        && text.len() < 40
        && text.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c))
}

/// Whether yarn's settings in a folder name a registry.
fn names_registry(view: &View<'_>, dir: &str) -> bool {
    let text = view.text(&text::join(dir, ".yarnrc.yml")).unwrap_or_default();
    text.lines().any(|line| line.starts_with("npmRegistryServer:"))
}

fn uses_node_modules(view: &View<'_>, dir: &str) -> bool {
    let text = view.text(&text::join(dir, ".yarnrc.yml")).unwrap_or_default();
    text.lines().any(|line| {
        line.replace(' ', "").starts_with("nodeLinker:node-modules")
            || line.contains("nodeLinker: pnpm")
    })
}

/// Returns the folders in the workspace of the root.
pub(super) fn members(view: &View<'_>, folders: &[String]) -> BTreeSet<String> {
    let mut patterns: Vec<String> = Vec::new();
    let list = |value: &serde_json::Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect()
    };
    if let Some(value) = view.json("package.json") {
        patterns.extend(list(&value["workspaces"]));
        patterns.extend(list(&value["workspaces"]["packages"]));
    }
    if let Some(value) = view.yaml("pnpm-workspace.yaml") {
        patterns.extend(list(&value["packages"]));
    }
    if let Some(value) = view.json("lerna.json") {
        patterns.extend(list(&value["packages"]));
    }
    if view.has("nx.json") && patterns.is_empty() {
        patterns.extend(["apps/*", "libs/*", "packages/*"].map(str::to_owned));
    }
    let fits = |pattern: &str, dir: &str| {
        let pattern = pattern.trim_start_matches("./").trim_end_matches('/');
        let (wanted, here): (Vec<_>, Vec<_>) =
            (pattern.split('/').collect(), dir.split('/').collect());
        match wanted.iter().position(|part| *part == "**") {
            Some(at) => {
                here.len() >= at
                    && wanted[..at]
                        .iter()
                        .zip(&here)
                        .all(|(want, have)| glob::fits(want.as_bytes(), have.as_bytes()))
            }
            None => {
                wanted.len() == here.len()
                    && wanted
                        .iter()
                        .zip(&here)
                        .all(|(want, have)| glob::fits(want.as_bytes(), have.as_bytes()))
            }
        }
    };
    let is_member = |dir: &&String| {
        !dir.is_empty()
            && patterns
                .iter()
                .filter(|pattern| !pattern.starts_with('!'))
                .any(|pattern| fits(pattern, dir))
            && !patterns
                .iter()
                .filter_map(|pattern| pattern.strip_prefix('!'))
                .any(|pattern| fits(pattern, dir))
    };
    folders.iter().filter(is_member).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::{pnpm_of, yarn_of};

    #[test]
    fn lockfiles_tell_the_release_of_pnpm() {
        assert_eq!(pnpm_of("lockfileVersion: '9.0'\n").as_deref(), Some("10"));
        assert_eq!(pnpm_of("lockfileVersion: 5.4\n").as_deref(), Some("7"));
        assert_eq!(pnpm_of("packages: {}\n"), None);
    }

    #[test]
    fn lockfiles_tell_the_release_of_yarn() {
        let of = |version: &str| {
            let head = "# This file is generated by running \"yarn install\" inside your project.\n\n__metadata:\n";
            yarn_of(&format!("{head}  version: {version}\n  cacheKey: 8\n"))
        };
        assert_eq!(of("8").as_deref(), Some("4"));
        assert_eq!(of("6").as_deref(), Some("3"));
        assert_eq!(of("4").as_deref(), Some("2"));
        assert_eq!(yarn_of("# yarn lockfile v1\n\nabbrev@1:\n  version \"1.1.1\"\n"), None);
    }
}
