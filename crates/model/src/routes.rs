//! The routes of apps, found in their source by patterns. Pure: the texts of files come in, and an agent may have
//! written them.
//!
//! One module per family of frameworks; each is a function from files to routes. Paths are normalized: `:name` for a
//! segment, `*` for the rest.

mod by_file;
mod compiled;
mod javascript;
mod near;
mod php;
mod python;
mod rails;
mod scan;
pub mod told;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use near::{answers, near_route};

/// The maximum size of a file that is searched, in bytes.
pub const FILE_LIMIT: usize = 512 << 10;

/// The maximum number of routes listed.
pub const ROUTES_LIMIT: usize = 5_000;

/// A path that an app answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Route {
    /// The app's label; `None` if no app has the folder.
    pub app: Option<String>,
    pub path: String,
    /// In upper case, sorted; `ANY` for all.
    pub methods: Vec<String>,
    /// The file and line, the scenario, or the framework that reported it.
    pub source: String,
}

/// A file of a worktree.
#[derive(Clone, Copy, Debug)]
pub struct SourceFile<'a> {
    /// Relative to the worktree, with `/`.
    pub path: &'a str,
    pub text: &'a str,
}

/// Where an app's source is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppFolder {
    pub app: String,
    /// Relative to the worktree; `.` for all of it.
    pub folder: String,
}

/// A route found by the patterns of one framework.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) path: String,
    pub(crate) method: String,
    pub(crate) file: String,
    pub(crate) line: usize,
}

impl Found {
    pub(crate) fn new(path: &str, method: &str, file: &SourceFile<'_>, at: usize) -> Self {
        Self {
            path: plain_path(path),
            method: method.to_ascii_uppercase(),
            file: file.path.to_owned(),
            line: scan::line_at(file.text, at),
        }
    }
}

/// Returns whether a file may declare routes, judging only by its name.
pub fn may_have_routes(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit('.').next().unwrap_or_default();
    let is_test = name.contains(".test.")
        || name.contains(".spec.")
        || name.ends_with("_test.go")
        || name.ends_with(".d.ts");
    let known = matches!(
        ending,
        "js" | "mjs"
            | "cjs"
            | "jsx"
            | "ts"
            | "mts"
            | "tsx"
            | "mdx"
            | "vue"
            | "svelte"
            | "py"
            | "rb"
            | "php"
            | "java"
            | "kt"
            | "rs"
            | "go"
            | "ex"
    );
    name == "package.json" || known && !is_test
}

/// Finds the routes of one family of frameworks.
type Finder = fn(&[SourceFile<'_>]) -> Vec<Found>;

/// Finds the routes of all apps, sorted by app and path.
pub fn find(files: &[SourceFile<'_>], apps: &[AppFolder]) -> Vec<Route> {
    let finders: [Finder; 6] =
        [by_file::find, javascript::find, python::find, rails::find, php::find, compiled::find];
    let mut all: BTreeMap<(Option<String>, String), (BTreeSet<String>, String)> = BTreeMap::new();
    let texts: BTreeMap<&str, &str> = files.iter().map(|file| (file.path, file.text)).collect();
    for found in finders.iter().flat_map(|finder| finder(files)) {
        if all.len() >= ROUTES_LIMIT {
            break;
        }
        if texts.get(&*found.file).is_some_and(|text| scan::is_comment(text, found.line)) {
            continue;
        }
        let key = (app_of(&found.file, apps), found.path);
        let source = format!("{}:{}", found.file, found.line);
        let known = all.entry(key).or_insert_with(|| (BTreeSet::new(), source));
        known.0.insert(found.method);
    }
    let route = |((app, path), (methods, source)): (_, (BTreeSet<String>, String))| Route {
        app,
        path,
        methods: match methods.contains("ANY") {
            true => vec!["ANY".to_owned()],
            false => methods.into_iter().collect(),
        },
        source,
    };
    all.into_iter().map(route).collect()
}

/// Returns the app whose folder holds a file: the innermost, or `None` if several apps share that folder.
fn app_of(file: &str, apps: &[AppFolder]) -> Option<String> {
    let depth = |folder: &str| match folder {
        "." | "" => Some(0),
        folder if file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')) => {
            Some(folder.len())
        }
        _ => None,
    };
    let mut holding: Vec<_> =
        apps.iter().filter_map(|app| Some((depth(&app.folder)?, app))).collect();
    let deepest = holding.iter().map(|(depth, _)| *depth).max()?;
    holding.retain(|(depth, _)| *depth == deepest);
    match holding.as_slice() {
        [(_, app)] => Some(app.app.clone()),
        _ => None,
    }
}

/// Joins a prefix and a path with one slash.
pub(crate) fn join(prefix: &str, path: &str) -> String {
    let (prefix, path) = (prefix.trim_end_matches('/'), path.trim_start_matches('/'));
    match path.is_empty() {
        true => prefix.to_owned(),
        false => format!("{prefix}/{path}"),
    }
}

/// Normalizes a path: `{id}`, `<int:id>`, `[id]` and `$id` become `:id`, catch-alls become `*`.
pub(crate) fn plain_path(path: &str) -> String {
    let path: String = path.chars().filter(|c| !c.is_control()).take(300).collect();
    let parts = path.split('/').filter(|part| !part.is_empty()).map(plain_part);
    let whole: Vec<String> = parts.collect();
    format!("/{}", whole.join("/"))
}

fn plain_part(part: &str) -> String {
    let inner =
        |open: &str, close: &str| part.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    if let Some(name) = inner("{", "}") {
        let name = name.trim_end_matches('?');
        let (name, rule) = name.split_once(':').unwrap_or((name, ""));
        let rest = name.starts_with('*') || name.ends_with("...") || rule == "path";
        return if rest { "*".into() } else { format!(":{name}") };
    }
    if let Some(name) = inner("<", ">") {
        let (rule, name) = name.split_once(':').unwrap_or(("", name));
        return if rule == "path" { "*".into() } else { format!(":{name}") };
    }
    if let Some(name) = inner("[", "]") {
        let name = name.trim_matches(['[', ']']);
        return if name.starts_with("...") {
            "*".into()
        } else {
            format!(":{}", name.split('=').next().unwrap_or(name))
        };
    }
    match part {
        part if part.starts_with('*') => "*".into(),
        part if part.starts_with(':') => {
            let name: String =
                part[1..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            format!(":{name}")
        }
        part => part.to_owned(),
    }
}

#[cfg(test)]
mod tests;
