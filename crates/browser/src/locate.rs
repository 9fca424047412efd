//! Locators: how a step names an element, and how it is found on a page. Pure.

use std::fmt;

use hothouse_model::{browse::cut, config::rules::difference};
use serde_json::{Value, json};

use crate::accessibility::AxNode;

/// Identifies an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locator {
    pub by: By,
    /// Which of several, from 1.
    pub nth: Option<usize>,
}

/// How an element is identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// A ref of a snapshot.
    Ref(i64),
    /// A role, and the name if it matters.
    Role(String, Option<String>),
    Label(String),
    Text(String),
    TestId(String),
    Placeholder(String),
    Css(String),
    /// Anything with that name: an element to click or fill in, or a text.
    Any(String),
}

/// A text that is not a locator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a locator, such as \"button 'Pay'\", \"label 'Email'\", \"text 'Thank you'\", \"testid 'cart'\", \"css '#cart'\" or e12"
)]
pub struct NotALocator(String);

/// Roles that can be given without a name.
const ROLES: [&str; 38] = [
    "alert",
    "article",
    "banner",
    "button",
    "cell",
    "checkbox",
    "columnheader",
    "combobox",
    "dialog",
    "form",
    "grid",
    "heading",
    "image",
    "link",
    "list",
    "listbox",
    "listitem",
    "main",
    "menu",
    "menuitem",
    "navigation",
    "option",
    "progressbar",
    "radio",
    "region",
    "row",
    "search",
    "searchbox",
    "slider",
    "spinbutton",
    "status",
    "switch",
    "tab",
    "table",
    "tabpanel",
    "textbox",
    "tooltip",
    "tree",
];

/// Roles of elements that have a label.
const FIELDS: [&str; 14] = [
    "textbox",
    "searchbox",
    "combobox",
    "checkbox",
    "radio",
    "spinbutton",
    "slider",
    "switch",
    "listbox",
    "Date",
    "DateTime",
    "InputTime",
    "ColorWell",
    "button",
];

/// Roles of elements to act on, for locators with only a name.
const ACTIVE: [&str; 14] = [
    "button",
    "link",
    "tab",
    "menuitem",
    "option",
    "checkbox",
    "radio",
    "switch",
    "textbox",
    "searchbox",
    "combobox",
    "spinbutton",
    "slider",
    "listbox",
];

impl std::str::FromStr for Locator {
    type Err = NotALocator;

    fn from_str(text: &str) -> Result<Self, NotALocator> {
        let fail = || NotALocator(cut(text, 100));
        let plain = text.trim();
        let (plain, nth) = match plain.rsplit_once(" nth ") {
            Some((before, number)) => {
                let number = number.trim().parse().ok().filter(|number| *number > 0);
                (before.trim(), Some(number.ok_or_else(fail)?))
            }
            None => (plain, None),
        };
        if plain.is_empty() || plain.len() > 1000 {
            return Err(fail());
        }
        Ok(Self { by: by(plain).ok_or_else(fail)?, nth })
    }
}

fn by(text: &str) -> Option<By> {
    let number = text.strip_prefix('e').and_then(|digits| digits.parse::<i64>().ok());
    if let Some(element) = number {
        return Some(By::Ref(element));
    }
    if text.starts_with(['#', '.', '[']) {
        return Some(By::Css(text.to_owned()));
    }
    if let Some(whole) = unquoted(text) {
        return Some(By::Any(whole));
    }
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let name = unquoted(rest);
    let said = || name.clone().or_else(|| (!rest.is_empty()).then(|| rest.to_owned()));
    match word {
        "label" => Some(By::Label(said()?)),
        "text" => Some(By::Text(said()?)),
        "testid" => Some(By::TestId(said()?)),
        "placeholder" => Some(By::Placeholder(said()?)),
        "css" => Some(By::Css(said()?)),
        _ if name.is_some() => Some(By::Role(role(word), name)),
        _ if ROLES.contains(&role(word).as_str()) => Some(By::Role(role(word), said())),
        _ => Some(By::Any(text.to_owned())),
    }
}

fn role(word: &str) -> String {
    if word == "img" { "image".to_owned() } else { word.to_owned() }
}

/// Returns the text between quotes, if all of it is quoted.
fn unquoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inner.is_empty()).then(|| inner.to_owned())
}

impl fmt::Display for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |name: &str| match name.contains('\'') {
            true => format!("\"{name}\""),
            false => format!("'{name}'"),
        };
        match &self.by {
            By::Ref(element) => write!(f, "e{element}"),
            By::Role(role, None) => f.write_str(role),
            By::Role(role, Some(name)) => write!(f, "{role} {}", quoted(name)),
            By::Label(name) => write!(f, "label {}", quoted(name)),
            By::Text(text) => write!(f, "text {}", quoted(text)),
            By::TestId(id) => write!(f, "testid {}", quoted(id)),
            By::Placeholder(text) => write!(f, "placeholder {}", quoted(text)),
            By::Css(selector) => write!(f, "css {}", quoted(selector)),
            By::Any(name) => f.write_str(&quoted(name)),
        }?;
        self.nth.map_or(Ok(()), |nth| write!(f, " nth {nth}"))
    }
}

fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Returns whether a name matches completely; `None` if not even in part.
fn fits(name: &str, wanted: &str) -> Option<bool> {
    let (name, wanted) = (plain(name), plain(wanted));
    if name == wanted {
        return Some(true);
    }
    name.contains(&wanted).then_some(false)
}

impl Locator {
    /// Returns whether it is looked up in the accessibility tree.
    pub fn is_in_tree(&self) -> bool {
        matches!(self.by, By::Role(..) | By::Label(_) | By::Any(_))
    }

