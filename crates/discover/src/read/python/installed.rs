//! Python commands that find their project's installed packages.

use crate::{finding::Findings, text};

/// Programs from Python packages.
const PROGRAMS: [&str; 18] = [
    "python",
    "python3",
    "gunicorn",
    "uvicorn",
    "flask",
    "celery",
    "rq",
    "arq",
    "dramatiq",
    "streamlit",
    "fastapi",
    "hypercorn",
    "daphne",
    "granian",
    "huey_consumer",
    "watchfiles",
    "django-admin",
    "alembic",
];

const MANAGERS: [&str; 5] = ["pip", "uv", "poetry", "pipenv", "pdm"];

/// Whether a program comes from a Python package.
pub(crate) fn is_program(name: &str) -> bool {
    PROGRAMS.contains(&name)
}

/// Adapts a command in a folder so that it finds the packages that its project installs. `is_script` means that it is a
/// script, which starts such programs itself.
pub(crate) fn found_from(found: &Findings, dir: &str, line: &str, is_script: bool) -> String {
    let first = text::words(line).into_iter().next().unwrap_or_default();
    let install = found.install_for(dir, &MANAGERS);
    let install = install.filter(|_| is_program(&first) || is_script);
    match install.map(|install| (install.manager, &install.dir)) {
        Some(("pip", of)) => {
            let depth = |dir: &str| dir.split('/').filter(|part| !part.is_empty()).count();
            let up = "../".repeat(depth(dir) - depth(of));
            match is_script {
                true => format!("PATH=\"$PWD/{up}.venv/bin:$PATH\" {line}"),
                false => format!("{up}.venv/bin/{line}"),
            }
        }
        Some((manager, _)) => format!("{manager} run {line}"),
        None => line.to_owned(),
    }
}
