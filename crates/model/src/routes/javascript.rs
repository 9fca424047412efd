//! Express, Fastify, Hono, Koa and similar frameworks: method calls with a path and a handler.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use regex_lite::{Captures, Regex};

use super::{
    Found, SourceFile, join,
    scan::{before, closing, folder, pattern, resolve},
};

/// How many times prefixes are propagated between files.
const ROUNDS: usize = 5;

/// The maximum number of scopes per file.
const SCOPES: usize = 200;

/// The maximum number of prefixes per file.
const MOUNTS: usize = 16;

/// Receivers whose methods take paths but that are not routers.
const CLIENTS: [&str; 14] = [
    "axios",
    "http",
    "https",
    "request",
    "client",
    "supertest",
    "agent",
    "cy",
    "page",
    "fetch",
    "got",
    "ky",
    "storage",
    "headers",
];

/// A part of a file whose routes share a prefix.
struct Scope {
    range: Range<usize>,
    prefix: String,
}

struct Patterns {
    call: Regex,
    chained: Regex,
    object: Regex,
    of_route: Regex,
    next: Regex,
    listed: Regex,
    quoted: Regex,
    on: Regex,
    base: Regex,
    loaded: Regex,
    register: Regex,
    prefix: Regex,
    mount: Regex,
    passed: Regex,
    import: Regex,
    require: Regex,
}

