//! Routes as reported by frameworks. The output comes from the room: it is bounded, and nothing in it is trusted.

use serde_json::Value;

use super::{ROUTES_LIMIT, Route, plain_path};

/// Parses lines of `METHODS<TAB>PATH`, as our scripts make frameworks print them.
pub fn read_lines(text: &str, app: &str, framework: &str) -> Vec<Route> {
    let lines = text.lines().filter_map(|line| line.trim_end().split_once('\t'));
    let routes = lines.filter_map(|(methods, path)| route(methods, path, app, framework));
    collected(routes)
}

/// Parses the output of `artisan route:list --json`.
pub fn read_laravel(text: &str, app: &str) -> Vec<Route> {
    let printed: Value = serde_json::from_str(text.trim()).unwrap_or_default();
    let all = printed.as_array().map(Vec::as_slice).unwrap_or_default();
    collected(
        all.iter()
            .filter_map(|one| route(one["method"].as_str()?, one["uri"].as_str()?, app, "Laravel")),
    )
}

/// Parses the paths of an OpenAPI document, such as FastAPI serves.
pub fn read_openapi(text: &str, app: &str) -> Vec<Route> {
    let document: Value = serde_json::from_str(text).unwrap_or_default();
    let paths = document["paths"].as_object().into_iter().flatten();
    collected(paths.filter_map(|(path, operations)| {
        let methods = operations.as_object()?.keys();
        let known = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
        let methods: Vec<&str> =
            methods.map(String::as_str).filter(|method| known.contains(method)).collect();
        route(&methods.join("|"), path, app, "OpenAPI")
    }))
}

fn collected(routes: impl Iterator<Item = Route>) -> Vec<Route> {
    let mut all: Vec<Route> = routes.take(ROUTES_LIMIT).collect();
    all.sort();
    all.dedup();
    all
}

fn route(methods: &str, path: &str, app: &str, framework: &str) -> Option<Route> {
    // Rails writes an optional part as `(.:format)`, Django the end of a pattern as `$`.
    let path = path.split("(.").next().unwrap_or(path);
    let path = path.trim_start_matches('^').trim_end_matches('$').replace("\\Z", "");
    if path.contains(char::is_whitespace) || path.len() > 1000 {
        return None;
    }
    let is_word = |word: &&str| !word.is_empty() && word.bytes().all(|c| c.is_ascii_alphabetic());
    let words = methods.split(['|', ',', ' ']).filter(is_word).take(10);
    let mut methods: Vec<String> = words.map(str::to_ascii_uppercase).collect();
    // Every framework adds these to other methods.
    let is_implied = |method: &String| method == "HEAD" || method == "OPTIONS";
    if !methods.iter().all(is_implied) {
        methods.retain(|method| !is_implied(method));
    }
    if methods.is_empty() {
        methods.push("ANY".into());
    }
    methods.sort();
    methods.dedup();
    let source = format!("told by {framework}");
    Some(Route { app: Some(app.to_owned()), path: plain_path(&path), methods, source })
}

/// Merges reported routes into those found in the source: a known path keeps its source, and gets another entry only
/// for methods that the source does not show.
pub fn merge(found: &mut Vec<Route>, told: Vec<Route>) {
    for mut route in told {
        let same = |known: &&mut Route| {
            shape(&known.path) == shape(&route.path)
                && (known.app == route.app || known.app.is_none())
        };
        let mut known_methods: Vec<String> = Vec::new();
        for known in found.iter_mut().filter(same) {
            known.app.clone_from(&route.app);
            known_methods.extend(known.methods.iter().cloned());
        }
        let is_any = |methods: &[String]| methods.iter().any(|method| method == "ANY");
        match known_methods.is_empty() {
            true => {}
            // One of them names no method, so only the path can be compared.
            false if is_any(&known_methods) || is_any(&route.methods) => continue,
            false => route.methods.retain(|method| !known_methods.contains(method)),
        }
        if !route.methods.is_empty() {
            found.push(route);
        }
    }
    found.truncate(ROUTES_LIMIT);
    found.sort();
}

