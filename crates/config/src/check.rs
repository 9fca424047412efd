//! What no single value can tell: keys that belong together, names that refer, cycles.
//!
//! Works on the merged tree rather than on types, so that one invalid value does not hide the
//! others.

mod data;
mod graph;
mod references;
mod stack;
mod wall;

use crate::{keys::ROOT, shape::Shape, shape::Table, tree::Node, tree::Value};
use hothouse_model::config::{ByteSize, Complaint, Problem, rules::shown};

pub(super) use self::stack::check_services;

/// Finds every problem of the merged configuration except in its services.
pub(super) fn check_tree(tree: &Node) -> Vec<Problem> {
    let mut problems = Vec::new();
    for key in ROOT.keys.iter().filter(|key| key.name != "service") {
        if let Some(node) = tree.get(key.name) {
            check_complete(node, &key.shape, &mut problems);
        }
    }
    data::check_seeds(tree, &mut problems);
    data::check_users_of_seeds(tree, &mut problems);
    data::check_scenarios(tree, &mut problems);
    wall::check_integrations(tree, &mut problems);
    wall::check_secrets(tree, &mut problems);
    wall::check_variables(tree, &mut problems);
    wall::check_rules(tree, &mut problems);
    wall::check_live_keys(tree, &mut problems);
    check_limits(tree, &mut problems);
    problems
}

/// Limits below which no room can start.
const LEAST: [(&str, &str, u64); 2] = [("memory", "16M", 16 << 20), ("disk", "1M", 1 << 20)];

/// Reports limits that are too low.
fn check_limits(tree: &Node, problems: &mut Vec<Problem>) {
    for (name, shown, least) in LEAST {
        let Some(node) = tree.get("room").and_then(|room| room.get(name)) else { continue };
        let size = node.text().and_then(|text| text.parse::<ByteSize>().ok());
        if size.is_some_and(|size| size.bytes() < least) {
            let complaint = format!("is less than {shown}, with which no room comes up");
            problems.push(node.place.problem(Complaint::new(complaint)));
        }
    }
}

/// Reports keys that are missing or exclude each other, here and below.
///
/// The services of a profile are skipped: they are checked once they are merged with the base.
fn check_complete(node: &Node, shape: &Shape, problems: &mut Vec<Problem>) {
    match shape {
        Shape::Table(table) if matches!(node.value, Value::Table(_)) => {
            check_keys(node, table, problems);
            let profile = table.key("files").is_some();
            for (name, below) in node.entries().filter(|(name, _)| !(profile && *name == "service"))
            {
                if let Some(key) = table.key(name) {
                    check_complete(below, &key.shape, problems);
                }
            }
        }
        Shape::Map(map) => {
            node.entries().for_each(|(_, below)| check_complete(below, &map.value, problems))
        }
        Shape::List(list) => {
            node.items().iter().for_each(|item| check_complete(item, &list.item, problems))
        }
        _ => {}
    }
}

fn check_keys(node: &Node, table: &Table, problems: &mut Vec<Problem>) {
    for name in table.required.iter().filter(|name| node.get(name).is_none()) {
        problems.push(node.place.problem(Complaint::new(format!("needs the key `{name}`"))));
    }
    let given: Vec<&str> =
        table.one_of.iter().copied().filter(|name| node.get(name).is_some()).collect();
    match given.as_slice() {
        [] if !table.one_of.is_empty() && !runs_on_host(node) => {
            // Compose uses `command` for what a service runs.
            let command = node.get("command").filter(|_| table.one_of.contains(&"run"));
            problems.push(match command {
                Some(command) => command.place.problem(Complaint {
                    suggestion: Some("run".to_owned()),
                    ..Complaint::new("is what an `image` runs in place of its own command")
                }),
                None => {
                    let one_of = quoted(table.one_of);
                    node.place.problem(Complaint::new(format!("needs one of {one_of}")))
                }
            });
        }
        [_, .., last] => {
            let place = node.get(last).map_or(&node.place, |extra| &extra.place);
            let complaint = Complaint::new(format!(
                "excludes {}: keep one of them",
                quoted(&given[..given.len() - 1])
            ));
            problems.push(place.problem(complaint));
        }
        _ => {}
    }
}

fn runs_on_host(node: &Node) -> bool {
    node.get("host").is_some_and(Node::is_on)
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Reports a name that is not among the known ones.
fn check_known<'a>(
    node: &Node,
    what: &str,
    known: impl IntoIterator<Item = &'a str>,
    problems: &mut Vec<Problem>,
) {
    let Some(name) = node.text() else { return };
    let mut known = known.into_iter().peekable();
    let none =
        if known.peek().is_none() { format!("; no {what} is declared") } else { String::new() };
    let known: Vec<&str> = known.collect();
    if !known.contains(&name) {
        let complaint = Complaint::new(format!("names the unknown {what} `{}`{none}", shown(name)));
        problems.push(node.place.problem(complaint.among(name, known)));
    }
}

/// Reports every name of a list that is not among the known ones.
fn check_all_known(list: Option<&Node>, what: &str, known: &[&str], problems: &mut Vec<Problem>) {
    for item in list.map(Node::items).unwrap_or_default() {
        check_known(item, what, known.iter().copied(), problems);
    }
}

/// Returns the entries at a path of tables, such as all services.
fn entries<'a>(
    tree: &'a Node,
    path: &[&str],
) -> impl Iterator<Item = (&'a str, &'a Node)> + use<'a> {
    path.iter().try_fold(tree, |node, key| node.get(key)).into_iter().flat_map(Node::entries)
}

/// Lists the names of the entries at a path.
fn names<'a>(tree: &'a Node, path: &[&str]) -> Vec<&'a str> {
    entries(tree, path).map(|(name, _)| name).collect()
}
