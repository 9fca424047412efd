//! Rails and Phoenix: one file of nested blocks that end with `end`.

use regex_lite::Regex;

use super::{Found, SourceFile, join, scan::pattern};

/// An open block.
#[derive(Clone, Default)]
struct Block {
    prefix: String,
    /// The segment for one of the block's resources, such as `:photo_id`.
    member: Option<String>,
}

struct Patterns {
    verb: Regex,
    root: Regex,
    resources: Regex,
    scope: Regex,
    list: Regex,
}

/// Finds the routes that a router file declares.
pub(super) fn find(files: &[SourceFile<'_>]) -> Vec<Found> {
    let patterns = Patterns {
        verb: pattern(
            r#"^(get|post|put|patch|delete|match|live|head|options)[\s(]+(?:['"]([^'"]+)['"]|:(\w+))(.*)"#,
        ),
        root: pattern(r"^root\b"),
        resources: pattern(r#"^(resources|resource)[\s(]+(?::(\w+)|['"]([^'"]+)['"])(.*)"#),
        scope: pattern(r#"^(namespace|scope)[\s(]+(?:path:\s*)?(?::(\w+)|['"]([^'"]*)['"])"#),
        list: pattern(r"(only|except):\s*(?:\[([^\]]*)\]|:(\w+)|%i\[([^\]]*)\])"),
    };
    let is_router = |file: &&SourceFile<'_>| {
        file.path.ends_with("config/routes.rb")
            || file.path.contains("config/routes/")
            || file.path.ends_with(".ex") && file.text.contains(":router")
    };
    files.iter().filter(is_router).flat_map(|file| read(file, &patterns)).collect()
}

fn read(file: &SourceFile<'_>, patterns: &Patterns) -> Vec<Found> {
    let is_phoenix = file.path.ends_with(".ex");
    let (mut blocks, mut found, mut at) = (vec![Block::default()], Vec::new(), 0);
    for line in file.text.split('\n') {
        let (here, text) = (at, line.trim());
        at += line.len() + 1;
        let text = text.split(" #").next().unwrap_or(text).trim_end();
        if text == "end" {
            if blocks.len() > 1 {
                blocks.pop();
            }
            continue;
        }
        let opens = text.ends_with(" do") || text.contains(" do |");
        let top = blocks.last().cloned().unwrap_or_default();
        let mut next = top.clone();
        let mut add = |path: &str, method: &str| found.push(Found::new(path, method, file, here));
        if let Some(verb) = patterns.verb.captures(text) {
            let own = verb.get(2).or(verb.get(3)).map_or("", |path| path.as_str());
            let options = verb.get(4).map_or("", |rest| rest.as_str());
            let base = match (options.contains("on: :member"), &top.member) {
                (true, Some(member)) => join(&top.prefix, member),
                _ => top.prefix.clone(),
            };
            let method = match &verb[1] {
                "match" => "ANY",
                "live" => "GET",
                other => other,
            };
            add(&join(&base, own), method);
        } else if patterns.root.is_match(text) {
            add(&join(&top.prefix, ""), "GET");
        } else if let Some(one) = patterns.resources.captures(text) {
            let name = one.get(2).or(one.get(3)).map_or("", |name| name.as_str());
            let inner = match &top.member {
                Some(member) => join(&top.prefix, member),
                None => top.prefix.clone(),
            };
            let base = join(&inner, name);
            let is_many = &one[1] == "resources";
            let options = one.get(4).map_or("", |rest| rest.as_str());
            for (path, method) in rest(&base, is_many, is_phoenix, options, &patterns.list) {
                add(&path, method);
            }
            let singular = name.trim_start_matches('/').trim_end_matches('s').replace('-', "_");
            next = Block { prefix: base, member: is_many.then(|| format!(":{singular}_id")) };
        } else if let Some(scope) = patterns.scope.captures(text) {
            let own = scope.get(2).or(scope.get(3)).map_or("", |name| name.as_str());
            next = Block { prefix: join(&top.prefix, own), member: None };
        } else if text.starts_with("member do") {
            let prefix = join(&top.prefix, top.member.as_deref().unwrap_or_default());
            next = Block { prefix, member: None };
        } else if text.starts_with("collection do") {
            next = Block { member: None, ..top };
        }
        if opens {
            blocks.push(next);
        }
    }
    found
}

/// Returns the routes of a resource.
fn rest<'a>(
    base: &str,
    is_many: bool,
    is_phoenix: bool,
    options: &str,
    list: &Regex,
) -> Vec<(String, &'a str)> {
    let one = if is_many { join(base, ":id") } else { base.to_owned() };
    let mut all = vec![
        ("new", join(base, "new"), "GET"),
        ("create", base.to_owned(), "POST"),
        ("show", one.clone(), "GET"),
        ("edit", join(&one, "edit"), "GET"),
        ("update", one.clone(), "PATCH"),
        ("update", one.clone(), "PUT"),
        (if is_phoenix { "delete" } else { "destroy" }, one, "DELETE"),
    ];
    if is_many {
        all.insert(0, ("index", base.to_owned(), "GET"));
    }
    if let Some(found) = list.captures(options) {
        let named =
            [2, 3, 4].iter().find_map(|at| found.get(*at)).map_or("", |named| named.as_str());
        let named: Vec<&str> = named.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        all.retain(|(action, ..)| named.contains(action) == (&found[1] == "only"));
    }
    all.into_iter().map(|(_, path, method)| (path, method)).collect()
}
