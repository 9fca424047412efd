//! Converts a room's request to one that can only concern its own sandbox. Pure.
//!
//! Nothing that names a sandbox, a folder of the host or an operation is passed on as received.

use std::collections::BTreeMap;

use hothouse_model::{Failure, FailureKind, OperationId, SandboxRecord, id::SandboxKey};
use serde_json::{Map, Value};

/// The maximum length of an operation id from a room.
const OPERATION: usize = 36;

/// The sandbox that a request belongs to.
#[derive(Clone, Debug)]
pub(super) struct Own {
    key: SandboxKey,
    id: String,
    project: String,
    name: String,
    worktree: String,
}

impl From<&SandboxRecord> for Own {
    fn from(sandbox: &SandboxRecord) -> Self {
        Self {
            key: sandbox.key,
            id: sandbox.id.to_string(),
            project: sandbox.project.to_string(),
            name: sandbox.name.to_string(),
            worktree: sandbox.worktree.to_string_lossy().into_owned(),
        }
    }
}

impl Own {
    /// Forces the parameters of a query.
    pub(super) fn query(&self, text: &str) -> Result<BTreeMap<String, String>, Failure> {
        let mut pairs = BTreeMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if pairs.insert(name.clone(), value).is_some() {
                let message = format!("the parameter `{name}` is there twice");
                return Err(Failure::new(FailureKind::Usage, message));
            }
        }
        self.check_name(pairs.get("sandbox").map(String::as_str))?;
        if let Some(operation) = pairs.get_mut("operation") {
            *operation = self.operation(operation)?.to_string();
        }
        pairs.extend(self.place().map(|(name, value)| (name.to_owned(), value)));
        Ok(pairs)
    }

    /// Forces the body of a request that changes something.
    pub(super) fn body(&self, bytes: &[u8]) -> Result<Map<String, Value>, Failure> {
        let unreadable = |why: &dyn std::fmt::Display| {
            Failure::new(FailureKind::Usage, format!("the body cannot be read: {why}"))
        };
        let mut body: Map<String, Value> = match bytes.is_empty() {
            true => Map::new(),
            false => serde_json::from_slice(bytes).map_err(|error| unreadable(&error))?,
        };
        match body.get("sandbox") {
            None | Some(Value::Null) => {}
            Some(Value::String(name)) => self.check_name(Some(name))?,
            Some(_) => return Err(unreadable(&"`sandbox` is not a text")),
        }
        body.extend(self.place().map(|(name, value)| (name.to_owned(), Value::String(value))));
        Ok(body)
    }

    /// Returns parameters that identify only this sandbox: its name, in its own worktree.
    fn place(&self) -> [(&'static str, String); 2] {
        [("sandbox", self.name.clone()), ("folder", self.worktree.clone())]
    }

    /// Accepts only the sandbox's own names, without revealing whether another sandbox exists.
    fn check_name(&self, name: Option<&str>) -> Result<(), Failure> {
        let Self { name: own, project, id, .. } = self;
        match name {
            None | Some("") => Ok(()),
            Some(name) if name == own || name == id => Ok(()),
            Some(name) if name == format!("{project}/{own}") => Ok(()),
            Some(_) => Err(Failure::new(
                FailureKind::Host,
                format!("a room reaches its own sandbox only, which is `{own}`"),
            )),
        }
    }

    /// Returns the stored id of an operation of this room. A room cannot name an operation of another room, whose key
    /// differs, or of the user, whose ids are hexadecimal.
    pub(super) fn operation(&self, id: &str) -> Result<OperationId, Failure> {
        let usage = || Failure::new(FailureKind::Usage, "this is not an id of an operation");
        let id: OperationId = id.parse().map_err(|_| usage())?;
        let tail = id.as_str().trim_start_matches("op_");
        if tail.len() > OPERATION {
            return Err(usage());
        }
        format!("op_in{:x}z{tail}", self.key.0).parse().map_err(|_| usage())
    }
}

/// Writes parameters as a query string.
pub(super) fn query_text(pairs: &BTreeMap<String, String>) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let escaped = |text: &str| -> String {
        let write = |byte: u8| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        };
        text.bytes().map(write).collect()
    };
    let pairs = pairs.iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Decodes `%XX` and `+`; rejects text that is malformed or not UTF-8.
