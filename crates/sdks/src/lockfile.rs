//! Reads lockfiles and manifests.
//!
//! Each reader passes on names and versions as it finds them, in one pass over the text. A malformed file yields
//! whatever can be read; nothing is an error, because a project may be incomplete.

use serde_json::Value;

/// The maximum size of a file.
pub const FILE_MOST: usize = 16 << 20;

/// The maximum nesting of dependencies in the first version of npm's lockfile.
const DEPTH: usize = 64;

/// A file that names packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    NpmLock,
    PnpmLock,
    YarnLock,
    BunLock,
    PackageJson,
    Requirements,
    /// Of poetry, uv and pdm.
    PythonLock,
    PipfileLock,
    PyProject,
    CargoLock,
    CargoManifest,
    GoSum,
    GoMod,
    GemfileLock,
    Gemfile,
    ComposerLock,
    ComposerJson,
}

/// The names of files, with their kinds.
const NAMES: [(&str, FileKind); 20] = [
    ("package-lock.json", FileKind::NpmLock),
    ("npm-shrinkwrap.json", FileKind::NpmLock),
    ("pnpm-lock.yaml", FileKind::PnpmLock),
    ("yarn.lock", FileKind::YarnLock),
    ("bun.lock", FileKind::BunLock),
    ("package.json", FileKind::PackageJson),
    ("requirements.txt", FileKind::Requirements),
    ("poetry.lock", FileKind::PythonLock),
    ("uv.lock", FileKind::PythonLock),
    ("pdm.lock", FileKind::PythonLock),
    ("Pipfile.lock", FileKind::PipfileLock),
    ("pyproject.toml", FileKind::PyProject),
    ("Cargo.lock", FileKind::CargoLock),
    ("Cargo.toml", FileKind::CargoManifest),
    ("go.sum", FileKind::GoSum),
    ("go.mod", FileKind::GoMod),
    ("Gemfile.lock", FileKind::GemfileLock),
    ("Gemfile", FileKind::Gemfile),
    ("composer.lock", FileKind::ComposerLock),
    ("composer.json", FileKind::ComposerJson),
];

/// Receives a name, and a version if there is one.
pub type Sink<'a> = dyn FnMut(&str, Option<&str>) + 'a;

impl FileKind {
    /// Returns the kind of a file, by the last part of its path.
    pub fn of(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// Returns whether it lists what is wanted, not what was installed.
    pub fn is_manifest(self) -> bool {
        matches!(
            self,
            Self::PackageJson
                | Self::PyProject
                | Self::CargoManifest
                | Self::GoMod
                | Self::Gemfile
                | Self::ComposerJson
        )
    }

    /// Returns the ecosystem of its packages.
    pub fn ecosystem(self) -> &'static str {
        match self {
            Self::NpmLock | Self::PnpmLock | Self::YarnLock | Self::BunLock | Self::PackageJson => {
                "npm"
            }
            Self::Requirements | Self::PythonLock | Self::PipfileLock | Self::PyProject => "pypi",
            Self::CargoLock | Self::CargoManifest => "cargo",
            Self::GoSum | Self::GoMod => "go",
            Self::GemfileLock | Self::Gemfile => "gem",
            Self::ComposerLock | Self::ComposerJson => "composer",
        }
    }
}

/// Reads a file.
pub fn read(kind: FileKind, bytes: &[u8], to: &mut Sink<'_>) {
    let bytes = &bytes[..bytes.len().min(FILE_MOST)];
    let text = String::from_utf8_lossy(bytes);
    match kind {
        FileKind::NpmLock => npm_lock(&json(bytes), to),
        FileKind::PnpmLock => pnpm_lock(&text, to),
        FileKind::YarnLock => yarn_lock(&text, to),
        FileKind::BunLock => bun_lock(&text, to),
        FileKind::PackageJson => {
            let keys = ["dependencies", "devDependencies", "optionalDependencies"];
            manifest_tables(&json(bytes), &keys, to);
        }
        FileKind::Requirements => text.lines().for_each(|line| requirement(line, to)),
        FileKind::PythonLock | FileKind::CargoLock => package_blocks(&text, to),
        FileKind::PipfileLock => manifest_tables(&json(bytes), &["default", "develop"], to),
        FileKind::PyProject => pyproject(&text, to),
        FileKind::CargoManifest => cargo_manifest(&text, to),
        FileKind::GoSum | FileKind::GoMod => text.lines().for_each(|line| go_line(line, to)),
        FileKind::GemfileLock => text.lines().for_each(|line| gem_spec(line, to)),
        FileKind::Gemfile => text.lines().for_each(|line| gem_line(line, to)),
        FileKind::ComposerLock => composer_lock(&json(bytes), to),
        FileKind::ComposerJson => {
            manifest_tables(&json(bytes), &["require", "require-dev"], to);
        }
    }
}

