//! File-based routing: Next, Remix, SvelteKit, Nuxt.

use super::{
    Found, SourceFile, join,
    scan::{closing, folder, pattern},
};

/// The methods that a handler's file may export.
const VERBS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Framework {
    Next,
    Remix,
    SvelteKit,
    Nuxt,
}

/// Finds pages and handlers in packages that use such a framework.
pub(super) fn find(files: &[SourceFile<'_>]) -> Vec<Found> {
    let exports = pattern(
        r"export\s+(?:const|let|async\s+function|function)\s+(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS|action|loader)\b",
    );
    let listed = pattern(r"export\s+(?:(?:const|let)\s+)?\{([^}]*)\}");
    let mut found = Vec::new();
    for (root, framework) in packages(files) {
        if framework == Framework::Remix {
            let config = |file: &&SourceFile<'_>| {
                below(file.path, &root).is_some_and(|inner| inner.starts_with("app/routes."))
            };
            found.extend(files.iter().filter(config).flat_map(configured));
        }
        for file in files {
            let Some(inner) = below(file.path, &root) else { continue };
            let Some((path, kind)) = route_of(framework, inner) else { continue };
            let methods: Vec<&str> = match kind {
                Kind::Page => vec!["GET"],
                Kind::Any => vec!["ANY"],
                Kind::Only(method) => vec![method],
                Kind::Handlers => {
                    let named = exports.captures_iter(file.text);
                    let own = named.filter_map(|found| Some(found.get(1)?.as_str()));
                    // `export { handler as GET }`, `export const { GET, POST } = handlers`
                    let lists = listed.captures_iter(file.text).filter_map(|found| found.get(1));
                    let names = lists.flat_map(|list| list.as_str().split(','));
                    let names = names.filter_map(|name| name.split_whitespace().next_back());
                    own.chain(names.filter(|name| VERBS.contains(name))).collect()
                }
                Kind::Remix => {
                    let has_action =
                        exports.captures_iter(file.text).any(|found| &found[1] == "action");
                    if has_action { vec!["GET", "POST"] } else { vec!["GET"] }
                }
            };
            found.extend(methods.into_iter().map(|method| Found::new(&path, method, file, 0)));
        }
    }
    found
}

/// Finds the routes of React Router's `app/routes.ts`: calls of `route`, `index` and `prefix` around each other.
fn configured(file: &SourceFile<'_>) -> Vec<Found> {
    let call = pattern(r#"\b(?:(route|prefix)\(\s*['"]([^'"\n]*)['"]|(index)\()"#);
    let calls: Vec<(std::ops::Range<usize>, &str, &str)> = call
        .captures_iter(file.text)
        .filter_map(|found| {
            let at = found.get(0)?.start();
            let open = at + file.text[at..].find('(')?;
            let kind = found.get(1).or(found.get(3))?.as_str();
            Some((
                at..closing(file.text, open),
                kind,
                found.get(2).map_or("", |path| path.as_str()),
            ))
        })
        .collect();
    let shown = calls.iter().filter(|(_, kind, _)| *kind != "prefix").map(|(range, _, own)| {
        let outer =
            calls.iter().filter(|(outer, ..)| outer.start < range.start && range.start < outer.end);
        let around = outer.fold(String::new(), |all, (_, _, path)| join(&all, path));
        Found::new(&join(&around, own), "GET", file, range.start)
    });
    shown.collect()
}

/// Returns the folders of packages that depend on one of the frameworks.
fn packages(files: &[SourceFile<'_>]) -> Vec<(String, Framework)> {
    let known = [
        ("\"next\"", Framework::Next),
        ("\"@remix-run/", Framework::Remix),
        ("\"@react-router/dev\"", Framework::Remix),
        ("\"@sveltejs/kit\"", Framework::SvelteKit),
        ("\"nuxt\"", Framework::Nuxt),
    ];
    let is_package = |file: &&SourceFile<'_>| file.path.rsplit('/').next() == Some("package.json");
    let of = |file: &SourceFile<'_>| {
        let found = known.iter().find(|(word, _)| file.text.contains(word));
        found.map(|(_, framework)| (folder(file.path).to_owned(), *framework))
    };
    files.iter().filter(is_package).filter_map(of).collect()
}

fn below<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    match root {
        "" => Some(path),
        root => path.strip_prefix(root)?.strip_prefix('/'),
    }
}