impl Patterns {
    fn new() -> Self {
        const METHODS: &str = "get|post|put|patch|delete|head|options|all";
        Self {
            call: pattern(&format!(
                r#"([A-Za-z_$][\w$]*)\s*\.\s*({METHODS}|del)\(\s*['"`]([/*][^'"`\n$]*)['"`]\s*,"#
            )),
            chained: pattern(&format!(r#"\)\s*\.\s*({METHODS})\(\s*['"`](/[^'"`\n$]*)['"`]\s*,"#)),
            object: pattern(r"\.route\(\s*\{"),
            of_route: pattern(r#"\.route\(\s*['"`](/[^'"`\n$]*)['"`]\s*\)"#),
            next: pattern(&format!(r"^\s*\.\s*({METHODS})\(")),
            listed: pattern(&format!(
                r"([A-Za-z_$][\w$]*)\s*\.\s*({METHODS})\(\s*\[([^\]\n]*)\]\s*,"
            )),
            quoted: pattern(r#"['"`](/[^'"`\n$]*)['"`]"#),
            on: pattern(
                r#"([A-Za-z_$][\w$]*)\s*\.\s*on\(\s*(\[[^\]\n]*\]|['"][A-Z]+['"])\s*,\s*['"](/[^'"\n]*)['"]"#,
            ),
            base: pattern(
                r#"(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*=[^;\n]*\.basePath\(\s*['"](/[^'"\n]*)['"]"#,
            ),
            loaded: pattern(
                r#"\.register\(\s*(?:await\s+)?(?:require|import)\(\s*['"](\.[^'"\n]+)['"]\s*\)"#,
            ),
            register: pattern(r"\.register\("),
            prefix: pattern(r#"prefix\s*:\s*['"`](/[^'"`\n$]*)['"`]"#),
            mount: pattern(
                r#"([A-Za-z_$][\w$]*)\s*\.\s*(?:use|route)\(\s*['"`](/[^'"`\n$]*)['"`]\s*,([^;\n]*)"#,
            ),
            passed: pattern(r"\b([A-Za-z_$][\w$]*)\(\s*[A-Za-z_$][\w$]*\s*[,)]"),
            import: pattern(r#"import\s+([^'";]+?)\s+from\s+['"](\.[^'"\n]+)['"]"#),
            require: pattern(
                r#"(?:const|let|var)\s+([^=;]+?)\s*=\s*(?:await\s+import|require)\(\s*['"](\.[^'"\n]+)['"]\s*\)"#,
            ),
        }
    }
}

/// Finds routes, with the prefixes under which their files are mounted.
pub(super) fn find(files: &[SourceFile<'_>]) -> Vec<Found> {
    let patterns = Patterns::new();
    let is_script = |file: &&SourceFile<'_>| {
        let ending = file.path.rsplit('.').next().unwrap_or_default();
        matches!(ending, "js" | "mjs" | "cjs" | "ts" | "mts" | "jsx" | "tsx")
    };
    let files: Vec<SourceFile<'_>> = files.iter().filter(is_script).copied().collect();
    let known: BTreeSet<&str> = files.iter().map(|file| file.path).collect();
    let mut mounted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mounts: Vec<(&str, Vec<(String, String)>)> =
        files.iter().map(|file| (file.path, mounts(file, &patterns, &known))).collect();
    for _ in 0..ROUNDS {
        for (file, mounts) in &mounts {
            let own = mounted.get(*file).cloned().unwrap_or_else(|| [String::new()].into());
            for (target, prefix) in mounts {
                let all = mounted.entry(target.clone()).or_default();
                all.extend(own.iter().map(|outer| join(outer, prefix)));
                while all.len() > MOUNTS {
                    all.pop_last();
                }
            }
        }
    }
    // A mounted file is not also served at the top level, unless it is mounted there too.
    let none: BTreeSet<String> = [String::new()].into();
    let mut found = Vec::new();
    for file in &files {
        let prefixes = mounted.get(file.path).map(longest).unwrap_or_else(|| none.clone());
        for (path, method, at) in routes(file, &patterns) {
            found.extend(
                prefixes.iter().map(|prefix| Found::new(&join(prefix, &path), &method, file, at)),
            );
        }
    }
    found
}

/// Drops prefixes that are only the end of others: known mounts grow with each round.
fn longest(all: &BTreeSet<String>) -> BTreeSet<String> {
    let is_part =
        |one: &&String| all.iter().any(|other| other != *one && other.ends_with(one.as_str()));
    let kept: BTreeSet<String> = all.iter().filter(|one| !is_part(one)).cloned().collect();
    if kept.is_empty() { all.clone() } else { kept }
}

/// Returns path, method and position of the routes of one file, with the prefixes set in the file itself.
fn routes(file: &SourceFile<'_>, patterns: &Patterns) -> Vec<(String, String, usize)> {
    let text = file.text;
    let scopes = scopes(text, patterns);
    let routers = routers(text, patterns);
    let mut all: Vec<(String, String, usize)> = Vec::new();
    let mut add = |path: &str, method: &str, receiver: &str, at: usize| {
        let prefix = routers.get(receiver).map_or("", String::as_str);
        let path = join(&around(&scopes, at), &join(prefix, path));
        let method = match method {
            "all" => "ANY",
            "del" => "DELETE",
            other => other,
        };
        all.push((path, method.to_owned(), at));
    };
    for found in patterns.call.captures_iter(text) {
        let (whole, receiver) = (place(&found), &found[1]);
        // A call whose result is used belongs to a client.
        let is_statement =
            matches!(before(text, whole), None | Some('\n' | ';' | '{' | '}' | '(' | ')' | '>'));
        let is_awaited = text[..whole].trim_end().ends_with("await");
        if is_statement && !is_awaited && !CLIENTS.contains(&receiver) {
            add(&found[3], &found[2], receiver, whole);
        }
    }
    let has_router =
        ["hono", "Hono", "express", "Router(", "fastify"].iter().any(|word| text.contains(word));
    for found in patterns.chained.captures_iter(text).filter(|_| has_router) {
        add(&found[2], &found[1], "", place(&found));
    }
    for found in patterns.of_route.captures_iter(text) {
        let mut rest = found.get(0).map_or("", |whole| &text[whole.end()..]);
        while let Some(next) = patterns.next.captures(rest) {
            add(&found[1], &next[1], "", place(&found));
            let open = next.get(0).map_or(0, |whole| whole.end() - 1);
            rest = rest.get(closing(rest, open) + 1..).unwrap_or_default();
        }
    }
    for found in patterns.listed.captures_iter(text) {
        for path in patterns.quoted.captures_iter(&found[3]) {
            add(&path[1], &found[2], &found[1], place(&found));
        }
    }
    for found in patterns.on.captures_iter(text).filter(|_| text.contains("Hono")) {
        let verbs = found[2].split(|c: char| !c.is_ascii_alphabetic());
        for verb in verbs.filter(|verb| !verb.is_empty()) {
            add(&found[3], &verb.to_ascii_lowercase(), &found[1], place(&found));
        }
    }
    let (url, verb) = (
        pattern(r#"\b(?:url|path)\s*:\s*['"`](/[^'"`\n$]*)['"`]"#),
        pattern(r#"\bmethod\s*:\s*(\[[^\]]*\]|['"`]\w+['"`])"#),
    );
    for found in patterns.object.find_iter(text) {
        let part = text.get(found.start()..closing(text, found.end() - 1)).unwrap_or_default();
        if let (Some(url), Some(verb)) = (url.captures(part), verb.captures(part)) {
            let verbs =
                verb[1].split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
            verbs.for_each(|verb| add(&url[1], &verb.to_ascii_lowercase(), "", found.start()));
        }
    }
    all
}

fn place(found: &Captures<'_>) -> usize {
    found.get(0).map_or(0, |whole| whole.start())
}

/// Joins the prefixes of the scopes around a position, outermost first.
fn around(scopes: &[Scope], at: usize) -> String {
    let holding = scopes.iter().filter(|scope| scope.range.contains(&at));
    holding.fold(String::new(), |all, scope| join(&all, &scope.prefix))
}

/// Returns the ranges enclosed by `register(…, { prefix })`.
fn scopes(text: &str, patterns: &Patterns) -> Vec<Scope> {
    let scope = |found: regex_lite::Match<'_>| {
        let end = closing(text, found.end() - 1);
        let part = text.get(found.start()..end)?;
        // The options are the last argument.
        let options = part.rfind('{').map_or("", |at| &part[at..]);
        let prefix = patterns.prefix.captures(options)?[1].to_owned();
        Some(Scope { range: found.start()..end, prefix })
    };
    patterns.register.find_iter(text).take(SCOPES).filter_map(scope).collect()
}

/// Returns the prefixes of routers that are mounted in the file that creates them.
fn routers(text: &str, patterns: &Patterns) -> BTreeMap<String, String> {
    let mut all = bases(text, patterns);
    for found in patterns.mount.captures_iter(text) {
        let target = last_name(&found[3]);
        let is_own = text.contains(&format!("const {target} ="))
            || text.contains(&format!("let {target} ="));
        if is_own {
            let outer = all.get(&found[1]).map_or("", String::as_str);
            all.insert(target, join(outer, &found[2]));
        }
    }
    all
}

/// Returns what routers of Hono begin with by themselves.
fn bases(text: &str, patterns: &Patterns) -> BTreeMap<String, String> {
    let found = patterns.base.captures_iter(text);
    found.map(|found| (found[1].to_owned(), found[2].to_owned())).collect()
}

/// Returns the last name of an argument list: the mounted router follows its middleware.
fn last_name(arguments: &str) -> String {
    let first = |part: &str| {
        let name: String =
            part.trim().chars().take_while(|c| c.is_alphanumeric() || "_$".contains(*c)).collect();
        name
    };
    let end = arguments.trim_end().trim_end_matches(')');
    first(end.rsplit(',').next().unwrap_or_default())
}

/// Returns the files that a file mounts, with their prefixes.
fn mounts(
    file: &SourceFile<'_>,
    patterns: &Patterns,
    known: &BTreeSet<&str>,
) -> Vec<(String, String)> {
    let text = file.text;
    let mut imports: BTreeMap<String, String> = BTreeMap::new();
    for found in patterns.import.captures_iter(text).chain(patterns.require.captures_iter(text)) {
        let Some(target) = resolved(file.path, &found[2], known) else { continue };
        let names = found[1].split([',', '{', '}']).filter_map(|name| {
            let name = name.trim();
            let name = name.rsplit([' ', ':']).next().unwrap_or(name).trim();
            (!name.is_empty()).then(|| name.to_owned())
        });
        imports.extend(names.map(|name| (name, target.clone())));
    }
    let (scopes, bases) = (scopes(text, patterns), bases(text, patterns));
    let mut all = Vec::new();
    for found in patterns.loaded.captures_iter(text) {
        if let Some(target) = resolved(file.path, &found[1], known) {
            let inside = found.get(1).map_or(0, |path| path.start());
            all.push((target, around(&scopes, inside)));
        }
    }
    let inline = pattern(r#"require\(\s*['"](\.[^'"\n]+)['"]\s*\)"#);
    for found in patterns.mount.captures_iter(text) {
        let base = bases.get(&found[1]).map_or("", String::as_str);
        let prefix = join(&around(&scopes, place(&found)), &join(base, &found[2]));
        let required =
            inline.captures(&found[3]).and_then(|path| resolved(file.path, &path[1], known));
        let target = required.or_else(|| imports.get(&last_name(&found[3])).cloned());
        all.extend(target.map(|target| (target, prefix)));
    }
    for found in patterns.passed.captures_iter(text) {
        if let Some(target) = imports.get(&found[1]) {
            all.push((target.clone(), around(&scopes, place(&found))));
        }
    }
    let registered = pattern(r"\.register\(\s*([A-Za-z_$][\w$]*)\s*[,)]");
    for found in registered.captures_iter(text) {
        if let Some(target) = imports.get(&found[1]) {
            let inside = found.get(1).map_or(0, |name| name.end());
            all.push((target.clone(), around(&scopes, inside)));
        }
    }
    all
}

/// Returns the file that an import refers to.
fn resolved(from: &str, import: &str, known: &BTreeSet<&str>) -> Option<String> {
    let path = resolve(folder(from), import);
    let bare =
        path.rsplit_once('.').filter(|(_, end)| matches!(*end, "js" | "mjs" | "cjs" | "jsx"));
    let bare = bare.map_or(path.as_str(), |(bare, _)| bare);
    let endings = ["js", "ts", "mjs", "cjs", "mts", "jsx", "tsx"];
    let beside = endings.iter().map(|ending| format!("{bare}.{ending}"));
    let index = endings.iter().map(|ending| format!("{path}/index.{ending}"));
    std::iter::once(path.clone())
        .chain(beside)
        .chain(index)
        .find(|path| known.contains(path.as_str()))
}
