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
    for one in resource.captures_iter(file.text) {
        let at = one.get(0).map_or(0, |whole| whole.start());
        let base = full(&one[2], at);
        let name = one[2].rsplit('/').next().unwrap_or_default().trim_end_matches('s').to_owned();
        let item = join(&base, &format!(":{name}"));
        let mut all = vec![
            (base.clone(), "GET"),
            (base.clone(), "POST"),
            (item.clone(), "GET"),
            (item.clone(), "PUT"),
            (item.clone(), "DELETE"),
        ];
        if &one[1] == "resource" {
            all.extend([(join(&base, "create"), "GET"), (join(&item, "edit"), "GET")]);
        }
        found.extend(all.iter().map(|(path, method)| Found::new(path, method, file, at)));
    }
    found
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
