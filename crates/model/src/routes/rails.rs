//! Rails and Phoenix: one file of nested blocks that end with `end`.

use regex_lite::Regex;

use super::{Found, SourceFile, join, scan::pattern};

/// An open block.
#[derive(Clone, Default)]
struct Block {
    prefix: String,
    /// The segment for one of the block's resources, such as `:photo_id`.
    member: Option<String>,
    /// Whether it only says what other blocks may have (`concern`).
    is_concern: bool,
}

struct Patterns {
    verb: Regex,
    root: Regex,
    resources: Regex,
    scope: Regex,
    list: Regex,
    inline: Regex,
    via: Regex,
    path: Regex,
    mount: Regex,
    names: Regex,
}

/// Finds the routes that a router file declares.
pub(super) fn find(files: &[SourceFile<'_>]) -> Vec<Found> {
    let patterns = Patterns {
        verb: pattern(
            r#"^(get|post|put|patch|delete|match|live|head|options|forward)[\s(]+(?:['"]([^'"]+)['"]|:(\w+))(.*)"#,
        ),
        root: pattern(r"^root\b"),
        resources: pattern(r#"^(resources|resource)[\s(]+(?::(\w+)|['"]([^'"]+)['"])(.*)"#),
        scope: pattern(r#"^(namespace|scope)[\s(]+(?:path:\s*)?(?::(\w+)|['"]([^'"]*)['"])"#),
        inline: pattern(r"^(member|collection)\s*\{\s*(.*?)\s*\}$"),
        via: pattern(r"via:\s*(?:\[([^\]]*)\]|:(\w+)|%i\[([^\]]*)\])"),
        path: pattern(r#"\bpath:\s*['"]([^'"]*)['"]"#),
        mount: pattern(r#"^mount\b.*?(?:=>|\bat:)\s*['"]([^'"]+)['"]"#),
        names: pattern(r"^\s*,\s*:(\w+)"),
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
        let mut top = blocks.last().cloned().unwrap_or_default();
        let mut next = top.clone();
        let mut text = text;
        if let Some(one) = patterns.inline.captures(text) {
            text = one.get(2).map_or("", |inner| inner.as_str());
            top = if &one[1] == "member" { of_member(&top) } else { Block { member: None, ..top } };
        }
        let is_concern = top.is_concern;
        let mut add = |path: &str, method: &str| {
            if !is_concern {
                found.push(Found::new(path, method, file, here));
            }
        };
        if let Some(verb) = patterns.verb.captures(text) {
            let own = verb.get(2).or(verb.get(3)).map_or("", |path| path.as_str());
            let options = verb.get(4).map_or("", |rest| rest.as_str());
            let base = match (options.contains("on: :member"), &top.member) {
                (true, Some(member)) => join(&top.prefix, member),
                _ => top.prefix.clone(),
            };
            // What is optional is left out.
            let own = own.split('(').next().unwrap_or(own);
            match (&verb[1], patterns.via.captures(options)) {
                ("match", Some(via)) => {
                    let named = (1..4).find_map(|at| via.get(at)).map_or("", |via| via.as_str());
                    let verbs = named.split(|c: char| !c.is_ascii_alphabetic());
                    verbs.filter(|verb| !verb.is_empty()).for_each(|verb| match verb {
                        "all" => add(&join(&base, own), "ANY"),
                        verb => add(&join(&base, own), verb),
                    });
                }
                ("match" | "forward", _) => add(&join(&base, own), "ANY"),
                ("live", _) => add(&join(&base, own), "GET"),
                (method, _) => add(&join(&base, own), method),
            }
        } else if let Some(mount) = patterns.mount.captures(text) {
            add(&join(&top.prefix, &mount[1]), "ANY");
        } else if text.starts_with("concern ") {
            next = Block { is_concern: true, ..Block::default() };
        } else if patterns.root.is_match(text) {
            add(&join(&top.prefix, ""), "GET");
        } else if let Some(one) = patterns.resources.captures(text) {
            let name = one.get(2).or(one.get(3)).map_or("", |name| name.as_str());
            let inner = match &top.member {
                Some(member) => join(&top.prefix, member),
                None => top.prefix.clone(),
            };
            let is_many = &one[1] == "resources";
            let mut options = one.get(4).map_or("", |rest| rest.as_str());
            let mut names = vec![name];
            while let Some(more) = patterns.names.captures(options) {
                names.extend(more.get(1).map(|name| name.as_str()));
                options = more.get(0).map_or("", |whole| &options[whole.end()..]);
            }
            for name in names {
                let shown = patterns.path.captures(options).map(|path| path[1].to_owned());
                let base = join(&inner, shown.as_deref().unwrap_or(name));
                for (path, method) in rest(&base, is_many, is_phoenix, options, &patterns.list) {
                    add(&path, method);
                }
                let singular = name.trim_start_matches('/').trim_end_matches('s').replace('-', "_");
                let member = is_many.then(|| format!(":{singular}_id"));
                next = Block { prefix: base, member, is_concern };
            }
        } else if let Some(scope) = patterns.scope.captures(text) {
            let own = scope.get(2).or(scope.get(3)).map_or("", |name| name.as_str());
            next = Block { prefix: join(&top.prefix, own), member: None, is_concern };
        } else if text.starts_with("member do") {
            next = of_member(&top);
        } else if text.starts_with("collection do") {
            next = Block { member: None, ..top };
        }
        if opens {
            blocks.push(next);
        }
    }
    found
}

/// Returns the block of one of a block's resources.
fn of_member(block: &Block) -> Block {
    let prefix = join(&block.prefix, block.member.as_deref().unwrap_or_default());
    Block { prefix, member: None, is_concern: block.is_concern }
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
