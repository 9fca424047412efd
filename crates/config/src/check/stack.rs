//! The services of the base, or of one profile, as a whole.

use std::collections::BTreeMap;

use super::check_complete;
use super::check_known;
use super::entries;
use super::graph;
use super::references;
use crate::{keys::SERVICE, shape::Shape, tree::Node, tree::Origin};
use hothouse_model::config::{Complaint, Problem, Recipe};

/// Finds every problem of a set of services.
pub(crate) fn check_services(services: &Node) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (_, service) in services.entries() {
        check_complete(service, &Shape::Table(&SERVICE), &mut problems);
        check_needs(service, services, &mut problems);
        check_kind(service, &mut problems);
        for (_, value) in entries(service, &["env"]) {
            references::check(value, Some(service), services, &mut problems);
        }
    }
    graph::check_circles(&graph::services(services), &mut problems);
    check_ports(services, &mut problems);
    check_labels(services, &mut problems);
    problems
}

/// Lists the labels of all apps, those of profiles included.
pub(super) fn app_labels(tree: &Node) -> Vec<&str> {
    let profiles = tree.get("profile").into_iter().flat_map(Node::entries);
    let sets =
        profiles.filter_map(|(_, profile)| profile.get("service")).chain(tree.get("service"));
    sets.flat_map(Node::entries).filter_map(|(_, service)| service.get("url")?.text()).collect()
}

fn check_needs(service: &Node, services: &Node, problems: &mut Vec<Problem>) {
    for need in service.get("needs").map(Node::items).unwrap_or_default() {
        let Some(name) = need.get("service") else { continue };
        check_known(name, "service", services.entries().map(|(name, _)| name), problems);
        let (Some(condition), Some(needed)) =
            (need.get("condition"), name.text().and_then(|n| services.get(n)))
        else {
            continue;
        };
        let task = is_on(needed, "task");
        let complaint = match condition.text() {
            Some("completed") if !task => "waits for the end of a service that is not a `task`",
            Some("ready") if task => {
                "waits for a task to be ready; a task is only ever `completed`"
            }
            _ => continue,
        };
        problems.push(condition.place.problem(Complaint::new(complaint)));
    }
}

/// Reports keys that do not go with the kind of service: task, recipe, on the host, or a command.
fn check_kind(service: &Node, problems: &mut Vec<Problem>) {
    let (task, host) = (is_on(service, "task"), is_on(service, "host"));
    let recipe = service.get("recipe").is_some();
    let mut refuse = |key: &str, reason: &str| {
        if let Some(node) = service.get(key).filter(|node| node.place.origin != Origin::Default) {
            problems.push(node.place.problem(Complaint::new(reason)));
        }
    };
    if host {
        for key in ["run", "build", "watch", "restart", "stop-signal", "stop-grace", "coverage"] {
            refuse(
                key,
                "cannot be set for a service on the host: Hothouse never starts or stops it",
            );
        }
    }
    if task {
        refuse("ready", "cannot be set for a task: it is done when it ends");
        refuse("recipe", "cannot be a task: a recipe keeps running");
    }
    if !host && is_sink(service) {
        for key in ["ready", "version", "watch", "restart", "stop-signal", "pty", "url", "ports"] {
            refuse(key, "cannot be set for a port on which Hothouse answers: there is no program");
        }
    }
    if recipe && !host {
        refuse("build", "needs `run`: a recipe has nothing to build");
    }
    if !recipe {
        refuse("version", "needs `recipe`: only a recipe has versions to choose from");
    }
    if !recipe || is_sink(service) {
        for key in ["database", "user", "password"] {
            refuse(key, "needs the `recipe` of a database");
        }
    }
    if host && !references::has_port(service) {
        problems.push(service.place.problem(Complaint::new("needs a `port`: it runs on the host")));
    }
    check_probe(service, problems);
}

/// Returns whether a service is a port on which Hothouse answers.
fn is_sink(service: &Node) -> bool {
    let recipe = service.get("recipe").and_then(|node| serde_json::from_value(node.to_json()).ok());
    matches!(recipe, Some(Recipe::Mailbox | Recipe::Errors | Recipe::Otel | Recipe::Objects))
}

fn check_probe(service: &Node, problems: &mut Vec<Problem>) {
    let Some(ready) = service.get("ready").filter(|ready| ready.get("port").is_none()) else {
        return;
    };
    for probe in ["http", "tcp"].iter().filter_map(|key| ready.get(key)) {
        if !references::has_port(service) {
            problems
                .push(probe.place.problem(Complaint::new("needs the service to have a `port`")));
        }
    }
}

fn is_on(node: &Node, key: &str) -> bool {
    node.get(key).is_some_and(Node::is_on)
}

fn check_ports(services: &Node, problems: &mut Vec<Problem>) {
    let mut uses: Vec<(i64, &str, &Node)> = Vec::new();
    for (name, service) in services.entries() {
        uses.extend(references::main_port(service).map(|(port, node)| (port, name, node)));
        let further = service.get("ports").map(Node::items).unwrap_or_default();
        uses.extend(further.iter().filter_map(|node| Some((node.integer()?, name, node))));
    }
    report_twice(uses, "port", problems);
}

fn check_labels(services: &Node, problems: &mut Vec<Problem>) {
    let labels = services.entries().filter_map(|(name, service)| {
        let node = service.get("url")?;
        Some((node.text()?, name, node))
    });
    report_twice(labels.collect(), "label", problems);
}

/// Reports what two services both claim, at the later place in the file.
fn report_twice<T: Ord + Copy + std::fmt::Display>(
    mut uses: Vec<(T, &str, &Node)>,
    what: &str,
    problems: &mut Vec<Problem>,
) {
    uses.sort_by_key(|(_, _, node)| position(node));
    let mut owners: BTreeMap<T, &str> = BTreeMap::new();
    for (claimed, name, node) in uses {
        match owners.get(&claimed) {
            Some(owner) => {
                let complaint = Complaint::new(format!(
                    "claims {what} {claimed}, which service `{owner}` has already"
                ));
                problems.push(node.place.problem(complaint));
            }
            None => {
                owners.insert(claimed, name);
            }
        }
    }
}

fn position(node: &Node) -> (usize, usize) {
    match &node.place.origin {
        Origin::File { line, .. } => (*line, node.place.column),
        Origin::Default | Origin::Environment(_) => (0, 0),
    }
}
