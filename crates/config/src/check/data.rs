//! Seeds, scenarios and roles: the names they use.

use super::check_all_known;
use super::check_known;
use super::entries;
use super::graph;
use super::names;
use super::stack;
use crate::tree::Node;
use hothouse_model::{
    config::{Complaint, Problem, Radius},
    query::{Query, QueryError},
    record::Kind,
};

/// Reports bundles and radii that refer to unknown ones, or to each other in a cycle.
pub(super) fn check_seeds(tree: &Node, problems: &mut Vec<Problem>) {
    let (bundles, services) = (names(tree, &["seed", "bundle"]), names(tree, &["service"]));
    for (name, bundle) in entries(tree, &["seed", "bundle"]) {
        if Radius::WORDS.contains(&name) {
            problems.push(bundle.place.problem(Complaint::new("has the name of a radius")));
        }
        check_all_known(bundle.get("needs"), "bundle", &bundles, problems);
        match (bundle.get("service"), bundle.get("http")) {
            (Some(service), _) => {
                check_known(service, "service", services.iter().copied(), problems);
            }
            (None, Some(call)) => {
                problems.push(call.place.problem(Complaint::new("needs `service` beside it")));
            }
            (None, None) => {}
        }
    }
    let seeds = seed_names(tree);
    for (_, list) in entries(tree, &["seed", "radius"]) {
        check_all_known(Some(list), "bundle or radius", &seeds, problems);
    }
    for (_, user) in entries(tree, &["queue"]).chain(entries(tree, &["cron"])) {
        if let Some(service) = user.get("service") {
            check_known(service, "service", services.iter().copied(), problems);
        }
    }
    graph::check_circles(&graph::bundles(tree), problems);
    graph::check_circles(&graph::radii(tree), problems);
}

/// Reports profiles, scenarios and roles that refer to unknown seeds.
pub(super) fn check_users_of_seeds(tree: &Node, problems: &mut Vec<Problem>) {
    let (seeds, bundles) = (seed_names(tree), names(tree, &["seed", "bundle"]));
    for (_, user) in entries(tree, &["profile"]).chain(entries(tree, &["scenario"])) {
        check_all_known(user.get("seed"), "bundle or radius", &seeds, problems);
    }
    let apps = stack::app_labels(tree);
    for (_, role) in entries(tree, &["auth"]) {
        check_all_known(role.get("needs"), "bundle", &bundles, problems);
        if let Some(app) = role.get("app") {
            check_known(app, "app", apps.iter().copied(), problems);
        }
    }
}

/// Reports scenarios that refer to unknown apps, roles or services.
pub(super) fn check_scenarios(tree: &Node, problems: &mut Vec<Problem>) {
    let (apps, roles) = (stack::app_labels(tree), names(tree, &["auth"]));
    let services = names(tree, &["service"]);
    for (_, scenario) in entries(tree, &["scenario"]) {
        if let Some(app) = scenario.get("app") {
            check_known(app, "app", apps.iter().copied(), problems);
        }
        if let Some(role) = scenario.get("auth") {
            check_known(role, "role", roles.iter().copied(), problems);
        }
        let Some(expect) = scenario.get("expect") else { continue };
        let rows = expect.get("row").map(Node::items).unwrap_or_default();
        for service in rows.iter().filter_map(|row| row.get("service")) {
            check_known(service, "service", services.iter().copied(), problems);
        }
        check_all_known(expect.get("service"), "service", &services, problems);
        check_queries(expect, problems);
    }
}

/// Reports queries that no record can match, such as those with a field that the kind does not have.
fn check_queries(expect: &Node, problems: &mut Vec<Problem>) {
    for (key, list) in expect.entries() {
        let Ok(kind) = key.strip_prefix("no-").unwrap_or(key).parse::<Kind>() else { continue };
        // Services are named, not queried.
        if kind == Kind::Service {
            continue;
        }
        for item in list.items() {
            let query = item.get("query").unwrap_or(item);
            let Some(Err(error)) = query.text().map(|text| Query::parse(text, Some(kind))) else {
                continue;
            };
            let mut complaint = Complaint::new(format!("is not a query: {error}"));
            if let QueryError::Field { near, .. } = &error {
                complaint.suggestion.clone_from(near);
                complaint.allowed = kind.fields().iter().map(|field| (*field).to_owned()).collect();
            }
            problems.push(query.place.problem(complaint));
        }
    }
}

fn seed_names(tree: &Node) -> Vec<&str> {
    [names(tree, &["seed", "radius"]), names(tree, &["seed", "bundle"])].concat()
}