enum Kind {
    Page,
    Any,
    Only(&'static str),
    /// The functions that the file exports.
    Handlers,
    Remix,
}

fn route_of(framework: Framework, path: &str) -> Option<(String, Kind)> {
    let path =
        path.strip_prefix("src/").filter(|_| framework != Framework::SvelteKit).unwrap_or(path);
    match framework {
        Framework::Next => next(path),
        Framework::Remix => remix(path.strip_prefix("app/routes/")?),
        Framework::SvelteKit => svelte(path.strip_prefix("src/routes/")?),
        Framework::Nuxt => nuxt(path),
    }
}

/// Splits off the extension of a script.
fn script(path: &str) -> Option<&str> {
    let (name, ending) = path.rsplit_once('.')?;
    matches!(ending, "js" | "jsx" | "ts" | "tsx" | "mjs" | "mdx" | "vue").then_some(name)
}

fn next(path: &str) -> Option<(String, Kind)> {
    if let Some(inner) = path.strip_prefix("app/") {
        let (place, name) = inner.rsplit_once('/').unwrap_or(("", inner));
        let kind = match script(name)? {
            "page" => Kind::Page,
            "route" => Kind::Handlers,
            _ => return None,
        };
        if place.split('/').any(|part| part.starts_with('_') || part.starts_with("(.")) {
            return None;
        }
        let shown = place.split('/').filter(|part| !part.starts_with(['(', '@']));
        return Some((shown.collect::<Vec<_>>().join("/"), kind));
    }
    let name = script(path.strip_prefix("pages/")?)?;
    if name.rsplit('/').next().is_some_and(|last| last.starts_with('_')) {
        return None;
    }
    let kind = if name.starts_with("api/") { Kind::Any } else { Kind::Page };
    Some((without_index(name, "index"), kind))
}

fn without_index(name: &str, index: &str) -> String {
    let parts: Vec<&str> = name.split('/').collect();
    let shown =
        parts.iter().enumerate().filter(|(at, part)| *at + 1 < parts.len() || **part != index);
    shown.map(|(_, part)| *part).collect::<Vec<_>>().join("/")
}

fn svelte(path: &str) -> Option<(String, Kind)> {
    let (place, name) = path.rsplit_once('/').unwrap_or(("", path));
    let kind = match name {
        "+page.svelte" => Kind::Page,
        "+server.js" | "+server.ts" => Kind::Handlers,
        _ => return None,
    };
    let shown = place.split('/').filter(|part| !part.starts_with('('));
    Some((shown.collect::<Vec<_>>().join("/"), kind))
}

/// Stands for a dot that separates nothing.
const ESCAPED: &str = "\0";

fn remix(path: &str) -> Option<(String, Kind)> {
    let name = script(path)?;
    let name = match name.split_once('/') {
        Some((folder, "route" | "index")) => folder,
        Some(_) => return None,
        None => name,
    };
    // `[.]` is a dot of the path.
    let name = name.replace("[.]", ESCAPED);
    let parts = name.split('.').filter(|part| !part.starts_with('_')).map(|part| {
        let part = part.trim_end_matches('_').replace(ESCAPED, ".");
        let part = part.trim_start_matches('(').trim_end_matches(')');
        match part.strip_prefix('$') {
            Some("") => "*".to_owned(),
            Some(name) => format!(":{name}"),
            None => part.to_owned(),
        }
    });
    Some((parts.collect::<Vec<_>>().join("/"), Kind::Remix))
}

fn nuxt(path: &str) -> Option<(String, Kind)> {
    let path = path.strip_prefix("app/").unwrap_or(path);
    if let Some(name) = path.strip_prefix("pages/").and_then(|rest| rest.strip_suffix(".vue")) {
        let shown: Vec<&str> = name.split('/').filter(|part| !part.starts_with('(')).collect();
        return Some((without_index(&shown.join("/"), "index"), Kind::Page));
    }
    let (prefix, inner) = match path.strip_prefix("server/api/") {
        Some(inner) => ("api/", inner),
        None => ("", path.strip_prefix("server/routes/")?),
    };
    let name = script(inner)?;
    let methods = [
        (".get", "GET"),
        (".post", "POST"),
        (".put", "PUT"),
        (".patch", "PATCH"),
        (".delete", "DELETE"),
    ];
    let known = methods.iter().find_map(|(end, method)| Some((name.strip_suffix(end)?, *method)));
    let (name, kind) = known.map_or((name, Kind::Any), |(name, method)| (name, Kind::Only(method)));
    Some((without_index(&format!("{prefix}{name}"), "index"), kind))
}
