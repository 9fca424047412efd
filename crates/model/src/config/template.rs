//! Values of environment variables with references in braces: `postgres://{db.host}:{db.port}`.
//!
//! Messages name a reference but never the rest of the value, which may contain a credential.

use super::{
    problem::{Complaint, shown},
    text::text_type,
};

text_type! {
    /// The value of a variable; `{service.field}` refers, `{{` and `}}` are plain braces.
    Template: "a text, with references such as `{db.url}`", None, |text| parse_template(text).map(|_| ())
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Text(String),
    Reference(Reference),
}

/// What a pair of braces refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The service; `None` means the one that has the variable, as in `{port}`.
    pub service: Option<String>,
    pub field: String,
}

/// The fields that a reference to another service may use.
pub const SERVICE_FIELDS: &[&str] =
    &["url", "hostname", "local", "port", "host", "database", "user", "password"];

/// The fields that a reference to the service itself may use.
pub const OWN_FIELDS: &[&str] = &["port"];

impl Template {
    /// Returns the parts in order.
    pub fn parts(&self) -> Vec<Part> {
        parse_template(self.as_str()).expect("a template was parsed when it was made")
    }
}

/// Splits a text into plain parts and references.
pub fn parse_template(text: &str) -> Result<Vec<Part>, Complaint> {
    if text.contains('\0') {
        return Err(Complaint::new("cannot hold a NUL character"));
    }
    let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        plain.push_str(&rest[..at]);
        let brace = &rest[at..];
        if let Some(after) = brace.strip_prefix("{{").or_else(|| brace.strip_prefix("}}")) {
            plain.push_str(&brace[..1]);
            rest = after;
            continue;
        }
        let inner = brace.strip_prefix('{').ok_or_else(|| stray("a `}` without its `{`"))?;
        let (inner, after) = inner.split_once('}').ok_or_else(|| stray("a `{` without its `}`"))?;
        push_text(&mut parts, &mut plain);
        parts.push(Part::Reference(parse_reference(inner)?));
        rest = after;
    }
    plain.push_str(rest);
    push_text(&mut parts, &mut plain);
    Ok(parts)
}

fn push_text(parts: &mut Vec<Part>, plain: &mut String) {
    if !plain.is_empty() {
        parts.push(Part::Text(std::mem::take(plain)));
    }
}

fn stray(what: &str) -> Complaint {
    Complaint::new(format!("has {what}; a plain brace is written `{{{{` or `}}}}`"))
}

fn parse_reference(inner: &str) -> Result<Reference, Complaint> {
    let (service, field) =
        inner.split_once('.').map_or((None, inner), |(service, field)| (Some(service), field));
    let word = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if word(field) && service.is_none_or(word) {
        return Ok(Reference { service: service.map(str::to_owned), field: field.to_owned() });
    }
    // A long or odd text in braces was not meant as a reference, and may be a credential.
    let inner = if inner.len() <= 40 {
        format!("`{{{}}}` is not", shown(inner))
    } else {
        "it is not".to_owned()
    };
    let form = "a reference such as `{db.url}`; a plain brace is written `{{` or `}}`";
    Err(Complaint::new(format!("has braces, but {inner} {form}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &str) {
        let parts = parse_template(text).map(|parts| {
            let shown = parts.into_iter().map(|part| match part {
                Part::Text(text) => format!("'{text}'"),
                Part::Reference(Reference { service, field }) => {
                    format!("<{}.{field}>", service.unwrap_or_default())
                }
            });
            shown.collect::<Vec<_>>().join(" ")
        });
        assert_eq!(parts.unwrap_or_else(|complaint| format!("! {complaint}")), expected, "{text}");
    }

    #[test]
    fn templates_split_into_text_and_references() {
        check("", "");
        check("plain", "'plain'");
        check("{db.url}", "<db.url>");
        check("a{port}b{api.local}", "'a' <.port> 'b' <api.local>");
        check("{{\"a\":1}}", "'{\"a\":1}'");
        check("{{{port}}}", "'{' <.port> '}'");
        check("{", "! has a `{` without its `}`; a plain brace is written `{{` or `}}`");
        check("a}", "! has a `}` without its `{`; a plain brace is written `{{` or `}}`");
        check(
            "{a b}",
            "! has braces, but `{a b}` is not a reference such as `{db.url}`; a plain brace is written `{{` or `}}`",
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_a_template_panic(text in "\\PC*|[{}a.]*") {
            if let Ok(template) = text.parse::<Template>() {
                template.parts();
            }
        }
    }
}
