//! Spring, axum, actix, Gin and similar frameworks.

use std::{collections::BTreeMap, ops::Range};

use super::{
    Found, SourceFile, join,
    scan::{closing, pattern},
};

/// The maximum number of routers that a file nests by their variables.
const VARIABLES: usize = 50;

/// Finds annotations, attributes and calls with a path.
pub(super) fn find(files: &[SourceFile<'_>]) -> Vec<Found> {
    let nests = nests(files);
    let of = |file: &SourceFile<'_>| match file.path.rsplit('.').next().unwrap_or_default() {
        "java" | "kt" => spring(file),
        "rs" => axum(file, &nests).into_iter().chain(actix(file, &nests)).collect(),
        "go" => go(file, &nests),
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

/// A function that adds routes below a prefix: the module or package that names it, its name, the prefix.
type Nest = (Option<String>, String, String);

/// Returns the functions to which prefixes are given elsewhere.
fn nests(files: &[SourceFile<'_>]) -> Vec<Nest> {
    let axum = pattern(r#"\.nest\(\s*"(/[^"\n]*)"\s*,\s*(?:(\w+)::)?(\w+)\("#);
    let scope = pattern(r#"web::scope\(\s*"([^"\n]*)"\s*\)"#);
    let configure = pattern(r"\.configure\(\s*(?:(\w+)::)?(\w+)\s*\)");
    let text = |found: Option<regex_lite::Match<'_>>| found.map(|found| found.as_str().to_owned());
    let mut all = Vec::new();
    for file in files {
        if file.path.ends_with(".rs") {
            // Of `crate::api::users::router`, the last module counts.
            let whole = axum_path(file.text);
            let nested = axum.captures_iter(&whole);
            all.extend(nested.map(|one| (text(one.get(2)), one[3].to_owned(), one[1].to_owned())));
            for one in scope.captures_iter(file.text) {
                let from = one.get(0).map_or(0, |whole| whole.end());
                let chain = axum_path(&file.text[from..end_of_chain(file.text, from)]);
                let given = configure.captures_iter(&chain);
                all.extend(given.map(|it| (text(it.get(1)), it[2].to_owned(), one[1].to_owned())));
            }
        } else if file.path.ends_with(".go") {
            all.extend(go_nests(file));
        }
    }
    all
}

/// Shortens paths such as `crate::api::users::router` to their last module.
fn axum_path(text: &str) -> String {
    pattern(r"(?:\w+::)+(\w+::\w+\b)").replace_all(text, "$1").into_owned()
}

/// Returns the prefix that a function of a file was given.
fn nested_at<'n>(nests: &'n [Nest], file: &str, function: &str) -> &'n str {
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let stem = stem.trim_end_matches("/mod").trim_end_matches("/lib");
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_in = |module: &str| {
        let of = |path: &str| path.rsplit('/').next() == Some(module);
        of(stem) || of(folder)
    };
    let own = nests.iter().filter(|(_, name, _)| name == function);
    let exact = own.clone().find(|(module, ..)| module.as_deref().is_some_and(is_in));
    let bare = || own.clone().find(|(module, ..)| module.is_none());
    exact.or_else(bare).map_or("", |(_, _, prefix)| prefix)
}

/// Returns the parts of a file that build routers which it nests by their variables.
fn nested_variables(text: &str) -> Vec<(Range<usize>, String)> {
    let nest = pattern(r#"\.nest\(\s*"(/[^"\n]*)"\s*,\s*(\w+)\s*[,)]"#);
    let of = |found: regex_lite::Captures<'_>| {
        let built = pattern(&format!(r"let\s+(?:mut\s+)?{}\b[^=;]*=", &found[2]));
        let from = built.find(text)?.end();
        Some((from..end_of_chain(text, from), found[1].to_owned()))
    };
    nest.captures_iter(text).take(VARIABLES).filter_map(of).collect()
}

fn axum(file: &SourceFile<'_>, nests: &[Nest]) -> Vec<Found> {
    let route = pattern(r#"\.route\(\s*"(/[^"\n]*)"\s*,"#);
    let verb = pattern(r"\b(get|post|put|patch|delete|head|options|any)(?:_service)?\(");
    let function = pattern(r"\bfn\s+(\w+)");
    let variables = nested_variables(file.text);
    let mut found = Vec::new();
    for one in route.captures_iter(file.text) {
        let Some(whole) = one.get(0) else { continue };
        let open = whole.start() + file.text[whole.start()..].find('(').unwrap_or(0);
        let handlers = file.text.get(whole.end()..closing(file.text, open)).unwrap_or_default();
        if handlers.contains("web::") {
            continue;
        }
        let around = function.captures_iter(&file.text[..whole.start()]).last();
        let prefix = around.map_or("", |function| nested_at(nests, file.path, &function[1]));
        let holding = variables.iter().filter(|(range, _)| range.contains(&whole.start()));
        let inner = holding.fold(String::new(), |all, (_, prefix)| join(prefix, &all));
        let path = join(prefix, &join(&inner, &one[1]));
        let verbs = verb.captures_iter(handlers).map(|verb| verb[1].to_owned());
        found.extend(verbs.map(|verb| Found::new(&path, &verb, file, whole.start())));
    }
    found
}

fn actix(file: &SourceFile<'_>, nests: &[Nest]) -> Vec<Found> {
    let attribute = pattern(
        r#"#\[(?:\w+::)?(get|post|put|patch|delete|head|options|route)\(\s*"([^"\n]*)"([^\]]*)\]"#,
    );
    let named = pattern(r#"method\s*=\s*"(\w+)""#);
    let function = pattern(r"\bfn\s+(\w+)");
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
        let inner = around.fold(String::new(), |all, (_, prefix)| join(&all, prefix));
        let builder = function.captures_iter(&file.text[..at]).last();
        let outer = builder.map_or("", |builder| nested_at(nests, file.path, &builder[1]));
        join(outer, &join(&inner, path))
    };
    let mut found = Vec::new();
    for one in attribute.captures_iter(file.text) {
        let Some(whole) = one.get(0) else { continue };
        // Where the function is added decides what is before its path.
        let handler = function.captures(&file.text[whole.end()..]);
        let added = handler.and_then(|handler| {
            let service = pattern(r"\.service\(\s*(?:\w+::)*(\w+)\s*\)");
            let of_it = service.captures_iter(file.text).find(|found| found[1] == handler[1]);
            of_it.and_then(|found| Some(found.get(0)?.start()))
        });
        let path = added.map_or_else(|| one[2].to_owned(), |at| full(&one[2], at));
        let verbs: Vec<String> = match &one[1] {
            "route" => named.captures_iter(&one[3]).map(|verb| verb[1].to_owned()).collect(),
            verb => vec![verb.to_owned()],
        };
        found.extend(verbs.iter().map(|verb| Found::new(&path, verb, file, whole.start())));
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

/// Returns the prefixes of a file's groups, by variable.
fn go_groups(file: &SourceFile<'_>) -> BTreeMap<String, String> {
    let group = pattern(r#"\b(\w+)\s*:?=\s*(\w+)\.Group\(\s*"([^"\n]*)""#);
    let mut groups: BTreeMap<String, String> = BTreeMap::new();
    for one in group.captures_iter(file.text) {
        let outer = groups.get(&one[2]).cloned().unwrap_or_default();
        groups.insert(one[1].to_owned(), join(&outer, &one[3]));
    }
    groups
}

/// Returns the functions that groups are passed to.
fn go_nests(file: &SourceFile<'_>) -> Vec<Nest> {
    let made = pattern(r#"\b(?:(\w+)\.)?(\w+)\(\s*(\w+)\.Group\(\s*"([^"\n]*)"[^()]*\)\s*[,)]"#);
    let passed = pattern(r"\b(?:(\w+)\.)?(\w+)\(\s*(\w+)\s*[,)]");
    let groups = go_groups(file);
    let text = |found: Option<regex_lite::Match<'_>>| found.map(|found| found.as_str().to_owned());
    let made = made.captures_iter(file.text).map(|one| {
        let outer = groups.get(&one[3]).map_or("", String::as_str);
        (text(one.get(1)), one[2].to_owned(), join(outer, &one[4]))
    });
    let passed = passed.captures_iter(file.text).filter_map(|one| {
        Some((text(one.get(1)), one[2].to_owned(), groups.get(&one[3])?.clone()))
    });
    made.chain(passed).collect()
}

fn go(file: &SourceFile<'_>, nests: &[Nest]) -> Vec<Found> {
    let call = pattern(
        r#"\b(\w+)\.(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS|Any|Get|Post|Put|Patch|Delete)\(\s*"(/[^"\n]*)?"\s*,"#,
    );
    let function = pattern(r"\bfunc\s+(?:\([^)]*\)\s*)?(\w+)\(");
    let plain =
        pattern(r#"\.Handle(?:Func)?\(\s*"(?:(GET|POST|PUT|PATCH|DELETE)\s+)?(/[^"\n]*)"\s*,"#);
    let groups = go_groups(file);
    let mut found = Vec::new();
    for one in call.captures_iter(file.text) {
        let at = one.get(0).map_or(0, |whole| whole.start());
        let prefix = groups.get(&one[1]).map_or("", String::as_str);
        let around = function.captures_iter(&file.text[..at]).last();
        let outer = around.map_or("", |function| nested_at(nests, file.path, &function[1]));
        let own = one.get(3).map_or("", |path| path.as_str());
        // `headers.Get("")` is no route.
        if !own.is_empty() || !outer.is_empty() || !prefix.is_empty() {
            found.push(Found::new(&join(outer, &join(prefix, own)), &one[2], file, at));
        }
    }
    for one in plain.captures_iter(file.text) {
        let at = one.get(0).map_or(0, |whole| whole.start());
        found.push(Found::new(&one[2], one.get(1).map_or("ANY", |verb| verb.as_str()), file, at));
    }
    found
}
