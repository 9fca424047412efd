//! Seeds, scenarios and roles: the names they use.

use super::check_all_known;
use super::check_known;
use super::entries;
use super::graph;
use super::names;
use super::stack;
use crate::tree::Node;
use hothouse_model::config::{Complaint, Problem, Radius};

/// Reports bundles and radii that name what is not there, or each other in a circle.
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
    graph::check_circles(&graph::bundles(tree), problems);
    graph::check_circles(&graph::radii(tree), problems);
}

/// Reports profiles, scenarios and roles that name seeds that are not there.
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

/// Reports scenarios that name apps, roles or services that are not there.
pub(super) fn check_scenarios(tree: &Node, problems: &mut Vec<Problem>) {
    let (apps, roles) = (stack::app_labels(tree), names(tree, &["auth"]));
    let services = names(tree, &["service"]);
    for (_, scenario) in entries(tree, &["scenario"]) {
        if let Some(app) = scenario.get("app") {
            check_known(app, "app", apps.iter().copied(), problems);
        }
        // Roles may also come from the seeds' own summaries: they are checked only if any is declared.
        if let Some(role) = scenario.get("auth").filter(|_| !roles.is_empty()) {
            check_known(role, "role", roles.iter().copied(), problems);
        }
        let rows = scenario.get("expect").and_then(|expect| expect.get("row")).map(Node::items);
        for service in rows.unwrap_or_default().iter().filter_map(|row| row.get("service")) {
            check_known(service, "service", services.iter().copied(), problems);
        }
    }
}

fn seed_names(tree: &Node) -> Vec<&str> {
    [names(tree, &["seed", "radius"]), names(tree, &["seed", "bundle"])].concat()
}
