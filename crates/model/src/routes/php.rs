//! Laravel.

use std::ops::Range;

use super::{
    Found, SourceFile, join,
    scan::{closing, pattern},
};

/// Finds the routes declared in files below `routes/`.
pub(super) fn find(files: &[SourceFile<'_>]) -> Vec<Found> {
    let is_routes = |file: &&SourceFile<'_>| {
        file.path.ends_with(".php")
            && (file.path.starts_with("routes/") || file.path.contains("/routes/"))
    };
    files.iter().filter(is_routes).flat_map(read).collect()
}

fn read(file: &SourceFile<'_>) -> Vec<Found> {
    let verb = pattern(
        r#"(?:Route::|->)(get|post|put|patch|delete|options|any|view|redirect)\(\s*['"]([^'"\n]*)['"]\s*,"#,
    );
    let several = pattern(r#"(?:Route::|->)match\(\s*\[([^\]]*)\]\s*,\s*['"]([^'"\n]*)['"]"#);
    let resource = pattern(r#"(?:Route::|->)(apiResource|resource)\(\s*['"]([^'"\n]*)['"]"#);
    let resources = pattern(r"(?:Route::|->)(apiResources|resources)\(\s*\[([^\]]*)\]");
    let key = pattern(r#"['"]([^'"\n]*)['"]\s*=>"#);
    let top = if file.path.ends_with("api.php") { "api" } else { "" };
    let groups = groups(file.text);
    let full = |path: &str, at: usize| {
        let around = groups.iter().filter(|(range, _)| range.contains(&at));
        join(&around.fold(top.to_owned(), |all, (_, prefix)| join(&all, prefix)), path)
    };
    let mut found = Vec::new();
    for one in verb.captures_iter(file.text) {
        let at = one.get(0).map_or(0, |whole| whole.start());
        let method = if matches!(&one[1], "view" | "redirect") { "get" } else { &one[1] };
        found.push(Found::new(&full(&one[2], at), method, file, at));
    }
    for one in several.captures_iter(file.text) {
        let at = one.get(0).map_or(0, |whole| whole.start());
        let verbs =
            one[1].split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
        found.extend(verbs.map(|verb| Found::new(&full(&one[2], at), verb, file, at)));
    }
    let limited = pattern(r"^[^;]*?->(only|except)\(([^)]*)\)");
    for one in resource.captures_iter(file.text) {
        let Some(whole) = one.get(0) else { continue };
        let mut actions = resource_actions(&full(&nested(&one[2]), whole.start()), &one[1]);
        if let Some(limit) = limited.captures(&file.text[whole.end()..]) {
            let named: Vec<&str> = limit[2].split(|c: char| !c.is_ascii_alphabetic()).collect();
            actions.retain(|(action, ..)| named.contains(action) == (&limit[1] == "only"));
        }
        let shown = actions.iter();
        found.extend(shown.map(|(_, path, method)| Found::new(path, method, file, whole.start())));
    }
    for one in resources.captures_iter(file.text) {
        let at = one.get(0).map_or(0, |whole| whole.start());
        let kind = if &one[1] == "apiResources" { "apiResource" } else { "resource" };
        for name in key.captures_iter(&one[2]) {
            let actions = resource_actions(&full(&nested(&name[1]), at), kind);
            found
                .extend(actions.iter().map(|(_, path, method)| Found::new(path, method, file, at)));
        }
    }
    found
}

/// Converts `photos.comments` to `photos/:photo/comments`.
fn nested(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    let outer = parts[..parts.len() - 1].iter();
    let outer: String = outer.map(|part| format!("{part}/:{}/", singular(part))).collect();
    format!("{outer}{}", parts[parts.len() - 1])
}

fn singular(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default().trim_end_matches('s')
}

/// Returns the actions of a resource, with paths and methods.
fn resource_actions(base: &str, kind: &str) -> Vec<(&'static str, String, &'static str)> {
    let item = join(base, &format!(":{}", singular(base)));
    let mut all = vec![
        ("index", base.to_owned(), "GET"),
        ("store", base.to_owned(), "POST"),
        ("show", item.clone(), "GET"),
        ("update", item.clone(), "PUT"),
        ("destroy", item.clone(), "DELETE"),
    ];
    if kind == "resource" {
        all.extend([("create", join(base, "create"), "GET"), ("edit", join(&item, "edit"), "GET")]);
    }
    all
}

/// Returns the ranges of a file that have a prefix, outermost first.
fn groups(text: &str) -> Vec<(Range<usize>, String)> {
    let chained = pattern(r#"prefix\(\s*['"]([^'"\n]*)['"]\s*\)[^;{]*?(?:->|::)group\("#);
    let listed = pattern(r#"Route::group\(\s*\[[^\]]*['"]prefix['"]\s*=>\s*['"]([^'"\n]*)['"]"#);
    let of = |found: regex_lite::Captures<'_>, open: usize| {
        (open..closing(text, open), found[1].to_owned())
    };
    let mut all: Vec<(Range<usize>, String)> = Vec::new();
    for found in chained.captures_iter(text) {
        let open = found.get(0).map_or(0, |whole| whole.end() - 1);
        all.push(of(found, open));
    }
    for found in listed.captures_iter(text) {
        let at = found.get(0).map_or(0, |whole| whole.start());
        let open = at + text[at..].find('(').unwrap_or(0);
        all.push(of(found, open));
    }
    all.sort_by_key(|(range, _)| range.start);
    all
}