/// Parses JSON; anything invalid counts as null.
fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}

fn npm_lock(tree: &Value, to: &mut Sink<'_>) {
    for (path, entry) in tree["packages"].as_object().into_iter().flatten() {
        if let Some((_, name)) = path.rsplit_once("node_modules/") {
            to(name, entry["version"].as_str());
        }
    }
    // The first version nests dependencies.
    let mut open = vec![(&tree["dependencies"], 0)];
    while let Some((level, depth)) = open.pop() {
        for (name, entry) in level.as_object().into_iter().flatten() {
            to(name, entry["version"].as_str());
            if depth < DEPTH {
                open.push((&entry["dependencies"], depth + 1));
            }
        }
    }
}

/// Splits `name@version` at the last `@` that does not start a scope.
fn split_version(text: &str) -> Option<(&str, &str)> {
    let at = text.rfind('@').filter(|at| *at > 0)?;
    Some((&text[..at], &text[at + 1..]))
}

/// Reads keys such as `/stripe@12.0.0:`, `'@slack/web-api@7.0.0(x@1)':` and `/stripe/12.0.0:`.
fn pnpm_lock(text: &str, to: &mut Sink<'_>) {
    let mut inside = false;
    for line in text.lines() {
        if line.is_empty() {
            continue;
        }
        if !line.starts_with(' ') {
            inside = matches!(line.trim_end(), "packages:" | "snapshots:");
            continue;
        }
        let key = line.strip_prefix("  ").filter(|rest| inside && !rest.starts_with(' '));
        let Some(key) = key.and_then(|key| {
            key.trim_end()
                .split_once(": ")
                .map_or_else(|| key.trim_end().strip_suffix(':'), |(key, _)| Some(key))
        }) else {
            continue;
        };
        let key = key.trim_matches(['\'', '"']).trim_start_matches('/');
        let key = key.split('(').next().unwrap_or(key);
        let found = split_version(key).or_else(|| key.rsplit_once('/'));
        if let Some((name, version)) = found {
            to(name, Some(version));
        }
    }
}

/// Reads blocks that begin with `name@range, name@range:`, of either generation.
fn yarn_lock(text: &str, to: &mut Sink<'_>) {
    let mut name: Option<String> = None;
    for line in text.lines() {
        if line.starts_with(['#', ' ']) || line.is_empty() {
            let version = line.trim_start().strip_prefix("version");
            if let (Some(version), Some(name)) = (version, name.take_if(|_| version.is_some())) {
                to(&name, Some(version.trim_start_matches(':').trim().trim_matches('"')));
            }
            continue;
        }
        let first = line.split(',').next().unwrap_or_default();
        let first = first.trim_end_matches(':').trim_matches('"');
        name = first
            .char_indices()
            .find(|(at, letter)| *at > 0 && *letter == '@')
            .map(|(at, _)| first[..at].to_owned());
    }
}

/// Reads lists that begin with `["name@version"`. The file has commas that JSON does not allow.
fn bun_lock(text: &str, to: &mut Sink<'_>) {
    let mut rest = text;
    while let Some(at) = rest.find("[\"") {
        rest = &rest[at + 2..];
        let Some(end) = rest.find('"') else { return };
        if let Some((name, version)) = split_version(&rest[..end]) {
            to(name, Some(version));
        }
        rest = &rest[end..];
    }
}

/// Passes on the names in some tables.
fn manifest_tables(tree: &Value, keys: &[&str], to: &mut Sink<'_>) {
    for key in keys {
        for (name, entry) in tree[*key].as_object().into_iter().flatten() {
            // Pipenv writes `==1.2`, others have ranges.
            let exact = entry["version"].as_str().and_then(|text| text.strip_prefix("=="));
            to(name, exact);
        }
    }
}

