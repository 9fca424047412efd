//! The era of pinned packages: old releases have no wheels for later Pythons, do not run on them, or do not run with
//! later releases of their dependencies.

use crate::{
    finding::{Evidence, Findings, Pin},
    host::numbers,
    view::View,
};

/// A package, its first release for current Pythons, and the last line of Python before that.
const PACKAGES: [(&str, &[u32], &str); 27] = [
    ("django", &[2, 2], "3.7"),
    ("django", &[3, 1], "3.9"),
    ("flask", &[1, 0], "3.7"),
    ("flask", &[2, 0], "3.9"),
    ("jinja2", &[3, 0], "3.9"),
    ("markupsafe", &[2, 0], "3.9"),
    ("celery", &[4, 3], "3.6"),
    ("celery", &[5, 0], "3.9"),
    ("pyyaml", &[6, 0], "3.9"),
    ("psycopg2-binary", &[2, 9], "3.9"),
    ("psycopg2-binary", &[2, 9, 5], "3.10"),
    ("numpy", &[1, 23], "3.10"),
    ("pandas", &[1, 5], "3.10"),
    ("scipy", &[1, 9], "3.10"),
    ("pillow", &[9, 3], "3.10"),
    ("lxml", &[4, 9], "3.10"),
    ("greenlet", &[2, 0], "3.10"),
    ("gevent", &[22, 0], "3.10"),
    ("aiohttp", &[3, 8], "3.10"),
    ("uvloop", &[0, 17], "3.10"),
    ("httptools", &[0, 5], "3.10"),
    ("asyncpg", &[0, 27], "3.10"),
    ("cffi", &[1, 15], "3.9"),
    ("orjson", &[3, 8], "3.10"),
    ("mysqlclient", &[2, 1], "3.10"),
    ("grpcio", &[1, 49], "3.10"),
    ("sqlalchemy", &[1, 3], "3.9"),
];

/// Packages that are always compiled, and the program that provides the required headers.
const COMPILED: [(&str, &str); 2] = [("psycopg2", "pg_config"), ("mysqlclient", "mariadb_config")];

/// Adds the programs required to compile packages.
pub(super) fn compiled(view: &View<'_>, files: &[String], found: &mut Findings) {
    for file in files {
        let Some(text) = view.text(file) else { continue };
        for (at, line) in text.lines().enumerate().take(2000) {
            let bare = line.trim_start_matches(['"', '\'', ' ']);
            let known = COMPILED.iter().find(|(package, _)| package_of(bare) == *package);
            if let Some((package, program)) = known {
                let fact = format!("{package} is compiled when it is installed");
                found.needs(program, &Evidence { file: file.clone(), line: at + 1, fact });
            }
        }
    }
}

/// Adds a Python version for requirements older than current ones, unless a file names one.
pub(super) fn read(view: &View<'_>, files: &[String], found: &mut Findings) {
    let pinned = files.iter().filter_map(|file| Some((file, view.text(file)?)));
    let oldest = pinned
        .flat_map(|(file, text)| {
            let lines: Vec<_> = text.lines().enumerate().take(2000).filter_map(of_line).collect();
            lines.into_iter().map(move |(at, package, version, python)| {
                let fact = format!("{package} {version} is of the time of Python {python}");
                (python, Evidence { file: file.clone(), line: at + 1, fact })
            })
        })
        .min_by_key(|(python, _)| numbers(python));
    let is_pinned = found.pins.iter().any(|pin| pin.program == "python3");
    if let Some((python, evidence)) = oldest.filter(|_| !is_pinned) {
        let next = numbers(python).get(1).copied().unwrap_or_default() + 1;
        let version = format!(">={python},<3.{next}");
        found.pins.push(Pin { program: "python3", version, evidence });
    }
}

/// Parses `name==version` of a known package; returns its position, both, and the required Python.
fn of_line((at, line): (usize, &str)) -> Option<(usize, String, String, &'static str)> {
    let (name, version) = pinned(line)?;
    let have = numbers(&version);
    let of_package = PACKAGES.iter().filter(|(package, ..)| *package == name);
    let (_, _, python) = of_package.into_iter().find(|(_, first, _)| have.as_slice() < *first)?;
    (!have.is_empty()).then_some((at, name, version, *python))
}

