//! Spring, axum, actix, Gin and similar frameworks.

use std::{collections::BTreeMap, ops::Range};

use super::{
    Found, SourceFile, join,
    scan::{closing, pattern},
};

/// Finds annotations, attributes and calls with a path.
pub(super) fn find(files: &[SourceFile<'_>]) -> Vec<Found> {
    let nests = nests(files);
    let of = |file: &SourceFile<'_>| match file.path.rsplit('.').next().unwrap_or_default() {
        "java" | "kt" => spring(file),
        "rs" => axum(file, &nests).into_iter().chain(actix(file)).collect(),
        "go" => go(file),
        _ => Vec::new(),
    };
    files.iter().flat_map(of).collect()
}

fn spring(file: &SourceFile<'_>) -> Vec<Found> {
    let mapping = pattern(r"@(Get|Post|Put|Patch|Delete|Request)Mapping\b");
    let path = pattern(r#"['"]([^'"\n]*)['"]"#);
    let method = pattern(r"RequestMethod\.(\w+)|method\s*=\s*\[?\s*(GET|POST|PUT|PATCH|DELETE)");
    let class = pattern(r"(?m)^[^\n*/]*\bclass\s+\w+");
    let class_at = class.find(file.text).map_or(0, |found| found.start());
    let (mut prefix, mut found) = (String::new(), Vec::new());
    for one in mapping.captures_iter(file.text) {
        let Some(whole) = one.get(0) else { continue };
        let rest = &file.text[whole.end()..];
        let arguments = match rest.starts_with('(') {
            true => file.text.get(whole.end()..closing(file.text, whole.end())).unwrap_or_default(),
            false => "",
        };
        let paths: Vec<String> =
            path.captures_iter(arguments).map(|path| path[1].to_owned()).collect();
        let paths: Vec<String> =
            paths.into_iter().filter(|path| path.starts_with('/') || !path.contains('/')).collect();
        if &one[1] == "Request" && whole.start() < class_at {
            prefix = paths.first().cloned().unwrap_or_default();
            continue;
        }
        let verbs: Vec<String> = match &one[1] {
            "Request" => {
                let named = method.captures_iter(arguments);
                named
                    .filter_map(|verb| Some(verb.get(1).or(verb.get(2))?.as_str().to_owned()))
                    .collect()
            }
            verb => vec![verb.to_owned()],
        };
        let verbs = if verbs.is_empty() { vec!["ANY".to_owned()] } else { verbs };
        let paths = if paths.is_empty() { vec![String::new()] } else { paths };
        for path in &paths {
            let path = join(&prefix, path);
            found.extend(verbs.iter().map(|verb| Found::new(&path, verb, file, whole.start())));
        }
    }
    found
}

/// Returns the prefixes of functions that build routers which are nested elsewhere.
fn nests(files: &[SourceFile<'_>]) -> BTreeMap<String, String> {
    let nest = pattern(r#"\.nest\(\s*"(/[^"\n]*)"\s*,\s*(?:\w+::)*(\w+)\("#);
    let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
    let of = |file: &SourceFile<'_>| {
        let found =
            nest.captures_iter(file.text).map(|found| (found[2].to_owned(), found[1].to_owned()));
        found.collect::<Vec<_>>()
    };
    rust.flat_map(of).collect()
}

fn axum(file: &SourceFile<'_>, nests: &BTreeMap<String, String>) -> Vec<Found> {
    let route = pattern(r#"\.route\(\s*"(/[^"\n]*)"\s*,"#);
    let verb = pattern(r"\b(get|post|put|patch|delete|head|options|any)(?:_service)?\(");
    let function = pattern(r"\bfn\s+(\w+)");
    let mut found = Vec::new();
    for one in route.captures_iter(file.text) {
        let Some(whole) = one.get(0) else { continue };
        let open = whole.start() + file.text[whole.start()..].find('(').unwrap_or(0);
        let handlers = file.text.get(whole.end()..closing(file.text, open)).unwrap_or_default();
        if handlers.contains("web::") {
            continue;
        }
        let around = function.captures_iter(&file.text[..whole.start()]).last();
        let prefix = around.and_then(|function| nests.get(&function[1])).map_or("", String::as_str);
        let path = join(prefix, &one[1]);
        let verbs = verb.captures_iter(handlers).map(|verb| verb[1].to_owned());
        found.extend(verbs.map(|verb| Found::new(&path, &verb, file, whole.start())));
    }
    found
}

fn actix(file: &SourceFile<'_>) -> Vec<Found> {
    let attribute =
        pattern(r#"#\[(?:\w+::)?(get|post|put|patch|delete|head|options)\(\s*"([^"\n]*)""#);
    let resource = pattern(r#"web::resource\(\s*"([^"\n]*)"\s*\)"#);
    let scope = pattern(r#"web::scope\(\s*"([^"\n]*)"\s*\)"#);
    let verb = pattern(r"web::(get|post|put|patch|delete|head)\(\)");
    let plain =
        pattern(r#"\.route\(\s*"([^"\n]*)"\s*,\s*web::(get|post|put|patch|delete|head)\(\)"#);
    let scopes: Vec<(Range<usize>, String)> = scope
        .captures_iter(file.text)
        .filter_map(|found| {
            let whole = found.get(0)?;
            Some((whole.start()..end_of_chain(file.text, whole.end()), found[1].to_owned()))
        })
        .collect();
    let full = |path: &str, at: usize| {
        let around = scopes.iter().filter(|(range, _)| range.contains(&at));
        join(&around.fold(String::new(), |all, (_, prefix)| join(&all, prefix)), path)
    };
    let mut found = Vec::new();
    for one in attribute.captures_iter(file.text) {
        let at = one.get(0).map_or(0, |whole| whole.start());
        found.push(Found::new(&one[2], &one[1], file, at));
    }
    for one in resource.captures_iter(file.text) {
        let Some(whole) = one.get(0) else { continue };
        let chain = &file.text[whole.end()..end_of_chain(file.text, whole.end())];
        let path = full(&one[1], whole.start());
        let verbs = verb.captures_iter(chain).map(|verb| verb[1].to_owned());
        found.extend(verbs.map(|verb| Found::new(&path, &verb, file, whole.start())));
    }
    for one in plain.captures_iter(file.text) {
        let at = one.get(0).map_or(0, |whole| whole.start());
        found.push(Found::new(&full(&one[1], at), &one[2], file, at));
    }
    found
}

/// Returns the end of a method chain that continues at `from`: a semicolon, or the bracket that closes around it.
fn end_of_chain(text: &str, from: usize) -> usize {
    let mut depth = 0_i32;
    for (at, byte) in text.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b';' if depth == 0 => return at,
            _ => {}
        }
        if depth < 0 {
            return at;
        }
    }
    text.len()
}

fn go(file: &SourceFile<'_>) -> Vec<Found> {
    let call = pattern(
        r#"\b(\w+)\.(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS|Any|Get|Post|Put|Patch|Delete)\(\s*"(/[^"\n]*)"\s*,"#,
    );
    let group = pattern(r#"\b(\w+)\s*:?=\s*(\w+)\.Group\(\s*"([^"\n]*)""#);
    let plain =
        pattern(r#"\.Handle(?:Func)?\(\s*"(?:(GET|POST|PUT|PATCH|DELETE)\s+)?(/[^"\n]*)"\s*,"#);
    let mut groups: BTreeMap<String, String> = BTreeMap::new();
    for one in group.captures_iter(file.text) {
        let outer = groups.get(&one[2]).cloned().unwrap_or_default();
        groups.insert(one[1].to_owned(), join(&outer, &one[3]));
    }
    let mut found = Vec::new();
    for one in call.captures_iter(file.text) {
        let at = one.get(0).map_or(0, |whole| whole.start());
        let prefix = groups.get(&one[1]).map_or("", String::as_str);
        found.push(Found::new(&join(prefix, &one[3]), &one[2], file, at));
    }
    for one in plain.captures_iter(file.text) {
        let at = one.get(0).map_or(0, |whole| whole.start());
        found.push(Found::new(&one[2], one.get(1).map_or("ANY", |verb| verb.as_str()), file, at));
    }
    found
}
