//! A call from the room, and its decoded parts.
//!
//! All bytes are untrusted. Nothing here fails: what cannot be decoded is [`Content::Broken`] with the reason, so that
//! matching and near misses can name it.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::{form, json};

/// A request to a mocked host. The caller has decompressed the body and bounded everything.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub method: &'a str,
    pub host: &'a str,
    /// The path as sent, without the query.
    pub path: &'a str,
    /// The query as sent, without the `?`.
    pub query: &'a str,
    pub headers: &'a [(String, Vec<u8>)],
    pub body: &'a [u8],
}

/// A decoded body.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Empty,
    Json(Value),
    Form(Value),
    Text(String),
    /// Bytes that are none of these, or do not match their content type; with the reason.
    Broken(String),
}

/// A request with its decoded parts.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub request: Request<'a>,
    /// The decoded segments of the path; a trailing slash makes no difference.
    pub segments: Vec<Cow<'a, str>>,
    pub query: Vec<(String, String)>,
    pub content: Content,
}

impl<'a> Request<'a> {
    /// Returns the first value of a header, if it is text.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(&found.1).ok()
    }

    fn is_of(&self, kind: &str) -> bool {
        let kind_of = |header: &str| header.to_ascii_lowercase().contains(kind);
        self.header("content-type").is_some_and(kind_of)
    }
}

impl<'a> Call<'a> {
    /// Decodes a request.
    pub fn read(request: Request<'a>) -> Self {
        Self {
            request,
            segments: segments(request.path),
            query: form::pairs(request.query),
            content: content(&request),
        }
    }

    /// Returns the first value of a parameter in the query.
    pub fn query(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the body as a tree, if it is JSON or a form.
    pub fn tree(&self) -> Option<&Value> {
        match &self.content {
            Content::Json(tree) | Content::Form(tree) => Some(tree),
            _ => None,
        }
    }
}

/// Splits a path and decodes its segments.
pub fn segments(path: &str) -> Vec<Cow<'_, str>> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Vec::new();
    }
    path.split('/').map(|segment| percent_decode_str(segment).decode_utf8_lossy()).collect()
}

fn content(request: &Request<'_>) -> Content {
    let body = request.body;
    if body.is_empty() {
        return Content::Empty;
    }
    let Ok(text) = std::str::from_utf8(body) else {
        return Content::Broken("the body is not UTF-8".to_owned());
    };
    if request.is_of("x-www-form-urlencoded") {
        return match form::parse(text) {
            Ok(tree) => Content::Form(tree),
            Err(why) => Content::Broken(why.to_string()),
        };
    }
    // Many clients send JSON with another content type. `serde_json` refuses more than 128 levels.
    let looks_like_json = text.trim_start().starts_with(['{', '[']);
    match json::parse(body) {
        Ok(tree) if request.is_of("json") || looks_like_json => Content::Json(tree),
        Err(error) if request.is_of("json") => {
            Content::Broken(format!("the body is not valid JSON: {error}"))
        }
        _ => Content::Text(text.to_owned()),
    }
}

/// Returns the value at a dotted path: `a.b.0`, also as `$.a.b[0]`.
pub fn at<'v>(tree: &'v Value, path: &str) -> Option<&'v Value> {
    steps(path).try_fold(tree, |tree, step| match tree {
        Value::Object(entries) => entries.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Splits a path into its steps.
fn steps(path: &str) -> impl Iterator<Item = &str> {
    let path = path.strip_prefix('$').unwrap_or(path);
    path.split(['.', '[', ']']).map(|step| step.trim_matches(['"', '\''])).filter(|s| !s.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(kind: &str, body: &[u8]) -> Content {
        let headers = [("Content-Type".to_owned(), kind.as_bytes().to_vec())];
        let request =
            Request { method: "POST", host: "h", path: "/a", query: "", headers: &headers, body };
        Call::read(request).content
    }

    #[test]
    fn bodies_are_what_they_say_or_broken_with_a_reason() {
        assert_eq!(read("application/json", b"{\"a\":1}"), Content::Json(json!({ "a": 1 })));
        assert_eq!(read("text/plain", b"hello"), Content::Text("hello".into()));
        let form = read("application/x-www-form-urlencoded; charset=utf-8", b"a[b]=1");
        assert_eq!(form, Content::Form(json!({ "a": { "b": "1" } })));
        let deep = "[".repeat(10_000);
        for broken in [b"{\"a\":".as_slice(), b"\xff\xfe", deep.as_bytes()] {
            assert!(matches!(read("application/json", broken), Content::Broken(_)));
        }
    }

    #[test]
    fn a_path_leads_into_a_tree() {
        let tree = json!({ "a": [{ "b": 7 }] });
        for path in ["a.0.b", "$.a[0].b", "a[0]['b']"] {
            assert_eq!(at(&tree, path), Some(&json!(7)), "{path}");
        }
        assert_eq!(at(&tree, "a.x"), None);
    }

    #[test]
    fn segments_are_decoded_after_the_path_is_split() {
        assert_eq!(segments("/a%2Fb/c/"), ["a/b", "c"]);
        assert_eq!(segments("/"), [""; 0]);
    }
}
