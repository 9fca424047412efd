//! Integrations, secrets, variables and egress rules.

use super::check_known;
use super::entries;
use super::names;
use super::references;
use crate::{tree::Node, tree::Value};
use hothouse_model::{
    config::{Complaint, Destination, Hosts, Problem, RuleTransport, rules::check_port},
    live_keys::LEAST_PREFIX,
};

/// Reports integrations whose webhooks or variables have invalid references.
pub(super) fn check_integrations(tree: &Node, problems: &mut Vec<Problem>) {
    let services = names(tree, &["service"]);
    for (_, integration) in entries(tree, &["integration"]) {
        if integration.get("class").is_none() {
            let message = "needs the key `class`, or `to` for a service that answers";
            problems.push(integration.place.problem(Complaint::new(message)));
        }
        if let Some(to) = integration.get("webhook").and_then(|webhook| webhook.get("to")) {
            check_known(to, "service", services.iter().copied(), problems);
        }
        if let Some(to) = integration.get("to") {
            check_led(to, integration, tree, problems);
            check_known(to, "service", services.iter().copied(), problems);
        }
        for (_, value) in entries(integration, &["env"]) {
            check_reference(value, tree, problems);
        }
    }
}

/// Reports an integration that should lead to a service, but cannot.
fn check_led(to: &Node, integration: &Node, tree: &Node, problems: &mut Vec<Problem>) {
    let class = integration.get("class").and_then(Node::text);
    if class.is_some_and(|class| class != "mock") {
        let message = "needs `class = \"mock\"`: a service answers in place of fixtures";
        problems.push(to.place.problem(Complaint::new(message)));
    }
    if integration.get("hosts").is_none_or(|hosts| hosts.items().is_empty()) {
        let message = "needs `hosts`: the hosts that the service answers for";
        problems.push(to.place.problem(Complaint::new(message)));
    }
    let service = to.text().and_then(|name| tree.get("service")?.get(name));
    if service.is_some_and(|service| !references::has_port(service)) {
        let message = "names a service that has no `port`";
        problems.push(to.place.problem(Complaint::new(message)));
    }
}

/// Reports secrets that no host could ever receive.
pub(super) fn check_secrets(tree: &Node, problems: &mut Vec<Problem>) {
    for hosts in entries(tree, &["secret"]).filter_map(|(_, secret)| secret.get("hosts")) {
        if matches!(&hosts.value, Value::List(items) if items.is_empty()) {
            let message = "cannot be empty: a secret goes only to hosts that it names";
            problems.push(hosts.place.problem(Complaint::new(message)));
        }
    }
}

/// Reports variables with invalid references, and those of the host that are not declared harmless.
pub(super) fn check_variables(tree: &Node, problems: &mut Vec<Problem>) {
    for (_, variable) in entries(tree, &["env"]) {
        if variable.get("from").is_some() && variable.get("kind").is_none() {
            let message = "needs the key `kind`: what makes the host's value harmless";
            problems.push(variable.place.problem(Complaint::new(message)));
        }
    }
    for value in entries(tree, &["env"]).filter_map(|(_, variable)| variable.get("value")) {
        check_reference(value, tree, problems);
    }
    let services = names(tree, &["service"]);
    for list in entries(tree, &["env"]).filter_map(|(_, variable)| variable.get("services")) {
        for name in list.items() {
            check_known(name, "service", services.iter().copied(), problems);
        }
    }
}

/// Reports rules for live keys that would match ordinary words.
pub(super) fn check_live_keys(tree: &Node, problems: &mut Vec<Problem>) {
    for prefix in entries(tree, &["live-keys", "rule"]).filter_map(|(_, rule)| rule.get("prefix")) {
        if prefix.text().is_some_and(|text| text.chars().count() < LEAST_PREFIX) {
            let message = format!("must have at least {LEAST_PREFIX} characters: less is no key");
            problems.push(prefix.place.problem(Complaint::new(message)));
        }
    }
}

fn check_reference(value: &Node, tree: &Node, problems: &mut Vec<Problem>) {
    let none = Node::empty();
    references::check(value, None, tree.get("service").unwrap_or(&none), problems);
}

/// Reports rules that name a port or transport twice, or a port that does not go with the transport.
pub(super) fn check_rules(tree: &Node, problems: &mut Vec<Problem>) {
    let lists = ["allow", "deny"].into_iter().filter_map(|name| tree.get("egress")?.get(name));
    let exceptions = entries(tree, &["integration"]).filter_map(|(_, node)| node.get("exceptions"));
    for rule in lists.chain(exceptions).flat_map(Node::items) {
        check_rule(rule, problems);
    }
}

fn check_rule(rule: &Node, problems: &mut Vec<Problem>) {
    let Some(host) = rule.get("host") else { return };
    let Some(target) = host.text().and_then(|text| text.parse::<Destination>().ok()) else {
        return;
    };
    let (port, transport) = (rule.get("port"), rule.get("transport"));
    let twice = [
        ("port", port.filter(|_| target.port.is_some())),
        ("transport", transport.filter(|_| target.transport.is_some())),
    ];
    for (what, node) in twice {
        if let Some(node) = node {
            let message = format!("is set twice: the host names a {what} too");
            problems.push(node.place.problem(Complaint::new(message)));
        }
    }
    let word = transport.and_then(Node::text);
    let carrier = target.transport.or(match word {
        Some("udp") => Some(RuleTransport::Udp),
        Some("icmp") => Some(RuleTransport::Icmp),
        _ => None,
    });
    let Some(carrier) = carrier.filter(|carrier| *carrier != RuleTransport::Tcp) else { return };
    let number = port.and_then(Node::integer).and_then(|port| u16::try_from(port).ok());
    if let Err(complaint) = check_port(carrier, target.port.or(number)) {
        problems.push(port.unwrap_or(host).place.problem(complaint));
    }
    if matches!(target.hosts, Hosts::Named(_)) {
        let message = format!("cannot be a list with `{carrier}`: name the hosts");
        problems.push(host.place.problem(Complaint::new(message)));
    }
    for key in ["methods", "paths"] {
        if let Some(node) = rule.get(key) {
            let message = format!("cannot be seen with `{carrier}`, only in connections");
            problems.push(node.place.problem(Complaint::new(message)));
        }
    }
}
