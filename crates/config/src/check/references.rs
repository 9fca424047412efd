//! References in values of variables: `{db.url}`, `{port}`.

use crate::tree::Node;
use hothouse_model::config::{
    Complaint, OWN_FIELDS, Part, Problem, Recipe, Reference, SERVICE_FIELDS,
    rules::{parse_template, shown},
};

/// Reports invalid references of one value; `owner` is the service that has it.
pub(super) fn check(
    value: &Node,
    owner: Option<&Node>,
    services: &Node,
    problems: &mut Vec<Problem>,
) {
    let parts = value.text().and_then(|text| parse_template(text).ok()).unwrap_or_default();
    for part in parts {
        let Part::Reference(reference) = part else { continue };
        if let Err(complaint) = check_reference(&reference, owner, services) {
            problems.push(value.place.problem(complaint));
        }
    }
}

fn check_reference(
    reference: &Reference,
    owner: Option<&Node>,
    services: &Node,
) -> Result<(), Complaint> {
    let Reference { service, field } = reference;
    let Some(name) = service else { return check_own(field, owner, services) };
    let Some(node) = services.get(name) else {
        let complaint = Complaint::new(format!("refers to the unknown service `{}`", shown(name)));
        return Err(complaint.among(name, services.entries().map(|(name, _)| name)));
    };
    match field.as_str() {
        "url" if !is_set(node, "url") && !is_set(node, "recipe") => Err(Complaint::new(format!(
            "refers to `{{{name}.url}}`, but service `{name}` has no `url`"
        ))),
        "hostname" if !is_set(node, "url") => Err(Complaint::new(format!(
            "refers to `{{{name}.hostname}}`, but service `{name}` has no `url`"
        ))),
        "port" | "local" if !has_port(node) => Err(Complaint::new(format!(
            "refers to `{{{name}.{field}}}`, but service `{name}` has no `port`"
        ))),
        "database" | "user" | "password" if !is_set(node, "recipe") => Err(Complaint::new(
            format!("refers to `{{{name}.{field}}}`, but service `{name}` is no database"),
        )),
        known if SERVICE_FIELDS.contains(&known) => Ok(()),
        _ => {
            let complaint = Complaint::new(format!(
                "refers to the unknown field `{}` of `{name}`",
                shown(field)
            ));
            Err(complaint.among(field, SERVICE_FIELDS.iter().copied()))
        }
    }
}

fn check_own(field: &str, owner: Option<&Node>, services: &Node) -> Result<(), Complaint> {
    match owner {
        Some(owner) if field == "port" && has_port(owner) => Ok(()),
        Some(_) if field == "port" => {
            Err(Complaint::new("refers to `{port}`, but the service has no `port`"))
        }
        _ => Err(unknown_own(field, owner, services)),
    }
}

fn unknown_own(field: &str, owner: Option<&Node>, services: &Node) -> Complaint {
    let complaint = Complaint::new(format!("refers to the unknown `{{{}}}`", shown(field)));
    if services.get(field).is_some() {
        return Complaint { suggestion: Some(format!("{{{field}.url}}")), ..complaint };
    }
    let own = OWN_FIELDS.iter().copied().filter(|_| owner.is_some());
    complaint.among(field, own)
}

fn is_set(service: &Node, key: &str) -> bool {
    service.get(key).is_some()
}

/// Returns whether a service listens on a known port; one with an invalid recipe is assumed to.
pub(super) fn has_port(service: &Node) -> bool {
    is_set(service, "port") || is_set(service, "recipe")
}

/// Returns the port of a service, by default the recipe's own, with the node that sets it.
pub(super) fn main_port(service: &Node) -> Option<(i64, &Node)> {
    if let Some(port) = service.get("port") {
        return port.integer().map(|number| (number, port));
    }
    let recipe = service.get("recipe")?;
    let known: Recipe = serde_json::from_value(recipe.to_json()).ok()?;
    Some((i64::from(known.default_port()?), recipe))
}