/// Returns a path without parameter names, which source and framework may write differently.
fn shape(path: &str) -> String {
    let part = |part: &str| if part.starts_with(':') { ":".to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(routes: &[Route]) -> Vec<String> {
        routes.iter().map(|one| format!("{} {}", one.methods.join(","), one.path)).collect()
    }

    #[test]
    fn frameworks_tell_their_routes_in_their_own_ways() {
        let lines = "GET,HEAD,OPTIONS\t/items/<int:id>\nPOST\t/orders(.:format)\n\t^admin/$\nno tab\nGET\t/a b\n";
        let routes = read_lines(lines, "web", "Flask");
        assert_eq!(shown(&routes), ["ANY /admin", "GET /items/:id", "POST /orders"]);
        assert!(routes.iter().all(|one| one.source == "told by Flask"));
        let laravel = r#"[{"method": "GET|HEAD", "uri": "api/users/{user}", "action": "x"}, {"method": "POST", "uri": "/"}, 7]"#;
        assert_eq!(shown(&read_laravel(laravel, "web")), ["POST /", "GET /api/users/:user"]);
        let openapi = r#"{"paths": {"/pets/{id}": {"get": {}, "delete": {}, "parameters": []}, "/files/{path:path}": {"get": {}}}}"#;
        assert_eq!(shown(&read_openapi(openapi, "web")), ["GET /files/*", "DELETE,GET /pets/:id"]);
        for nonsense in ["", "{", "null", "[]", "{\"paths\": 7}"] {
            assert!(
                read_openapi(nonsense, "w").is_empty() && read_laravel(nonsense, "w").is_empty()
            );
        }
        let flood = "GET\t/x\n".repeat(100_000);
        assert_eq!(read_lines(&flood, "w", "Flask").len(), 1);
    }

    #[test]
    fn what_is_told_adds_to_what_the_source_shows() {
        let route = |app: Option<&str>, path: &str, source: &str| Route {
            app: app.map(str::to_owned),
            path: path.into(),
            methods: vec!["GET".into()],
            source: source.into(),
        };
        let mut found = vec![route(None, "/items/:item_id", "app.py:7")];
        merge(
            &mut found,
            vec![
                route(Some("web"), "/items/:id", "told by Flask"),
                route(Some("web"), "/plugin", "told by Flask"),
            ],
        );
        let told: Vec<_> =
            found.iter().map(|one| (one.path.as_str(), one.source.as_str())).collect();
        assert_eq!(told, [("/items/:item_id", "app.py:7"), ("/plugin", "told by Flask")]);
        assert_eq!(found[0].app.as_deref(), Some("web"));
    }

    #[test]
    fn methods_that_only_the_framework_knows_are_added() {
        let route = |methods: &[&str], source: &str| Route {
            app: Some("web".into()),
            path: "/orders".into(),
            methods: methods.iter().map(|method| (*method).to_owned()).collect(),
            source: source.into(),
        };
        let merged = |known: &[&str], told: &[&[&str]]| -> Vec<String> {
            let mut found = vec![route(known, "routes.rb:1")];
            merge(&mut found, told.iter().map(|methods| route(methods, "told by Rails")).collect());
            let line = |one: &Route| format!("{} {}", one.methods.join(","), one.source);
            found.iter().map(line).collect()
        };
        let known = "GET routes.rb:1".to_owned();
        assert_eq!(merged(&["GET"], &[&["GET"]]), std::slice::from_ref(&known));
        let more = merged(&["GET"], &[&["GET", "POST"], &["DELETE"]]);
        assert_eq!(more, ["DELETE told by Rails", "GET routes.rb:1", "POST told by Rails"]);
        assert_eq!(merged(&["GET"], &[&["ANY"]]), [known]);
        assert_eq!(merged(&["ANY"], &[&["PUT"]]), ["ANY routes.rb:1"]);
    }
}
