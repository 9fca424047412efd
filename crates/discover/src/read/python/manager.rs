//! Python package managers: uv, Poetry, PDM, Pipenv, pip.

use crate::{
    finding::{Findings, Install},
    host::HostFacts,
    text,
    view::View,
};

/// The Python environment of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Environment {
    manager: &'static str,
    dir: String,
    /// The files that pip installs.
    files: Vec<String>,
    /// The path from a command's folder to that of its virtual environment.
    up: String,
    evidence: String,
}

/// Whether a folder's `src` is a package of the same project: it has a manifest, and the requirements are beside it.
pub(super) fn has_package_beside(view: &View<'_>, dir: &str) -> bool {
    let source = text::join(dir, "src");
    let is_package = view.first(&source, &["setup.py", "pyproject.toml"]).is_some();
    let own = ["requirements.txt", "uv.lock", "poetry.lock", "Pipfile", "pdm.lock"];
    is_package
        && view.first(&source, &own).is_none()
        && view.has(&text::join(dir, "requirements.txt"))
}

/// Requirements files, in order of preference.
const REQUIREMENTS: [&str; 11] = [
    "requirements/dev.txt",
    "requirements/local.txt",
    "requirements/development.txt",
    "requirements-dev.txt",
    "dev-requirements.txt",
    "requirements.txt",
    "requirements/base.txt",
    "requirements/requirements.txt",
    "requirements/common.txt",
    "requirements/production.txt",
    "requirements.in",
];

