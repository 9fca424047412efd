//! Go: servers and their ports.

use super::ports;
use crate::{
    finding::{App, Findings, Install, Step},
    text,
    view::View,
};

const FRAMEWORKS: [(&str, &str, Option<u16>); 8] = [
    ("github.com/gin-gonic/gin", "Gin", Some(8080)),
    ("github.com/labstack/echo", "Echo", None),
    ("github.com/gofiber/fiber", "Fiber", Some(3000)),
    ("github.com/go-chi/chi", "chi", None),
    ("github.com/gorilla/mux", "Gorilla", None),
    ("github.com/beego/beego", "Beego", Some(8080)),
    ("github.com/gobuffalo/buffalo", "Buffalo", Some(3000)),
    ("google.golang.org/grpc", "gRPC", None),
];

/// Calls that start a server.
const SERVES: [&str; 8] = [
    "ListenAndServe",
    ".Run(",
    ".Start(",
    ".Listen(",
    "net.Listen",
    "http.Serve",
    "NewServer",
    "fx.New",
];

pub(super) fn read(view: &View<'_>, found: &mut Findings) {
    let is_own = |path: &String| !super::is_aside(path) && !is_ignored(path);
    for module in view.named(&["go.mod"]).into_iter().filter(is_own).take(10) {
        one(view, &module, found);
    }
}

/// Whether Go's own tools ignore a path: `_example`, `.github`.
fn is_ignored(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with(['_', '.']))
}

fn one(view: &View<'_>, module: &str, found: &mut Findings) {
    let dir = text::folder(module);
    let Some(manifest) = view.text(module) else { return };
    let evidence = view.evidence(module, "module", "Go, built by its own tool");
    found.needs("go", &evidence);
    found.installs.push(Install {
        manager: "go",
        dir: dir.to_owned(),
        run: "go mod download".to_owned(),
        fills: vec![],
        evidence: vec![evidence.clone()],
    });
    found.checks.push(Step {
        name: "test".to_owned(),
        dir: dir.to_owned(),
        run: "go test ./...".to_owned(),
        evidence: vec![evidence],
    });
    let known = FRAMEWORKS.iter().find(|(package, ..)| manifest.contains(package));
    let own = |path: &&&str| {
        let below = path.get(dir.len()..).unwrap_or(path);
        !super::is_aside(below) && !is_ignored(below) && !path.ends_with("_test.go")
    };
    let all: Vec<&str> = ports::sources(view, dir, &[".go"]);
    let mains: Vec<&str> = all
        .iter()
        .filter(own)
        .filter(|path| {
            view.text(path).is_some_and(|source| {
                source.contains("package main") && source.contains("func main()")
            })
        })
        .copied()
        .take(20)
        .collect();
    let serving = |path: &&&str| {
        let source = view.text(path).unwrap_or_default();
        SERVES.iter().any(|call| source.contains(call))
    };
    let chosen: Vec<&str> = match mains.iter().filter(serving).copied().collect::<Vec<_>>() {
        serving if !serving.is_empty() => serving,
        // The server may be in a package that `main` only calls.
        _ if known.is_some()
            || all.iter().filter(own).take(100).any(|path| {
                view.text(path).is_some_and(|text| text.contains("ListenAndServe"))
            }) =>
        {
            mains.into_iter().take(1).collect()
        }
        _ => return,
    };
    for path in chosen.into_iter().take(4) {
        let folder = text::folder(path);
        let below = folder.strip_prefix(dir).unwrap_or(folder).trim_matches('/');
        let target = if below.is_empty() { ".".to_owned() } else { format!("./{below}") };
        let name = match (below, dir) {
            ("", "") => "web".to_owned(),
            ("", dir) => text::service_name(text::name(dir)),
            (below, _) => text::service_name(text::name(below)),
        };
        let mut app = App::web(&name, dir, format!("go run {}", text::shell_word(&target)));
        app.framework = known.map(|(_, title, _)| *title);
        app.evidence.push(view.evidence(path, "func main()", "a program that serves"));
        let rest = all.iter().filter(own).copied();
        if let Some((port, evidence)) = ports::in_files(view, std::iter::once(path).chain(rest)) {
            app.port = Some(port);
            app.evidence.push(evidence);
        } else {
            app.port = known.and_then(|(_, _, port)| *port);
        }
        if let Some((port, evidence)) = super::settings::port_of(view, dir) {
            app.port = Some(port);
            app.evidence.push(evidence);
        }
        if let Some((path, evidence)) = ports::health(view, all.iter().copied()) {
            (app.health, _) = (Some(path), app.evidence.push(evidence));
        }
        found.apps.push(app);
    }
}
