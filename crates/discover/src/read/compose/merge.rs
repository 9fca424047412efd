//! Merges compose files: overrides, `include`, `extends`, and defaults of variables.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{read::settings, text, view::View};

/// The maximum depth of includes and extensions.
const DEPTH: usize = 8;

/// Override files that compose merges by default.
const OVERRIDES: [&str; 4] = [
    "compose.override.yaml",
    "compose.override.yml",
    "docker-compose.override.yml",
    "docker-compose.override.yaml",
];

/// Services by name, each with the file that declares it.
pub(super) type Services = BTreeMap<String, (Value, String)>;

/// Returns the services of a compose file, including those from other files.
pub(super) fn services(view: &View<'_>, file: &str) -> Services {
    let mut all = Services::new();
    load(view, file, DEPTH, &mut all);
    for name in OVERRIDES {
        let path = text::join(text::folder(file), name);
        if view.has(&path) {
            load(view, &path, DEPTH, &mut all);
        }
    }
    let values = settings::values(view, text::folder(file));
    all.values_mut().for_each(|(service, _)| fill(service, &values));
    all
}

/// Inserts the values of examples, as compose does with those of `.env`. Variables without one keep their default.
fn fill(value: &mut Value, values: &BTreeMap<String, String>) {
    match value {
        Value::String(text) => *text = filled(text, values),
        Value::Array(all) => all.iter_mut().for_each(|value| fill(value, values)),
        Value::Object(map) => map.values_mut().for_each(|value| fill(value, values)),
        _ => {}
    }
}

fn filled(text: &str, values: &BTreeMap<String, String>) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, end) = match after.strip_prefix('{').map(closing) {
            Some(Some((inner, left))) => {
                let end = inner.find(|c| !is_name(c)).unwrap_or(inner.len());
                (&inner[..end], after.len() - left.len())
            }
            Some(None) => break,
            // `$$` is an escaped dollar sign.
            None if after.starts_with('$') => ("", 1),
            None => {
                let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
                (&after[..end], end)
            }
        };
        match values.get(name) {
            Some(value) => out.push_str(&value.replace('$', "$$")),
            None => out.push_str(&rest[at..at + 1 + end]),
        }
        rest = &after[end..];
    }
    out.push_str(rest);
    out
}

fn load(view: &View<'_>, file: &str, depth: usize, all: &mut Services) {
    if depth == 0 {
        return view.note(file, 0, "it is included too deeply, and was passed over");
    }
    let Some(document) = view.yaml(file) else { return };
    for included in includes(&document["include"]) {
        match inside(view, file, &included) {
            Some(path) => load(view, &path, depth - 1, all),
            None => view.note(
                file,
                0,
                format!("`include` of {included} leads out of the repository or nowhere"),
            ),
        }
    }
    let Some(services) = document["services"].as_object() else { return };
    for (name, service) in services {
        let service = extended(view, file, &document, service, depth);
        match all.get_mut(name) {
            Some((known, _)) => overlay(known, &service),
            None => {
                all.insert(name.clone(), (service, file.to_owned()));
            }
        }
    }
}