/// Packages pinned below a release, and a working limit for a dependency whose newer releases break them: such a
/// package accepts any later one, but does not run with it.
const COMPANIONS: [(&str, &[u32], &str, &str); 15] = [
    ("flask", &[2, 0], "werkzeug", "<2"),
    ("flask", &[2, 0], "jinja2", "<3"),
    ("flask", &[2, 0], "itsdangerous", "<2.1"),
    ("flask", &[2, 0], "click", "<8.1"),
    ("flask", &[2, 0], "markupsafe", "<2.1"),
    ("flask", &[2, 3], "werkzeug", "<3"),
    ("jinja2", &[3, 0], "markupsafe", "<2.1"),
    ("flask-sqlalchemy", &[3, 0], "sqlalchemy", "<2"),
    ("flask-login", &[0, 6, 3], "werkzeug", "<3"),
    ("redis", &[5, 0], "kombu", "<5.4"),
    ("celery", &[5, 2, 7], "importlib-metadata", "<5"),
    ("fastapi", &[0, 100], "pydantic", "<2"),
    ("databases", &[0, 8], "sqlalchemy", "<2"),
    ("sqlmodel", &[0, 0, 12], "sqlalchemy", "<2"),
    ("passlib", &[1, 8], "bcrypt", "<4.1"),
];

/// Returns the limits that pinned packages need but do not declare, such as `werkzeug<3` for Flask 2.0.
pub(super) fn limits(view: &View<'_>, files: &[String]) -> Vec<String> {
    let texts: Vec<_> = files.iter().filter_map(|file| view.text(file)).collect();
    let lines: Vec<&str> = texts.iter().flat_map(|text| text.lines().take(2000)).collect();
    let named = |wanted: &str| lines.iter().any(|line| package_of(line) == wanted);
    let mut all: Vec<String> = Vec::new();
    for (name, version) in lines.iter().filter_map(|line| pinned(line)) {
        let have = numbers(&version);
        let fits = COMPANIONS.iter().filter(|(package, first, ..)| {
            *package == name && !have.is_empty() && have.as_slice() < *first
        });
        for (_, _, companion, limit) in fits.filter(|(_, _, companion, _)| !named(companion)) {
            // The first limit of a package is the lowest.
            let is_known = |known: &String| known.starts_with(&format!("{companion}<"));
            if !all.iter().any(is_known) {
                all.push(format!("{companion}{limit}"));
            }
        }
    }
    all
}

/// Returns the package name in a line, normalized as in indexes.
fn package_of(line: &str) -> String {
    let bare = line.split(['#', ';']).next().unwrap_or_default().trim();
    let end = bare.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
    bare[..end.unwrap_or(bare.len())].to_ascii_lowercase().replace(['_', '.'], "-")
}

/// Parses `name==version`.
fn pinned(line: &str) -> Option<(String, String)> {
    let bare = line.split(['#', ';']).next()?.trim();
    let (_, version) = bare.split_once("==")?;
    Some((package_of(bare), version.split([',', ' ']).next()?.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn old_pins_tell_the_python_of_their_time() {
        for (requirements, expected) in [
            ("Django==1.10.5\n", Some(">=3.7,<3.8")),
            ("numpy==1.21.0\nFlask==1.1.2  # old\n", Some(">=3.9,<3.10")),
            ("psycopg2-binary==2.9.1\n", Some(">=3.10,<3.11")),
            ("Django==5.1\nFlask>=1.0\ncelery[redis]==5.3.0\n", None),
            ("django\n", None),
        ] {
            let files = BTreeMap::from([("requirements.txt".to_owned(), requirements.to_owned())]);
            let view = View::of(&files);
            let mut found = Findings::default();
            read(&view, &["requirements.txt".to_owned()], &mut found);
            let version = found.pins.first().map(|pin| pin.version.as_str());
            assert_eq!(version, expected, "{requirements}");
        }
    }

    #[test]
    fn packages_that_are_compiled_need_headers() {
        let text = "psycopg2-binary\n  \"psycopg2>=2.9\",\n";
        let files = BTreeMap::from([("pyproject.toml".to_owned(), text.to_owned())]);
        let mut found = Findings::default();
        compiled(&View::of(&files), &["pyproject.toml".to_owned()], &mut found);
        let needs: Vec<_> =
            found.programs.iter().map(|(name, why)| (name.as_str(), why.line)).collect();
        assert_eq!(needs, [("pg_config", 2)]);
    }

    #[test]
    fn what_old_pins_do_not_run_with_is_limited() {
        for (requirements, expected) in [
            ("Flask==2.0.3\nredis==4.1.4\n", "werkzeug<3 kombu<5.4"),
            (
                "flask==1.1.2\nWerkzeug==1.0.1\n",
                "jinja2<3 itsdangerous<2.1 click<8.1 markupsafe<2.1",
            ),
            ("Flask_SQLAlchemy==2.5.1\n", "sqlalchemy<2"),
            ("Flask==3.0.0\nfastapi==0.115\nredis\n", ""),
        ] {
            let files = BTreeMap::from([("requirements.txt".to_owned(), requirements.to_owned())]);
            let found = limits(&View::of(&files), &["requirements.txt".to_owned()]);
            assert_eq!(found.join(" "), expected, "{requirements}");
        }
    }
}
