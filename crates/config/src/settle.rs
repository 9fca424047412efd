//! The last changes to the merged tree: templates for entries, defaults that depend on another
//! key, and the services of each profile.

use crate::{
    keys::SERVICES, shape::Shape, tree::Node, tree::Origin, tree::Place, tree::Value, tree::fill,
    tree::overlay, walk::TEMPLATE,
};

/// Drops the templates in the defaults, which are not entries themselves.
pub(super) fn without_templates(mut node: Node) -> Node {
    if let Value::Table(entries) = node.value {
        let entries = entries.into_iter().filter(|(name, _)| name != TEMPLATE);
        node.value =
            Value::Table(entries.map(|(name, below)| (name, without_templates(below))).collect());
    }
    node
}

/// Fills every entry of a table of names from its template.
pub(super) fn apply_templates(node: &mut Node, defaults: &Node, shape: &Shape) {
    let Value::Table(entries) = &mut node.value else { return };
    match shape {
        Shape::Map(map) => {
            if let Some(template) = defaults.get(TEMPLATE) {
                entries.values_mut().for_each(|entry| fill(entry, template, &map.value));
            }
        }
        Shape::Table(table) => {
            for (name, below) in entries {
                if let (Some(key), Some(defaults)) = (table.key(name), defaults.get(name)) {
                    apply_templates(below, defaults, &key.shape);
                }
            }
        }
        _ => {}
    }
}

/// Settles the services of the base, and returns those of each profile, merged over the base.
pub(super) fn settle_services(tree: &mut Node, defaults: &Node) -> Vec<(String, Node)> {
    let empty = Node::empty();
    let base = tree.get("service").unwrap_or(&empty);
    let template = defaults.get("service").unwrap_or(&empty);
    let profiles = tree.get("profile").into_iter().flat_map(Node::entries);
    let sets = profiles
        .map(|(name, profile)| (name.to_owned(), profile_services(base, profile, template)));
    let sets = sets.collect();
    if let Some(services) = tree.entry(&[]).and_then(|entries| entries.get_mut("service")) {
        settle(services);
    }
    sets
}

fn profile_services(base: &Node, profile: &Node, template: &Node) -> Node {
    let shape = Shape::Map(&SERVICES);
    let mut services = match profile.get("service") {
        Some(upper) => overlay(base.clone(), upper.clone(), &shape),
        None => base.clone(),
    };
    apply_templates(&mut services, template, &shape);
    settle(&mut services);
    services
}

/// Sets the defaults that depend on another key: dependents wait for a task to complete, and it is
/// not restarted.
fn settle(services: &mut Node) {
    let tasks =
        services.entries().filter(|(_, service)| service.get("task").is_some_and(Node::is_on));
    let tasks: Vec<String> = tasks.map(|(name, _)| name.to_owned()).collect();
    let Value::Table(entries) = &mut services.value else { return };
    for (name, service) in entries {
        let Some(keys) = service.entry(&[]) else { continue };
        if let Some(needs) = keys.get_mut("needs") {
            settle_needs(needs, &tasks);
        }
        let policy =
            keys.get_mut("restart").and_then(|restart| restart.entry(&[])?.get_mut("policy"));
        if let Some(policy) =
            policy.filter(|policy| policy.place.origin == Origin::Default && tasks.contains(name))
        {
            policy.value = Value::Text("never".to_owned());
        }
    }
}

/// Sets the class of integrations that a service answers for.
pub(super) fn settle_integrations(tree: &mut Node) {
    let entries = tree.entry(&[]).and_then(|entries| entries.get_mut("integration"));
    let Some(Value::Table(integrations)) = entries.map(|node| &mut node.value) else { return };
    for integration in integrations.values_mut() {
        let place =
            integration.get("to").map(|to| Place { origin: Origin::Default, ..to.place.clone() });
        if let (Some(place), Some(keys)) = (place, integration.entry(&[])) {
            let class = || Node { value: Value::Text("mock".to_owned()), place };
            keys.entry("class".to_owned()).or_insert_with(class);
        }
    }
}

fn settle_needs(needs: &mut Node, tasks: &[String]) {
    let Value::List(items) = &mut needs.value else { return };
    for need in items {
        let task = need
            .get("service")
            .and_then(Node::text)
            .is_some_and(|name| tasks.iter().any(|task| task == name));
        let condition = if task { "completed" } else { "ready" };
        let place = Place { origin: Origin::Default, ..need.place.clone() };
        if let Some(keys) = need.entry(&[]) {
            let node = || Node { value: Value::Text(condition.to_owned()), place };
            keys.entry("condition".to_owned()).or_insert_with(node);
        }
    }
}