    /// Returns the matching nodes. Complete matches of a name take precedence over partial ones.
    pub fn among<'a>(&self, nodes: &'a [AxNode]) -> Vec<&'a AxNode> {
        let of = |roles: &dyn Fn(&str) -> bool, name: &str| {
            let all = nodes.iter().filter(|node| node.element > 0 && roles(&node.role));
            let scored: Vec<(bool, &AxNode)> =
                all.filter_map(|node| Some((fits(&node.name, name)?, node))).collect();
            let has_whole = scored.iter().any(|(whole, _)| *whole);
            let best = scored.into_iter().filter(|(whole, _)| *whole || !has_whole);
            best.map(|(_, node)| node).collect::<Vec<_>>()
        };
        match &self.by {
            By::Role(role, Some(name)) => of(&|known| known == role, name),
            By::Role(role, None) => {
                nodes.iter().filter(|node| node.element > 0 && node.role == *role).collect()
            }
            By::Label(name) => of(&|role| FIELDS.contains(&role), name),
            By::Any(name) => of(&|role| ACTIVE.contains(&role), name),
            _ => Vec::new(),
        }
    }

    /// Returns the query for the page's script, where the accessibility tree does not help.
    pub fn query(&self) -> Option<Value> {
        match &self.by {
            By::Text(text) | By::Any(text) => Some(json!({ "text": text })),
            By::TestId(id) => Some(json!({ "testid": id })),
            By::Placeholder(text) => Some(json!({ "placeholder": text })),
            By::Css(selector) => Some(json!({ "css": selector })),
            By::Ref(_) | By::Role(..) | By::Label(_) => None,
        }
    }

    /// Lists what a page has instead: the same role first, then the nearest names.
    pub fn near(&self, nodes: &[AxNode]) -> Vec<String> {
        let (role, name) = match &self.by {
            By::Role(role, name) => (Some(role.as_str()), name.as_deref().unwrap_or_default()),
            By::Label(name) | By::Any(name) | By::Text(name) | By::Placeholder(name) => {
                (None, name.as_str())
            }
            By::TestId(_) | By::Css(_) | By::Ref(_) => (None, ""),
        };
        let is_fit = |node: &&AxNode| {
            let is_kind = match (&self.by, role) {
                (_, Some(role)) => node.role == role,
                (By::Label(_), _) => FIELDS.contains(&node.role.as_str()),
                (By::Text(_), _) => {
                    matches!(node.role.as_str(), "StaticText" | "heading" | "alert")
                }
                _ => ACTIVE.contains(&node.role.as_str()),
            };
            is_kind && !node.name.is_empty()
        };
        let mut found: Vec<(usize, String)> = nodes
            .iter()
            .filter(is_fit)
            .take(500)
            .map(|node| (difference(&plain(name), &plain(&cut(&node.name, 80))), shown(node)))
            .collect();
        found.sort();
        found.dedup();
        found.into_iter().take(6).map(|(_, shown)| shown).collect()
    }
}

/// Formats a node as a locator.
pub fn shown(node: &AxNode) -> String {
    let role = if node.role == "StaticText" { "text" } else { &node.role };
    let name = cut(&node.name, 60);
    match node.element {
        1.. if role != "text" => format!("{role} '{name}' e{}", node.element),
        _ => format!("{role} '{name}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locators_are_read_and_shown() {
        for (text, shown) in [
            ("button 'Pay'", "button 'Pay'"),
            ("button \"Don't\"", "button \"Don't\""),
            ("button Pay now", "button 'Pay now'"),
            ("label Email", "label 'Email'"),
            ("text 'Thank you'", "text 'Thank you'"),
            ("testid cart nth 2", "testid 'cart' nth 2"),
            ("#cart", "css '#cart'"),
            ("[data-x]", "css '[data-x]'"),
            ("css 'a > b'", "css 'a > b'"),
            ("e12", "e12"),
            ("Pay now", "'Pay now'"),
            ("'Pay'", "'Pay'"),
            ("img 'Logo'", "image 'Logo'"),
            ("heading", "heading"),
            ("else", "'else'"),
        ] {
            let locator: Locator = text.parse().unwrap();
            assert_eq!(locator.to_string(), shown, "{text}");
            assert_eq!(locator.to_string().parse::<Locator>().unwrap(), locator, "{text}");
        }
        for wrong in ["", "  ", "text", "label ", "button 'x' nth 0"] {
            assert!(wrong.parse::<Locator>().is_err(), "{wrong}");
        }
    }

    fn node(element: i64, role: &str, name: &str) -> AxNode {
        AxNode { element, role: role.into(), name: name.into(), ..AxNode::default() }
    }

    #[test]
    fn a_whole_name_is_meant_before_a_part_of_one() {
        let nodes = [
            node(1, "button", "Pay later"),
            node(2, "button", "Pay"),
            node(3, "link", "Pay"),
            node(4, "textbox", "Email address"),
        ];
        let found = |text: &str| -> Vec<i64> {
            text.parse::<Locator>().unwrap().among(&nodes).iter().map(|node| node.element).collect()
        };
        assert_eq!(found("button 'pay'"), [2]);
        assert_eq!(found("button 'later'"), [1]);
        assert_eq!(found("label 'Email'"), [4]);
        assert_eq!(found("Pay"), [2, 3]);
        assert_eq!(found("button"), [1, 2]);
        let near = "button 'Pai'".parse::<Locator>().unwrap().near(&nodes);
        assert_eq!(near, ["button 'Pay' e2", "button 'Pay later' e1"]);
    }
}