fn includes(value: &Value) -> Vec<String> {
    let one = |value: &Value| match value {
        Value::String(path) => vec![path.clone()],
        Value::Object(map) => match map.get("path") {
            Some(Value::String(path)) => vec![path.clone()],
            Some(Value::Array(paths)) => {
                paths.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    value.as_array().into_iter().flatten().flat_map(one).collect()
}

fn inside(view: &View<'_>, file: &str, path: &str) -> Option<String> {
    let folder = text::folder(file);
    let path = interpolate(path);
    (!text::leaves(folder, &path)).then(|| text::join(folder, &path)).filter(|path| view.has(path))
}

/// Returns a service merged with what it extends.
fn extended(view: &View<'_>, file: &str, document: &Value, service: &Value, depth: usize) -> Value {
    let extends = &service["extends"];
    let Some(name) = extends.as_str().or_else(|| extends["service"].as_str()) else {
        return service.clone();
    };
    if depth == 0 {
        return service.clone();
    }
    let of_file = extends["file"].as_str();
    let (base, base_file) = match of_file {
        Some(path) => match inside(view, file, path) {
            Some(path) => (view.yaml(&path).unwrap_or_default(), path),
            None => {
                view.note(
                    file,
                    0,
                    format!("`extends` of {path} leads out of the repository or nowhere"),
                );
                return service.clone();
            }
        },
        None => (document.clone(), file.to_owned()),
    };
    let parent = &base["services"][name];
    let mut whole = extended(view, &base_file, &base, parent, depth - 1);
    if of_file.is_some() {
        rebase(&mut whole, text::folder(&base_file), text::folder(file));
    }
    overlay(&mut whole, service);
    if let Value::Object(map) = &mut whole {
        map.remove("extends");
    }
    whole
}

/// Makes the build context of an extended service relative to the file that extends it.
fn rebase(service: &mut Value, from: &str, to: &str) {
    let up = "../".repeat(to.split('/').filter(|part| !part.is_empty()).count());
    let moved = |path: &str| format!("{up}{}", text::join(from, path));
    match service.get_mut("build") {
        Some(Value::String(path)) => *path = moved(path),
        Some(Value::Object(map)) => {
            if let Some(Value::String(path)) = map.get_mut("context") {
                *path = moved(path);
            }
        }
        _ => {}
    }
}

/// Merges one service over another, as compose does: maps, ports and volumes are joined, everything else is replaced.
fn overlay(base: &mut Value, over: &Value) {
    if !base.is_object() {
        *base = Value::Object(Map::new());
    }
    let (Some(base), Some(over)) = (base.as_object_mut(), over.as_object()) else { return };
    for (key, value) in over {
        match (key.as_str(), base.get_mut(key)) {
            ("environment" | "labels", Some(known)) => {
                let mut all = super::environment(known);
                all.extend(super::environment(value));
                *known = serde_json::to_value(all).unwrap_or_default();
            }
            ("ports" | "volumes" | "expose" | "profiles", Some(Value::Array(known))) => {
                known.extend(value.as_array().into_iter().flatten().cloned());
            }
            ("build" | "healthcheck" | "depends_on", Some(Value::Object(known)))
                if value.is_object() =>
            {
                known.extend(
                    value
                        .as_object()
                        .into_iter()
                        .flatten()
                        .map(|(key, value)| (key.clone(), value.clone())),
                );
            }
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Replaces `${NAME:-default}` with its default, and other variables with nothing.
pub(super) fn interpolate(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some(inner) = after.strip_prefix('{') {
            let Some((inner, after)) = closing(inner) else { return out };
            let default = inner
                .split_once(":-")
                .or_else(|| inner.split_once('-'))
                .map_or("", |(_, text)| text);
            out.push_str(&interpolate(default));
            rest = after;
        } else {
            let end =
                after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
            if end == 0 {
                out.push('$');
            }
            rest = &after[end..];
        }
    }
    out.push_str(rest);
    out
}

/// Splits at the closing brace.
fn closing(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return Some((&text[..at], &text[at + 1..])),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_become_their_defaults() {
        for (text, expected) in [
            ("postgres:${PG:-15}", "postgres:15"),
            ("${A:-${B:-c}}d", "cd"),
            ("$USER/x$$y", "/x$y"),
            ("${A?must}", ""),
            ("${open", ""),
            ("100%$", "100%$"),
        ] {
            assert_eq!(interpolate(text), expected, "{text}");
        }
    }

    #[test]
    fn examples_fill_variables_in() {
        let values: BTreeMap<String, String> =
            [("A", "1"), ("B", "x$y")].map(|(name, value)| (name.into(), value.into())).into();
        for (text, expected) in [
            ("${A}-$A-${A:-2}", "1-1-1"),
            ("${C:-3}$C$$A", "${C:-3}$C$$A"),
            ("$B", "x$$y"),
            ("${A", "${A"),
            ("é$", "é$"),
        ] {
            assert_eq!(filled(text, &values), expected, "{text}");
        }
    }

    #[test]
    fn files_are_put_together() {
        let files: BTreeMap<String, String> = [
            ("compose.yaml", "include:\n  - infra/db.yaml\n  - ../../etc/passwd\nservices:\n  web:\n    extends: {file: infra/base.yaml, service: app}\n    environment: [B=2]\n"),
            ("compose.override.yaml", "services:\n  web:\n    environment: {C: 3}\n    ports: ['1:1']\n"),
            ("infra/db.yaml", "services:\n  db: {image: 'postgres:16'}\n"),
            ("infra/base.yaml", "services:\n  app:\n    build: ./app\n    environment: {A: 1, B: 1}\n"),
        ]
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .into();
        let view = View::of(&files);
        let all = services(&view, "compose.yaml");
        assert_eq!(all["db"].0["image"], "postgres:16");
        let web = &all["web"].0;
        assert_eq!(web["build"], "infra/app");
        assert_eq!(web["environment"], serde_json::json!({"A": "1", "B": "2", "C": "3"}));
        assert_eq!(view.notes().len(), 1, "{:?}", view.notes());
    }

    #[test]
    fn a_cycle_of_references_ends() {
        let text = "include: [compose.yaml]\nservices:\n  a: {extends: {service: b}}\n  b: {extends: {service: a}, image: x}\n";
        let files = BTreeMap::from([("compose.yaml".to_owned(), text.to_owned())]);
        let view = View::of(&files);
        assert_eq!(services(&view, "compose.yaml")["a"].0["image"], "x");
    }
}
