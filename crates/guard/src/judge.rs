//! What may be written and read.

use std::path::{Path, PathBuf};

use crate::{
    Confidence, Decision, Files, Finding, Link, Mode, Scene, Severity, Verdict,
    scene::{lexical, physical},
    secrets,
    shell::{State, Word},
};

/// The maximum number of findings per call.
const FINDINGS: usize = 64;

/// Collects findings while a call is read.
pub(crate) struct Judge<'a> {
    pub(crate) scene: &'a Scene<'a>,
    pub(crate) state: State,
    root: PathBuf,
    also: Vec<PathBuf>,
    findings: Vec<Finding>,
}

/// A change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Write,
    Remove,
    Attributes,
}

/// The file system, including links that the command itself has created so far.
struct Seen<'a> {
    files: &'a dyn Files,
    links: &'a [(PathBuf, PathBuf)],
}

impl Files for Seen<'_> {
    fn look(&self, path: &Path) -> Link {
        match self.links.iter().rev().find(|(at, _)| at == path) {
            Some((_, target)) => Link::To(target.clone()),
            None => self.files.look(path),
        }
    }
}

impl<'a> Judge<'a> {
    pub(crate) fn new(scene: &'a Scene<'a>, folder: Option<&Path>) -> Self {
        let folder = folder.map_or_else(|| scene.folder.clone(), |own| scene.folder.join(own));
        let whole = |path: &Path| physical(scene.files, path).unwrap_or_else(|| path.to_owned());
        let root = whole(&scene.root);
        // A folder above the sandbox would make its siblings writable too.
        let also = scene.also.iter().map(|path| whole(path)).filter(|path| !root.starts_with(path));
        let also = also.filter(|path| path.parent().is_some()).collect();
        Self { scene, state: State::new(lexical(&folder)), root, also, findings: Vec::new() }
    }

    pub(crate) fn conclude(self) -> Decision {
        Decision::of(self.findings)
    }

    pub(crate) fn find(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS {
            self.findings.push(finding);
        }
    }

    /// Adds a finding about `target`.
    pub(crate) fn note(
        &mut self,
        verdict: Verdict,
        severity: Severity,
        confidence: Confidence,
        target: &str,
        reason: impl Into<String>,
    ) {
        let target = target.to_owned();
        self.find(Finding { verdict, severity, confidence, target, reason: reason.into() });
    }

    /// Reports something that the guard does not understand: the user is asked, or it is denied.
    pub(crate) fn unknown(&mut self, target: &str, what: &str) {
        let (verdict, then) = match self.scene.mode {
            Mode::Ask => (Verdict::Ask, ""),
            Mode::Deny => (Verdict::Deny, ", and in this mode nothing is asked"),
        };
        let shown = shown(target);
        self.note(
            verdict,
            Severity::Medium,
            Confidence::Low,
            target,
            format!(
                "the guard cannot tell what {what} does{}{then}; write it out plainly, with literal paths below `{}`",
                if shown.is_empty() { String::new() } else { format!(" (`{shown}`)") },
                self.root.display()
            ),
        );
    }

    pub(crate) fn write_text(&mut self, path: &str) {
        self.change(&Word::plain(path), Change::Write);
    }