impl Environment {
    /// Determines the manager from lockfiles and manifests.
    pub(super) fn of(view: &View<'_>, dir: &str) -> Option<Self> {
        let at = |name: &str| Some(text::join(dir, name)).filter(|path| view.has(path));
        let make = |manager: &'static str, evidence: String, files: Vec<String>| {
            Some(Self { manager, dir: dir.to_owned(), files, up: String::new(), evidence })
        };
        let pyproject = at("pyproject.toml");
        let tool = |name: &str| {
            pyproject
                .as_ref()
                .and_then(|path| view.toml(path))
                .is_some_and(|value| value["tool"][name].is_object())
        };
        if let Some(path) = at("uv.lock") {
            return make("uv", path, vec![]);
        }
        if let Some(path) =
            at("poetry.lock").or_else(|| pyproject.clone().filter(|_| tool("poetry")))
        {
            return make("poetry", path, vec![]);
        }
        if let Some(path) = at("pdm.lock") {
            return make("pdm", path, vec![]);
        }
        if let Some(path) = at("Pipfile") {
            return make("pipenv", path, vec![]);
        }
        let mut files: Vec<&str> =
            REQUIREMENTS.into_iter().filter(|name| at(name).is_some()).collect();
        // A development file usually includes the other one; both are harmless.
        let is_plain = |name: &&str| !name.contains('/');
        // `requirements.txt` was compiled from it.
        if files.contains(&"requirements.txt") {
            files.retain(|name| *name != "requirements.in");
        }
        if files.iter().any(&is_plain) {
            files.retain(|name| is_plain(name));
        } else {
            files.truncate(1);
        }
        if let Some(first) = files.first() {
            let evidence = text::join(dir, first);
            return make("pip", evidence, files.iter().map(|file| (*file).to_owned()).collect());
        }
        let is_project = pyproject
            .as_ref()
            .and_then(|path| view.toml(path))
            .is_some_and(|value| value["project"].is_object());
        let whole = pyproject.filter(|_| is_project).or_else(|| at("setup.py"));
        whole.and_then(|path| make("pip", path, vec![]))
    }

    /// Returns the environment of a parent folder.
    pub(super) fn above(view: &View<'_>, above: &str, dir: &str) -> Self {
        let depth = dir
            .strip_prefix(above)
            .unwrap_or(dir)
            .split('/')
            .filter(|part| !part.is_empty())
            .count();
        let of_above = Self::of(view, above).unwrap_or_else(|| Self::bare(above));
        Self { up: "../".repeat(depth), dir: above.to_owned(), ..of_above }
    }

    /// Returns the same environment for a folder below.
    pub(super) fn below(&self, dir: &str) -> Self {
        let parts = |path: &str| path.split('/').filter(|part| !part.is_empty()).count();
        let depth = parts(dir).saturating_sub(parts(&self.dir));
        Self { up: "../".repeat(depth), ..self.clone() }
    }

    /// Returns the environment of a folder without declared dependencies.
    pub(super) fn bare(dir: &str) -> Self {
        Self {
            manager: "none",
            dir: dir.to_owned(),
            files: vec![],
            up: String::new(),
            evidence: String::new(),
        }
    }

    /// Returns the command that runs a program of the environment.
    pub(super) fn run(&self, line: &str) -> String {
        let up = &self.up;
        match self.manager {
            "uv" => format!("uv run {line}"),
            "poetry" => format!("poetry run {line}"),
            "pdm" => format!("pdm run {line}"),
            "pipenv" => format!("pipenv run {line}"),
            "pip" => match line.strip_prefix("python ") {
                Some(rest) => format!("{up}.venv/bin/python {rest}"),
                None => format!("{up}.venv/bin/{line}"),
            },
            _ => line.replacen("python ", "python3 ", 1),
        }
    }

    /// Adds the install step.
    pub(super) fn install(&self, view: &View<'_>, host: &HostFacts, found: &mut Findings) {
        let line = match self.manager {
            "uv" if view.has(&text::join(&self.dir, "uv.lock")) => "uv sync --frozen".to_owned(),
            "poetry" => {
                "POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install --no-interaction".to_owned()
            }
            "pdm" => "pdm sync".to_owned(),
            "pipenv" if view.has(&text::join(&self.dir, "Pipfile.lock")) => {
                "PIPENV_VENV_IN_PROJECT=1 pipenv sync --dev".to_owned()
            }
            "pipenv" => "PIPENV_VENV_IN_PROJECT=1 pipenv install --dev".to_owned(),
            _ => self.by_pip(view),
        };
        let program = self.manager;
        let run = match program == "pip" || host.has(program) {
            true => line,
            // Packages that Python itself can install need no program of the host.
            false => format!(
                "{{ command -v {program} >/dev/null || {{ python3 -m venv ~/.local/tools && ~/.local/tools/bin/pip install --quiet {program} && mkdir -p ~/.local/bin && ln -sf ~/.local/tools/bin/{program} ~/.local/bin/; }}; }} && {line}"
            ),
        };
        let evidence =
            view.evidence(&self.evidence, "", format!("dependencies are installed by {program}"));
        found.needs("python3", &evidence);
        if program != "pip" && host.has(program) {
            found.needs(program, &evidence);
        }
        found.installs.push(Install {
            manager: self.manager,
            dir: self.dir.clone(),
            run,
            fills: vec![".venv"],
            evidence: vec![evidence],
        });
    }

    /// Returns limits for unpinned dependencies that break the requirements.
    fn limits(&self, view: &View<'_>) -> Vec<String> {
        let mut files: Vec<String> =
            self.files.iter().map(|file| text::join(&self.dir, file)).collect();
        // Files that the requirements include.
        let folder = text::join(&self.dir, "requirements");
        let included: Vec<_> = view.below(&folder).filter(|path| path.ends_with(".txt")).collect();
        files.extend(included.iter().take(20).map(|path| (*path).to_owned()));
        let limits = super::era::limits(view, &files);
        limits.iter().map(|limit| text::shell_word(limit)).collect()
    }

    /// Returns the install command of pip. It writes the marker last, so an interrupted install is repeated.
    fn by_pip(&self, view: &View<'_>) -> String {
        let what = match self.files.is_empty() {
            true => "-e .".to_owned(),
            false => self
                .files
                .iter()
                .map(|file| format!("-r {}", text::shell_word(file)))
                .chain(has_package_beside(view, &self.dir).then(|| "-e ./src".to_owned()))
                .chain(self.limits(view))
                .collect::<Vec<_>>()
                .join(" "),
        };
        format!(
            "test -e .venv/.installed || {{ python3 -m venv .venv && .venv/bin/pip install --quiet --disable-pip-version-check {what} && touch .venv/.installed; }}"
        )
    }
}