fn decoded(text: &str) -> Result<String, Failure> {
    let bad = || Failure::new(FailureKind::Usage, "a parameter of the request is not well-formed");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        bytes.push(match first {
            b'+' => b' ',
            b'%' => {
                let digits = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
                let digits = digits.filter(|two| two.bytes().all(|b| b.is_ascii_hexdigit()));
                rest = tail.get(2..).unwrap_or_default();
                u8::from_str_radix(digits.ok_or_else(bad)?, 16).map_err(|_| bad())?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Own {
        Own {
            key: SandboxKey(17),
            id: "shop-agent-a-3f9c".into(),
            project: "shop".into(),
            name: "agent-a".into(),
            worktree: "/home/u/shop-sandboxes/agent-a".into(),
        }
    }

    #[test]
    fn a_query_is_about_its_own_sandbox_whatever_it_names() {
        let own = own();
        for text in [
            "",
            "folder=/home/u/other-sandboxes/b",
            "sandbox=agent-a&folder=/etc",
            "sandbox=shop/agent-a",
            "sandbox=shop%2Fagent-a&folder=..%2F..%2Fother",
            "sandbox=",
        ] {
            let forced = own.query(text).unwrap();
            assert_eq!(forced["sandbox"], "agent-a", "{text}");
            assert_eq!(forced["folder"], "/home/u/shop-sandboxes/agent-a", "{text}");
        }
        assert_eq!(own.query("grep=a%26b+c").unwrap()["grep"], "a&b c");
        assert_eq!(
            query_text(&own.query("grep=a%26b+c").unwrap()),
            "folder=/home/u/shop-sandboxes/agent-a&grep=a%26b%20c&sandbox=agent-a"
        );
    }

    #[test]
    fn another_sandbox_is_refused_whether_it_exists_or_not() {
        let own = own();
        let refusal = |text: &str| own.query(text).unwrap_err();
        for text in [
            "sandbox=other",
            "sandbox=../agent-a",
            "sandbox=other/agent-a",
            "sandbox=AGENT-A",
            "sandbox=agent-a%00",
            "sandbox=shop-agent-b-3f9c",
        ] {
            assert_eq!(refusal(text), refusal("sandbox=no-such"), "{text}");
        }
        for text in ["sandbox=agent-a&sandbox=other", "sandbox=%", "sandbox=%zz", "a=%ff"] {
            assert_eq!(refusal(text).kind, FailureKind::Usage, "{text}");
        }
    }

    #[test]
    fn a_body_is_about_its_own_sandbox_whatever_it_names() {
        let own = own();
        let forced = own.body(br#"{"service":"web","folder":"/etc","x":{"folder":"/y"}}"#).unwrap();
        assert_eq!(forced["folder"], "/home/u/shop-sandboxes/agent-a");
        assert_eq!(forced["sandbox"], "agent-a");
        assert_eq!(forced["service"], "web");
        assert_eq!(own.body(b"").unwrap()["sandbox"], "agent-a");
        let kind = |body: &[u8]| own.body(body).unwrap_err().kind;
        assert_eq!(kind(br#"{"sandbox":"other"}"#), FailureKind::Host);
        // serde_json keeps the last of two equal keys, and so does the forwarded body.
        assert_eq!(kind(br#"{"sandbox":"agent-a","sandbox":"other"}"#), FailureKind::Host);
        for body in [&b"[]"[..], b"null", b"{", br#"{"sandbox":["other"]}"#, b"\xff"] {
            assert_eq!(kind(body), FailureKind::Usage, "{body:?}");
        }
    }

    #[test]
    fn operations_of_rooms_never_meet_those_of_others() {
        let own = own();
        let theirs = OperationId::from_random([7; 12]);
        let mapped = own.operation(theirs.as_str()).unwrap();
        assert_eq!(mapped.as_str(), format!("op_in11z{}", &theirs.as_str()[3..]));
        assert_eq!(
            own.query(&format!("operation={theirs}")).unwrap()["operation"],
            *mapped.as_str()
        );
        for bad in ["", "op_", "op_../../etc", &format!("op_{}", "a".repeat(60))] {
            assert!(own.operation(bad).is_err(), "{bad}");
        }
    }
}
