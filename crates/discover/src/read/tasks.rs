//! Task runners: make, just, Taskfile and similar ones; used if nothing else says how to start.

use super::ports;
use crate::{
    finding::{App, Evidence, Findings, Step},
    view::View,
};

/// Targets that start something, in order of preference.
const STARTS: [&str; 10] =
    ["dev", "run", "serve", "server", "start", "develop", "run-dev", "dev-server", "up", "watch"];

/// Targets that check.
const CHECKS: [&str; 4] = ["test", "lint", "check", "ci"];

/// One target of a file.
struct TaskTarget {
    name: String,
    line: usize,
    body: String,
}

pub(super) fn read(view: &View<'_>, found: &mut Findings) {
    for (names, program) in [
        (["justfile", "Justfile", ".justfile"], "just"),
        (["Makefile", "makefile", "GNUmakefile"], "make"),
    ] {
        let Some(file) = view.first("", &names) else { continue };
        let Some(source) = view.text(&file) else { continue };
        from(view, &file, program, targets(&source), found);
    }
    if let Some(file) = view.first("", &["Taskfile.yml", "Taskfile.yaml"]) {
        let value = view.yaml(&file).unwrap_or_default();
        let tasks = value["tasks"].as_object().into_iter().flatten();
        let targets = tasks.map(|(name, task)| TaskTarget {
            name: name.clone(),
            line: view.evidence(&file, &format!("{name}:"), "").line,
            body: task.to_string(),
        });
        let targets: Vec<_> = targets.collect();
        from(view, &file, "task", targets, found);
    }
}

fn from(
    _view: &View<'_>,
    file: &str,
    program: &str,
    targets: Vec<TaskTarget>,
    found: &mut Findings,
) {
    let evidence = |target: &TaskTarget| Evidence {
        file: file.to_owned(),
        line: target.line,
        fact: format!("target `{}`", target.name),
    };
    for target in targets.iter().filter(|target| CHECKS.contains(&target.name.as_str())) {
        if found.checks.len() < 12 {
            found.checks.push(Step {
                name: target.name.clone(),
                dir: String::new(),
                run: format!("{program} {}", target.name),
                evidence: vec![evidence(target)],
            });
        }
    }
    if !found.apps.is_empty() {
        return;
    }
    let start = STARTS.iter().find_map(|name| targets.iter().find(|target| target.name == *name));
    // A target that starts containers is replaced by Hothouse.
    let Some(start) =
        start.filter(|start| !start.body.contains("docker") && !start.body.trim().is_empty())
    else {
        return;
    };
    let mut app = App::web("web", "", format!("{program} {}", start.name));
    app.port = ports::of_command(&start.body);
    app.evidence.push(evidence(start));
    if app.port.is_none() {
        app.kind = crate::finding::AppKind::Worker;
    }
    found.needs(program, &app.evidence[0]);
    found.apps.push(app);
}

/// Reads the targets of a Makefile or a justfile.
fn targets(source: &str) -> Vec<TaskTarget> {
    let mut all: Vec<TaskTarget> = Vec::new();
    for (at, line) in source.lines().enumerate().take(5000) {
        if line.starts_with(['\t', ' ']) {
            if let Some(last) = all.last_mut().filter(|last| last.body.len() < 4000) {
                last.body.push_str(line.trim());
                last.body.push('\n');
            }
            continue;
        }
        let Some((head, rest)) = line.split_once(':') else { continue };
        let name = head.split_whitespace().next().unwrap_or_default();
        let is_name = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if is_name && !rest.starts_with('=') {
            all.push(TaskTarget { name: name.to_owned(), line: at + 1, body: String::new() });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read() {
        let all = targets(
            "X := 1\n.PHONY: dev\ndev: build ## run it\n\tpython app.py --port 9000\nbuild:\n\tgo build\n",
        );
        let shown: Vec<_> = all
            .iter()
            .map(|target| (target.name.as_str(), target.line, target.body.trim()))
            .collect();
        assert_eq!(shown, [("dev", 3, "python app.py --port 9000"), ("build", 5, "go build")]);
    }
}
