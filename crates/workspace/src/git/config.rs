//! The git config of a repository, read once, and again only when one of its files has changed.
//!
//! A git process costs milliseconds, and every fork needs the config. So the result is cached
//! together with the state of its files. Git itself lists these files. If it cannot, or if a config
//! includes others, nothing is cached.

use std::{
    collections::BTreeMap,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use hothouse_host::{
    Program, RunError,
    files::{self, FilePrint},
};

use super::{GUARD_FILE, Guard, SETTINGS, hardened, of, with_settings};

/// How many configs are cached.
const REMEMBERED: usize = 256;

/// Cached configs by git directory, with the state of their files.
static KNOWN: Mutex<BTreeMap<PathBuf, (Prints, Config)>> = Mutex::new(BTreeMap::new());

/// The state of config files; `None` for a missing one.
pub(crate) type Prints = Vec<Option<FilePrint>>;

/// The config that git would read for a repository: its own, the user's and the system's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config(Arc<Vec<(String, String)>>);

impl Config {
    /// Returns the config, from the cache if none of its files has changed.
    pub fn of(git_dir: &Path) -> Result<Self, RunError> {
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let before = prints(git_dir);
        if let (Some(before), Some((prints, config))) = (&before, known().get(git_dir))
            && before == prints
        {
            return Ok(config.clone());
        }
        let config = Self::read(git_dir)?;
        let lasting = before.filter(|before| config.is_whole() && are_settled(before));
        let mut known = known();
        match lasting {
            Some(prints) => {
                if known.len() >= REMEMBERED {
                    known.clear();
                }
                known.insert(git_dir.to_owned(), (prints, config.clone()));
            }
            None => drop(known.remove(git_dir)),
        }
        Ok(config)
    }

    fn read(git_dir: &Path) -> Result<Self, RunError> {
        let output = of(git_dir).args(["config", "--list", "-z"]).output()?;
        let text = String::from_utf8_lossy(&output).into_owned();
        let entries = text.split('\0').filter(|entry| !entry.is_empty());
        // A key without a value, such as `[core] bare`, is on its own line.
        let pairs = entries.map(|entry| entry.split_once('\n').unwrap_or((entry, "true")));
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Ok(Self(Arc::new(pairs.collect())))
    }

    /// Whether all of it comes from the files that git reads by default, without includes other
    /// than the guard of a worktree.
    pub(crate) fn is_whole(&self) -> bool {
        let is_include = |key: &str| key.starts_with("include.") || key.starts_with("includeif.");
        self.0.iter().all(|(key, value)| !is_include(key) || value == GUARD_FILE)
    }

    /// Lists the names in a section without subsections.
    pub fn section(&self, section: &str) -> impl Iterator<Item = &str> {
        let keys = self.0.iter().filter_map(|(key, _)| key.split_once('.'));
        keys.filter(move |(of, _)| *of == section).map(|(_, name)| name)
    }

    /// Whether a boolean setting is on.
    pub fn is_on(&self, key: &str) -> bool {
        ["true", "yes", "on", "1"].contains(&self.value(key).to_lowercase().as_str())
    }

    /// Returns the effective value, or an empty text.
    pub fn value(&self, key: &str) -> &str {
        let found = self.0.iter().rev().find(|(name, _)| name == key);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// Whether it contains a key with this prefix and suffix.
    pub fn names(&self, begin: &str, end: &str) -> bool {
        self.0.iter().any(|(key, _)| key.starts_with(begin) && key.ends_with(end))
    }

    /// Returns the settings that disable every program named in it.
    pub fn quiet(&self) -> Quiet {
        let mut settings: Vec<_> = self.0.iter().flat_map(|(key, _)| silencers(key)).collect();
        settings.sort_unstable();
        settings.dedup();
        Quiet(settings)
    }

    /// Returns the settings that keep the user's git from running any program on the files of a worktree.
    pub(crate) fn guard(&self) -> Guard {
        Guard::against(self.0.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    }
}

/// Returns the state of every file that git would read for a repository, or `None` if the files are unknown.
fn prints(git_dir: &Path) -> Option<Prints> {
    prints_of(git_dir, outer_files()?)
}

/// Returns the state of the files that git most likely reads for a repository: an old git does not
/// list them. `None` if one of them cannot be inspected.
pub(crate) fn likely_prints(git_dir: &Path) -> Option<Prints> {
    match outer_files() {
        Some(files) => prints_of(git_dir, files),
        None => prints_of(git_dir, &usual_files()),
    }
}

fn prints_of(git_dir: &Path, outer: &[PathBuf]) -> Option<Prints> {
    let common = match files::read_capped(&git_dir.join("commondir"), 4096) {
        Err(error) if error.is_not_found() => git_dir.to_owned(),
        Ok(text) => git_dir.join(std::ffi::OsStr::from_bytes(text.trim_ascii_end())),
        Err(_) => return None,
    };
    let own = [common.join("config"), common.join("config.worktree")];
    let of_worktree = [git_dir.join("config.worktree"), git_dir.join(GUARD_FILE)];
    let files = own.iter().chain(&of_worktree).chain(outer);
    files.map(|file| files::print(file).ok()).collect()
}

/// Returns the user's and the system's config files at git's default paths.
fn usual_files() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.unwrap_or_else(|| home.join(".config"));
    vec!["/etc/gitconfig".into(), home.join(".gitconfig"), config.join("git/config")]
}

/// Whether no file was written so recently that a second change would look the same.
pub(crate) fn are_settled(prints: &Prints) -> bool {
    prints.iter().flatten().all(FilePrint::is_settled)
}

/// Returns the user's and the system's config files, as git lists them (since git 2.42).
fn outer_files() -> Option<&'static [PathBuf]> {
    static FILES: OnceLock<Option<Vec<PathBuf>>> = OnceLock::new();
    let ask = |what: &str| {
        let run = hardened().args(["var", what]).run().ok()?;
        let text = String::from_utf8(run.stdout).ok()?;
        match run.status.code() {
            Some(0) => Some(text.lines().map(PathBuf::from).collect()),
            // A variable disables it.
            Some(1) if text.is_empty() => Some(Vec::new()),
            _ => None,
        }
    };
    let find = || -> Option<Vec<PathBuf>> {
        let (system, user) = (ask("GIT_CONFIG_SYSTEM")?, ask("GIT_CONFIG_GLOBAL")?);
        Some(system.into_iter().chain(user).collect())
    };
    FILES.get_or_init(find).as_deref()
}

/// Settings that disable every program that the user's config would run on files: filters,
/// textconv, external diffs and merge drivers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quiet(Vec<(String, &'static str)>);

impl Quiet {
    /// Adds the settings to a git command.
    pub fn apply(&self, program: Program) -> Program {
        let own = self.0.iter().map(|(key, value)| (key.as_str(), *value));
        with_settings(program, SETTINGS.iter().copied().chain(own))
    }
}

/// Returns the settings that keep a config key from running anything.
pub(super) fn silencers(key: &str) -> Vec<(String, &'static str)> {
    let Some((section, rest)) = key.split_once('.') else { return Vec::new() };
    if key == "diff.external" {
        return vec![(key.to_owned(), "false")];
    }
    let Some((name, variable)) = rest.rsplit_once('.') else { return Vec::new() };
    let set = |variable: &str, value| (format!("{section}.{name}.{variable}"), value);
    match (section, variable) {
        // An empty filter disables it. A required filter must become optional.
        ("filter", _) => {
            vec![set("clean", ""), set("smudge", ""), set("process", ""), set("required", "false")]
        }
        // It cannot be unset; `cat` changes nothing.
        ("diff", "textconv") => vec![set("textconv", "cat")],
        // Callers pass `--no-ext-diff`; without it git fails instead of running the command.
        ("diff", "command") => vec![set("command", "false")],
        // A driver that fails leaves a conflict, which the user can resolve.
        ("merge", "driver") => vec![set("driver", "false")],
        ("trailer", "command" | "cmd") => vec![set(variable, "false")],
        ("submodule", "update") => vec![set("update", "none")],
        _ => Vec::new(),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files by plain means")]
mod tests {
    use super::*;

    /// Waits until a later change of a file would be noticed.
    fn settle(path: &Path) {
        while !files::print(path).unwrap().unwrap().is_settled() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_change_of_a_file_is_seen_immediately() {
        let folder = tempfile::tempdir().unwrap();
        let git_dir = folder.path().join(".git");
        hardened().args(["init", "--quiet"]).arg(folder.path()).output().unwrap();
        let file = git_dir.join("config");
        settle(&file);
        assert_eq!(Config::of(&git_dir).unwrap().value("a.b"), "");
        assert!(KNOWN.lock().unwrap().contains_key(&git_dir) || outer_files().is_none());
        assert_eq!(Config::of(&git_dir).unwrap().value("a.b"), "");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{text}[a]\n\tb = 1\n")).unwrap();
        assert_eq!(Config::of(&git_dir).unwrap().value("a.b"), "1");
        settle(&file);
        assert_eq!(Config::of(&git_dir).unwrap().value("a.b"), "1");
        std::fs::write(&file, format!("{text}[a]\n\tb = 2\n")).unwrap();
        assert_eq!(Config::of(&git_dir).unwrap().value("a.b"), "2");
        std::fs::write(git_dir.join("config.worktree"), "[a]\n\tb = 3\n").unwrap();
        let on = format!("{text}[extensions]\n\tworktreeConfig = true\n");
        std::fs::write(&file, on).unwrap();
        assert_eq!(Config::of(&git_dir).unwrap().value("a.b"), "3");
    }

    #[test]
    fn a_config_that_includes_others_is_asked_for_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let git_dir = folder.path().join(".git");
        hardened().args(["init", "--quiet"]).arg(folder.path()).output().unwrap();
        let (file, other) = (git_dir.join("config"), folder.path().join("other"));
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{text}[include]\n\tpath = {}\n", other.display())).unwrap();
        settle(&file);
        for value in ["1", "2"] {
            std::fs::write(&other, format!("[a]\n\tb = {value}\n")).unwrap();
            assert_eq!(Config::of(&git_dir).unwrap().value("a.b"), value);
        }
        assert!(!KNOWN.lock().unwrap().contains_key(&git_dir));
    }

    #[test]
    fn every_kind_of_program_in_a_config_is_switched_off() {
        let keys = |key: &str| {
            silencers(key)
                .into_iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            keys("filter.a.b.clean"),
            [
                "filter.a.b.clean=",
                "filter.a.b.smudge=",
                "filter.a.b.process=",
                "filter.a.b.required=false"
            ]
        );
        assert_eq!(keys("diff.pdf.textconv"), ["diff.pdf.textconv=cat"]);
        assert_eq!(keys("diff.pdf.command"), ["diff.pdf.command=false"]);
        assert_eq!(keys("diff.external"), ["diff.external=false"]);
        assert_eq!(keys("merge.ours.driver"), ["merge.ours.driver=false"]);
        for harmless in ["core.pager", "diff.renames", "merge.tool", "nonsense", ""] {
            assert_eq!(keys(harmless), Vec::<String>::new(), "{harmless}");
        }
    }
}
