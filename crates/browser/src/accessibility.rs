//! The accessibility tree of a page: as a short text for readers, and to find elements by role and name.
//!
//! A node's ref is `e` followed by the browser's number for its element, so it refers to the same element for as long
//! as the document lives.

use std::collections::{HashMap, HashSet};

use hothouse_model::browse::{Accessibility, cut};
use serde_json::Value;

use crate::capture::text;

/// The maximum number of nodes, depth of indentation, and length of a name.
const NODES_MOST: usize = 20_000;
const DEPTH_MOST: usize = 24;
const NAME_MOST: usize = 120;

/// The maximum number of lines of a snapshot.
const LINES_MOST: usize = 1500;

/// An element as assistive technology sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AxNode {
    /// The browser's number of the element.
    pub element: i64,
    pub role: String,
    pub name: String,
    pub value: String,
    /// Such as `checked` or `level=2`.
    pub states: Vec<String>,
    pub depth: usize,
    pub disabled: bool,
    /// The frame that it is in; empty for the main one.
    pub frame: String,
}

/// Reads the tree: nodes in the order of the page, without those that carry no meaning.
pub fn read(tree: &Value) -> Vec<AxNode> {
    let nodes = tree["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let nodes = &nodes[..nodes.len().min(NODES_MOST)];
    let by_id: HashMap<&str, &Value> =
        nodes.iter().map(|node| (text(&node["nodeId"]), node)).collect();
    let roots = nodes.iter().filter(|node| !by_id.contains_key(text(&node["parentId"])));
    let mut open: Vec<(&Value, usize)> = roots.map(|root| (root, 0)).collect();
    open.reverse();
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    while let Some((node, depth)) = open.pop() {
        // A tree with a cycle is invalid.
        if !seen.insert(text(&node["nodeId"])) {
            continue;
        }
        let own = one(node, depth);
        let below = depth + usize::from(own.is_some());
        found.extend(own);
        let children = node["childIds"].as_array().map(Vec::as_slice).unwrap_or_default();
        for child in children.iter().rev().filter_map(|id| by_id.get(text(id))) {
            open.push((child, below));
        }
    }
    found
}

/// Roles that carry no meaning by themselves.
const SILENT: [&str; 13] = [
    "",
    "none",
    "generic",
    "InlineTextBox",
    "ListMarker",
    "LineBreak",
    "ignored",
    "GenericContainer",
    "LayoutTable",
    "LayoutTableRow",
    "LayoutTableCell",
    "Iframe",
    "IframePresentational",
];

fn one(node: &Value, depth: usize) -> Option<AxNode> {
    let role = text(&node["role"]["value"]);
    if node["ignored"] == true || SILENT.contains(&role) {
        return None;
    }
    let name = plain(text(&node["name"]["value"]));
    if matches!(role, "StaticText" | "paragraph" | "group" | "image")
        && name.is_empty()
        && role == "StaticText"
    {
        return None;
    }
    let properties = node["properties"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut states: Vec<String> = properties.iter().filter_map(state).collect();
    // The indentation shows how deep a list is.
    states.retain(|state| role == "heading" || !state.starts_with("level="));
    Some(AxNode {
        element: node["backendDOMNodeId"].as_i64().unwrap_or_default(),
        role: cut(role, 40),
        disabled: states.iter().any(|state| state == "disabled"),
        name,
        value: plain(&shown(&node["value"]["value"])),
        states,
        depth: depth.min(DEPTH_MOST),
        frame: String::new(),
    })
}

fn plain(text: &str) -> String {
    cut(&text.split_whitespace().collect::<Vec<_>>().join(" "), 1000)
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// Formats a property that a screen reader would announce.
fn state(property: &Value) -> Option<String> {
    let (name, value) = (text(&property["name"]), &property["value"]["value"]);
    match (name, value) {
        ("level", Value::Number(level)) => Some(format!("level={level}")),
        ("checked" | "pressed", Value::String(word)) => match word.as_str() {
            "true" => Some(name.to_owned()),
            "mixed" => Some(format!("{name}=mixed")),
            _ => None,
        },
        ("expanded", Value::Bool(is)) => Some(if *is { "expanded" } else { "collapsed" }.into()),
        (
            "disabled" | "required" | "selected" | "focused" | "checked" | "pressed",
            Value::Bool(true),
        ) => Some(name.to_owned()),
        ("invalid", Value::String(word)) if word != "false" => Some("invalid".into()),
        _ => None,
    }
}

/// Formats the tree, one line for each node with content.
pub fn snapshot(nodes: &[AxNode]) -> Accessibility {
    let mut lines: Vec<String> = Vec::new();
    let mut left_out = 0;
    let mut named: Vec<(usize, &str)> = Vec::new();
    for node in nodes {
        named.retain(|(depth, _)| *depth < node.depth);
        let is_said_above = node.role == "StaticText"
            && named.iter().any(|(_, name)| name.contains(node.name.as_str()));
        if is_said_above || node.role == "RootWebArea" {
            continue;
        }
        if lines.len() >= LINES_MOST {
            left_out += 1;
            continue;
        }
        if !node.name.is_empty() && node.role != "StaticText" {
            named.push((node.depth, &node.name));
        }
        lines.push(line(node));
    }
    Accessibility { nodes: nodes.len() as u64, snapshot: lines.join("\n"), left_out }
}

fn line(node: &AxNode) -> String {
    let indent = "  ".repeat(node.depth.saturating_sub(1));
    if node.role == "StaticText" {
        return format!("{indent}- text: {}", cut(&node.name, NAME_MOST));
    }
    let mut line = format!("{indent}- {}", node.role);
    if !node.name.is_empty() {
        line.push_str(&format!(" '{}'", cut(&node.name, NAME_MOST)));
    }
    if !node.value.is_empty() && node.value != node.name {
        line.push_str(&format!(" = {}", cut(&node.value, NAME_MOST)));
    }
    for state in &node.states {
        line.push_str(&format!(" [{state}]"));
    }
    if node.element > 0 {
        line.push_str(&format!(" e{}", node.element));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(id: &str, role: &str, name: &str, children: &[&str]) -> Value {
        json!({
            "nodeId": id, "role": { "value": role }, "name": { "value": name },
            "childIds": children, "backendDOMNodeId": id.parse::<i64>().unwrap_or(0),
        })
    }

    #[test]
    fn a_page_is_a_few_lines_with_refs() {
        let mut child = node("4", "button", "Pay", &["5"]);
        child["parentId"] = json!("3");
        child["properties"] = json!([{ "name": "disabled", "value": { "value": true } }]);
        let mut rest = vec![node("1", "RootWebArea", "Shop", &["2", "3"])];
        for (mut node, parent) in [
            (node("2", "heading", "Welcome", &[]), "1"),
            (node("3", "generic", "", &["4"]), "1"),
            (child, "3"),
            (node("5", "StaticText", "Pay", &[]), "4"),
        ] {
            node["parentId"] = json!(parent);
            rest.push(node);
        }
        let nodes = read(&json!({ "nodes": rest }));
        let told = snapshot(&nodes);
        assert_eq!(told.snapshot, "- heading 'Welcome' e2\n- button 'Pay' [disabled] e4");
        assert!(nodes.iter().any(|node| node.disabled && node.element == 4));
    }

    #[test]
    fn a_tree_that_lies_is_read_to_an_end() {
        let circle = json!({ "nodes": [node("1", "button", "a", &["1", "2"]), node("2", "button", "b", &["1"])] });
        assert!(read(&circle).len() <= 2);
        assert!(read(&json!({ "nodes": 7 })).is_empty());
        assert!(read(&json!(null)).is_empty());
    }
}