/// Reads a line such as `name[extra]==1.2 ; marker`.
fn requirement(line: &str, to: &mut Sink<'_>) {
    let line = line.trim();
    if line.is_empty() || line.starts_with(['#', '-']) {
        return;
    }
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let end = line.find(|letter| !is_name(letter)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let version = rest.split_once("==").map(|(_, text)| text);
    let version = version.and_then(|text| text.split([' ', ';', ',', '\\']).next());
    to(name, version);
}

/// Reads `[[package]]` blocks with `name` and `version`, line by line.
fn package_blocks(text: &str, to: &mut Sink<'_>) {
    let mut inside = false;
    let (mut name, mut version): (Option<String>, Option<String>) = (None, None);
    let value = |line: &str, key: &str| {
        let rest = line.strip_prefix(key)?.trim_start().strip_prefix('=')?.trim();
        Some(rest.trim_matches('"').to_owned())
    };
    for line in text.lines().chain(["[end]"]) {
        if line.starts_with('[') {
            if let Some(name) = name.take() {
                to(&name, version.take().as_deref());
            }
            inside = line.trim_end() == "[[package]]";
            version = None;
        } else if inside {
            name = name.or_else(|| value(line, "name"));
            version = version.or_else(|| value(line, "version"));
        }
    }
}

fn pyproject(text: &str, to: &mut Sink<'_>) {
    let Ok(tree) = toml::from_str::<Value>(text) else { return };
    let project = &tree["project"];
    let groups = [&project["optional-dependencies"], &tree["dependency-groups"]];
    let lists = groups.into_iter().flat_map(|groups| groups.as_object().into_iter().flatten());
    let lists = lists.map(|(_, list)| list).chain([&project["dependencies"]]);
    for line in lists.flat_map(|list| list.as_array().into_iter().flatten()) {
        requirement(line.as_str().unwrap_or_default(), to);
    }
    let poetry = &tree["tool"]["poetry"];
    let groups = poetry["group"].as_object().into_iter().flatten();
    let tables = groups.map(|(_, group)| &group["dependencies"]).chain([&poetry["dependencies"]]);
    for (name, _) in tables.flat_map(|table| table.as_object().into_iter().flatten()) {
        to(name, None);
    }
}

fn cargo_manifest(text: &str, to: &mut Sink<'_>) {
    let Ok(tree) = toml::from_str::<Value>(text) else { return };
    for of in [&tree, &tree["workspace"]] {
        for key in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (name, entry) in of[key].as_object().into_iter().flatten() {
                to(entry["package"].as_str().unwrap_or(name), None);
            }
        }
    }
}

/// Reads `module v1.2.3 …`, with or without `require` before it.
fn go_line(line: &str, to: &mut Sink<'_>) {
    let line = line.trim().trim_start_matches("require ").trim_start_matches('(');
    let mut words = line.split_whitespace();
    if let (Some(name), Some(version)) = (words.next(), words.next())
        && version.starts_with('v')
        && name.contains('.')
    {
        to(name, Some(version.trim_end_matches("/go.mod")));
    }
}

/// Reads `    name (1.2.3)`; the dependencies of a gem are indented further.
fn gem_spec(line: &str, to: &mut Sink<'_>) {
    let Some(spec) = line.strip_prefix("    ").filter(|rest| !rest.starts_with(' ')) else {
        return;
    };
    if let Some((name, version)) = spec.split_once(" (") {
        to(name, Some(version.trim_end().trim_end_matches(')')));
    }
}

/// Reads `gem "name", …`.
fn gem_line(line: &str, to: &mut Sink<'_>) {
    let Some(rest) = line.trim_start().strip_prefix("gem ") else { return };
    let rest = rest.trim_start();
    let Some(quote) = rest.chars().next().filter(|letter| "\"'".contains(*letter)) else { return };
    if let Some((name, _)) = rest[1..].split_once(quote) {
        to(name, None);
    }
}

fn composer_lock(tree: &Value, to: &mut Sink<'_>) {
    for key in ["packages", "packages-dev"] {
        for entry in tree[key].as_array().into_iter().flatten() {
            to(entry["name"].as_str().unwrap_or_default(), entry["version"].as_str());
        }
    }
}

#[cfg(test)]
mod tests;
