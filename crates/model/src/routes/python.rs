//! Flask, FastAPI and Django.

use std::collections::BTreeMap;

use super::{
    Found, SourceFile, join,
    scan::{closing, pattern},
};

/// The maximum depth of nested URL lists in Django.
const DEPTH: usize = 6;

/// Finds decorated functions and URL lists.
pub(super) fn find(files: &[SourceFile<'_>]) -> Vec<Found> {
    let files: Vec<SourceFile<'_>> =
        files.iter().filter(|file| file.path.ends_with(".py")).copied().collect();
    let mut found = decorated(&files);
    found.extend(django(&files));
    found
}

fn decorated(files: &[SourceFile<'_>]) -> Vec<Found> {
    let route = pattern(
        r#"(?:@([A-Za-z_]\w*)\.(route|api_route|get|post|put|patch|delete|head|options|websocket)|\b([A-Za-z_]\w*)\.(add_url_rule|add_api_route))\("#,
    );
    let path = pattern(r#"^\s*(?:path\s*=\s*|rule\s*=\s*)?[rf]?['"]([^'"\n]*)['"]"#);
    let methods = pattern(r"methods\s*=\s*[\[(]([^\])]*)[\])]");
    let mounted = mounted(files);
    let mut found = Vec::new();
    for file in files {
        let own = own_prefixes(file);
        for one in route.captures_iter(file.text) {
            let Some(whole) = one.get(0) else { continue };
            let end = closing(file.text, whole.end() - 1);
            let arguments = file.text.get(whole.end()..end).unwrap_or_default();
            let Some(path) = path.captures(arguments) else { continue };
            let Some((router, verb)) = one.get(1).or(one.get(3)).zip(one.get(2).or(one.get(4)))
            else {
                continue;
            };
            let prefix = own.get(router.as_str()).map_or("", String::as_str);
            let outer = mounted.iter().find(|(module, variable, _)| {
                let is_it = variable.as_deref().is_none_or(|name| name == router.as_str());
                is_it && is_module(file.path, module)
            });
            let outer = outer.map_or("", |(_, _, prefix)| prefix.as_str());
            let path = join(outer, &join(prefix, &path[1]));
            let is_list =
                matches!(verb.as_str(), "route" | "api_route" | "add_url_rule" | "add_api_route");
            let verbs: Vec<String> = match (verb.as_str(), methods.captures(arguments)) {
                (_, Some(list)) if is_list => words(&list[1]),
                (_, None) if is_list => vec!["GET".into()],
                ("websocket", _) => vec!["GET".into()],
                (verb, _) => vec![verb.to_owned()],
            };
            found.extend(verbs.iter().map(|verb| Found::new(&path, verb, file, whole.start())));
        }
    }
    found
}

fn words(list: &str) -> Vec<String> {
    let words = list.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// Returns the prefixes of blueprints and routers, by variable name.
fn own_prefixes(file: &SourceFile<'_>) -> BTreeMap<String, String> {
    let made = pattern(r"([A-Za-z_]\w*)\s*=\s*(?:\w+\.)?(?:Blueprint|APIRouter)\(");
    let prefix = pattern(r#"(?:url_prefix|prefix)\s*=\s*['"]([^'"\n]*)['"]"#);
    let mut all = BTreeMap::new();
    for found in made.captures_iter(file.text) {
        let from = found.get(0).map_or(0, |whole| whole.end());
        let arguments = file.text.get(from..closing(file.text, from - 1)).unwrap_or_default();
        if let Some(prefix) = prefix.captures(arguments) {
            all.insert(found[1].to_owned(), prefix[1].to_owned());
        }
    }
    all
}

/// A module, the variable of the router if only that one is meant, and the prefix.
type Mount = (String, Option<String>, String);

/// Returns the prefixes under which routers are included.
fn mounted(files: &[SourceFile<'_>]) -> Vec<Mount> {
    let include = pattern(r"(?:include_router|register_blueprint)\(\s*([A-Za-z_][\w.]*)");
    let prefix = pattern(r#"(?:url_prefix|prefix)\s*=\s*['"]([^'"\n]*)['"]"#);
    let import = pattern(r"from\s+([\w.]+)\s+import\s+([^\n#]+)");
    let mut all = Vec::new();
    for file in files {
        for found in include.captures_iter(file.text) {
            let at = found.get(0).map_or(0, |whole| whole.start());
            let open = at + file.text[at..].find('(').unwrap_or(0);
            let arguments = file.text.get(open..closing(file.text, open)).unwrap_or_default();
            let Some(prefix) = prefix.captures(arguments) else { continue };
            let name = &found[1];
            let module = match name.rsplit_once('.') {
                // `users.router`: the module itself was imported.
                Some((module, _)) => module.rsplit('.').next().unwrap_or(module).to_owned(),
                // A name imported from a module, perhaps renamed.
                None => import
                    .captures_iter(file.text)
                    .find(|line| {
                        line[2].split(',').any(|one| one.trim().rsplit(' ').next() == Some(name))
                    })
                    .map(|line| line[1].trim_start_matches('.').replace('.', "/"))
                    .unwrap_or_default(),
            };
            // A router of this very file.
            let own = file.path.trim_end_matches(".py").to_owned();
            all.push(match module.is_empty() {
                true => (own, Some(name.to_owned()), prefix[1].to_owned()),
                false => (module, None, prefix[1].to_owned()),
            });
        }
    }
    all
}

fn is_module(path: &str, module: &str) -> bool {
    let path = path.trim_end_matches(".py").trim_end_matches("/__init__");
    path == module || path.ends_with(&format!("/{module}"))
}

/// Finds the entries of URL lists, starting at lists that no other includes.
fn django(files: &[SourceFile<'_>]) -> Vec<Found> {
    let entry = pattern(
        r#"\b(path|re_path|url)\(\s*r?['"]([^'"\n]*)['"]\s*,\s*(?:include\(\s*\(?\s*['"]([\w.]+)['"])?"#,
    );
    let lists: Vec<&SourceFile<'_>> =
        files.iter().filter(|file| file.text.contains("urlpatterns")).collect();
    let mut included: BTreeMap<&str, Vec<(String, &str)>> = BTreeMap::new();
    for file in &lists {
        for one in entry.captures_iter(file.text) {
            let Some(module) = one.get(3) else { continue };
            let module = module.as_str().replace('.', "/");
            if let Some(target) = lists.iter().find(|other| is_module(other.path, &module)) {
                included
                    .entry(target.path)
                    .or_default()
                    .push((segment(&one[1], &one[2]), file.path));
            }
        }
    }
    // The routers of Django REST framework.
    let included_router = pattern(r"^\s*include\(\s*\(?\s*(\w+)\.urls");
    let registered = pattern(r#"\b(\w+)\.register\(\s*r?['"]([^'"\n]*)['"]"#);
    let mut found = Vec::new();
    for file in &lists {
        let prefixes = prefixes(file.path, &included, DEPTH);
        for one in entry.captures_iter(file.text).filter(|one| one.get(3).is_none()) {
            // `include(router.urls)` and similar have no path of their own.
            let end = one.get(0).map_or(0, |whole| whole.end());
            let (own, at) =
                (segment(&one[1], &one[2]), one.get(0).map_or(0, |whole| whole.start()));
            if file.text[end..].trim_start().starts_with("include(") {
                let router = included_router.captures(&file.text[end..]);
                let router = router.map(|found| found[1].to_owned());
                let of_it = registered
                    .captures_iter(file.text)
                    .filter(|found| Some(&found[1]) == router.as_deref());
                for one in of_it {
                    let at = one.get(0).map_or(0, |whole| whole.start());
                    let base = join(&own, &one[2]);
                    let paths = [base.clone(), join(&base, "<pk>")];
                    found.extend(prefixes.iter().flat_map(|prefix| {
                        paths
                            .iter()
                            .map(move |path| Found::new(&join(prefix, path), "ANY", file, at))
                    }));
                }
                continue;
            }
            found.extend(
                prefixes.iter().map(|prefix| Found::new(&join(prefix, &own), "ANY", file, at)),
            );
        }
    }
    found
}

fn prefixes(
    file: &str,
    included: &BTreeMap<&str, Vec<(String, &str)>>,
    depth: usize,
) -> Vec<String> {
    let Some(by) = included.get(file).filter(|_| depth > 0) else { return vec![String::new()] };
    let outer = |(prefix, from): &(String, &str)| {
        let around = prefixes(from, included, depth - 1);
        around.into_iter().map(|outer| join(&outer, prefix)).collect::<Vec<_>>()
    };
    by.iter().flat_map(outer).take(16).collect()
}

/// Converts the pattern of an entry to a path.
fn segment(kind: &str, text: &str) -> String {
    if kind == "path" {
        return text.to_owned();
    }
    let named = pattern(r"\(\?P<(\w+)>[^)]*\)");
    let text = named.replace_all(text, "<$1>").into_owned();
    text.trim_start_matches('^').trim_end_matches('$').trim_end_matches("/?").replace('\\', "")
}