    pub(crate) fn read_text(&mut self, path: &str) {
        self.read(&Word::plain(path));
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether a path may be written.
    pub(crate) fn is_inside(&self, path: &Path) -> bool {
        self.paths(&path.to_string_lossy()).is_some_and(|all| {
            all.iter().all(|path| path.starts_with(&self.root) || self.is_also(path))
        })
    }

    fn is_also(&self, path: &Path) -> bool {
        self.also.iter().any(|also| path.starts_with(also))
    }

    /// Resolves a text from each folder that the command may be in; `None` if that is not known.
    pub(crate) fn paths(&self, text: &str) -> Option<Vec<PathBuf>> {
        let seen = Seen { files: self.scene.files, links: &self.state.links };
        let path = Path::new(text);
        if path.is_absolute() {
            return Some(vec![physical(&seen, path)?]);
        }
        let folders = self.state.folders.as_ref()?;
        folders.iter().map(|folder| physical(&seen, &folder.join(path))).collect()
    }

    /// Like [`Self::paths`], but without following a link at the end.
    fn places(&self, text: &str) -> Option<Vec<PathBuf>> {
        let path = Path::new(text);
        match (path.file_name(), path.parent(), text.ends_with('/')) {
            (Some(name), Some(parent), false) => {
                let parent = if parent.as_os_str().is_empty() { "." } else { parent.to_str()? };
                Some(self.paths(parent)?.into_iter().map(|folder| folder.join(name)).collect())
            }
            _ => self.paths(text),
        }
    }

    pub(crate) fn look(&self, path: &Path) -> Link {
        Seen { files: self.scene.files, links: &self.state.links }.look(path)
    }

    /// Judges a write or removal of a file.
    pub(crate) fn change(&mut self, word: &Word, change: Change) {
        let known = word.known_folder();
        // `$X/../..` may lead anywhere.
        if word.text[word.known().len()..].contains("..") {
            return self.unknown(&word.text, "a change of a path that is only known later");
        }
        let text = if word.is_known() { word.text.as_str() } else { known };
        if text.is_empty() && !word.is_known() {
            return self.unknown(&word.text, "a change of a path that is only known later");
        }
        if text.is_empty() {
            return;
        }
        // Links of this process say nothing about the streams of the one that is judged.
        if text.starts_with('/') && is_stream(&lexical(Path::new(text))) {
            return;
        }
        let paths = match change {
            Change::Remove => self.places(text),
            _ => self.paths(text),
        };
        let Some(paths) = paths else {
            if text.starts_with('/') || self.state.folders.is_some() {
                let reason =
                    format!("`{}` leads in circles, or is too long; use a plain path", shown(text));
                return self.note(Verdict::Deny, Severity::Medium, Confidence::High, text, reason);
            }
            return self.unknown(text, "a change in a folder that is only known later");
        };
        for path in paths {
            self.change_at(&path, text, change, word.is_known());
        }
        if !word.is_known() && self.scene.mode == Mode::Deny {
            self.unknown(&word.text, "a change of a path that is only known later");
        }
    }

    fn change_at(&mut self, path: &Path, text: &str, change: Change, whole: bool) {
        let confidence = if whole { Confidence::High } else { Confidence::Medium };
        let verb = match change {
            Change::Write => "writes",
            Change::Remove => "removes",
            Change::Attributes => "changes the attributes of",
        };
        let is_device = ["/dev/shm", "/dev/pts"].iter().any(|folder| path.starts_with(folder));
        if is_stream(path) || is_device || self.is_also(path) {
            return;
        }
        let shown_path = path.display();
        if !path.starts_with(&self.root) {
            let root = self.root.display();
            let severity = match change {
                Change::Remove => Severity::Critical,
                _ => Severity::High,
            };
            let through = match Path::new(text) == path {
                true => String::new(),
                false => format!(" (`{}` leads there)", shown(text)),
            };
            return self.note(
                Verdict::Deny,
                severity,
                confidence,
                &path.to_string_lossy(),
                format!("this {verb} `{shown_path}`{through}, which is outside of the sandbox; use a path below `{root}`"),
            );
        }
        self.change_inside(path, change, verb);
    }

    /// Reports certain changes even inside the sandbox.
    fn change_inside(&mut self, path: &Path, change: Change, verb: &str) {
        let below = path.strip_prefix(&self.root).unwrap_or(path).to_owned();
        let target = path.to_string_lossy().into_owned();
        if below.as_os_str().is_empty() && change == Change::Remove {
            return self.note(
                Verdict::Deny,
                Severity::Critical,
                Confidence::High,
                &target,
                "this removes the sandbox itself; remove the files that you mean, by name",
            );
        }
        if change != Change::Attributes && is_own_hook(&below, change) {
            return self.note(
                Verdict::Deny,
                Severity::High,
                Confidence::High,
                &target,
                format!(
                    "this {verb} `{}`, where the guard is installed; ask your user to change it",
                    below.display()
                ),
            );
        }
        if below.starts_with(".git") && change == Change::Remove && below.components().count() == 1
        {
            return self.note(
                Verdict::Deny,
                Severity::High,
                Confidence::High,
                &target,
                "this removes the repository's `.git`; use git commands, such as `git restore` or `git reset`",
            );
        }
        let kept = [".git/objects", ".git/refs", ".git/HEAD", ".git/packed-refs"];
        if change == Change::Remove && kept.iter().any(|own| below.starts_with(own)) {
            return self.note(
                Verdict::Deny,
                Severity::High,
                Confidence::High,
                &target,
                "this removes commits or branches of the repository; use git commands, such as `git branch -d`",
            );
        }
        if below.starts_with(".git/hooks") || below == Path::new(".git/config") {
            self.note(
                Verdict::Allow,
                Severity::Medium,
                Confidence::High,
                &target,
                format!("this {verb} `{}`, which git executes", below.display()),
            );
        }
    }

    /// Judges a read of a file.
    pub(crate) fn read(&mut self, word: &Word) {
        let text = if word.is_known() { word.text.as_str() } else { word.known_folder() };
        let Some(paths) = self.paths(text).filter(|_| !text.is_empty()) else { return };
        for path in paths {
            let target = path.to_string_lossy().into_owned();
            if let Some(what) = secrets::file(&path, &self.scene.home) {
                self.note(
                    Verdict::Deny,
                    Severity::High,
                    if word.is_known() { Confidence::High } else { Confidence::Medium },
                    &target,
                    format!("this reads `{}`, which holds {what}; ask your user for what you need (`hothouse ask`)", path.display()),
                );
            } else if path.starts_with(&self.scene.home)
                && !path.starts_with(&self.root)
                && !self.is_also(&path)
                && !self.scene.in_room
            {
                self.note(
                    Verdict::Allow,
                    Severity::Low,
                    Confidence::High,
                    &target,
                    format!("reads `{}`, outside of the sandbox", path.display()),
                );
            } else if path.starts_with(&self.root) && secrets::is_env_file(&path) {
                self.note(
                    Verdict::Allow,
                    Severity::Medium,
                    Confidence::Medium,
                    &target,
                    format!("reads `{}`, which may hold secrets", path.display()),
                );
            }
        }
    }

    /// Judges a request for a page. The wall of the room decides whether it is reachable.
    pub(crate) fn fetch(&mut self, url: &str) {
        if let Some(path) = url.strip_prefix("file://") {
            return self.read_text(path);
        }
        self.secrets_in(url);
        let host = crate::programs::host_of(url).unwrap_or_default();
        self.note(
            Verdict::Allow,
            Severity::Low,
            Confidence::High,
            &host,
            format!("fetches from `{}`", shown(&host)),
        );
    }

    /// Denies a text that contains a secret value.
    pub(crate) fn secrets_in(&mut self, text: &str) {
        if let Some(what) = secrets::value(text) {
            self.note(
                Verdict::Deny,
                Severity::High,
                Confidence::Medium,
                what,
                format!("this holds {what} in plain text; let your user set it with `hothouse secret set`, and name the variable"),
            );
        }
    }
}

/// Devices that are streams, not files. Below a descriptor of a folder there are files.
fn is_stream(path: &Path) -> bool {
    const STREAMS: [&str; 7] = [
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "/dev/tty",
        "/dev/stdin",
        "/dev/stdout",
        "/dev/stderr",
    ];
    let is_descriptor = || {
        let folder = path.parent();
        ["/dev/fd", "/proc/self/fd"].iter().any(|own| folder == Some(Path::new(own)))
    };
    STREAMS.iter().any(|stream| path == Path::new(stream)) || is_descriptor()
}

/// Whether a text names a file that configures hooks of tools.
pub(crate) fn names_hook(text: &str) -> bool {
    is_own_hook(Path::new(text.trim_start_matches("./")), Change::Write)
}

/// Whether a path below the sandbox configures hooks of tools.
fn is_own_hook(below: &Path, change: Change) -> bool {
    const HOOKS: [&str; 9] = [
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".claude/hooks",
        ".codex/hooks.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".cursor/hooks.json",
        ".github/hooks/hothouse.json",
        ".opencode/plugin/hothouse.js",
    ];
    // Removing a folder removes the hooks in it.
    let holds = |hook: &str| change == Change::Remove && Path::new(hook).starts_with(below);
    let is_whole = below.as_os_str().is_empty() || below == Path::new(".github");
    !is_whole && HOOKS.iter().any(|hook| below.starts_with(hook) || holds(hook))
}

/// Formats a text for a message: one line, truncated.
pub(crate) fn shown(text: &str) -> String {
    const SHOWN: usize = 120;
    let line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect();
    if text.chars().count() > SHOWN { format!("{line}…") } else { line }
}
