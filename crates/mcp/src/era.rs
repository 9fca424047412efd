//! The two forms of the protocol: with a handshake (until 2025), or stateless (since 2026-07-28).
//!
//! Stateless requests declare their version in `_meta`; nothing is remembered between them.

use serde_json::{Value, json};

use crate::message::{Code, RequestId};

/// The version in which every request is self-contained.
pub const STATELESS: &str = "2026-07-28";

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// The headers that repeat parts of a message, for proxies that route it.
pub const HEADER_VERSION: &str = "mcp-protocol-version";
pub const HEADER_METHOD: &str = "mcp-method";
pub const HEADER_NAME: &str = "mcp-name";

/// The form of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Era {
    /// After a handshake, which agreed on the version.
    #[default]
    Handshake,
    /// Self-contained.
    Stateless,
}

impl Era {
    /// Returns the form of a request, or its refusal.
    pub fn of(id: &RequestId, params: &Value) -> Result<Self, Value> {
        let meta = params.get("_meta");
        let Some(version) = meta.and_then(|meta| meta.get(VERSION)) else {
            return Ok(Self::Handshake);
        };
        if version != STATELESS {
            let asked: String = version.as_str().unwrap_or_default().chars().take(40).collect();
            let mut refusal = id.refused(Code::Version, "this version is not supported");
            refusal["error"]["data"] = json!({ "supported": [STATELESS], "requested": asked });
            return Err(refusal);
        }
        match meta.and_then(|meta| meta.get(CAPABILITIES)).is_some_and(Value::is_object) {
            true => Ok(Self::Stateless),
            false => Err(id.refused(Code::BadParams, &format!("`_meta` has no `{CAPABILITIES}`"))),
        }
    }

    /// Adds the fields that the version requires in a result.
    pub fn complete(self, mut result: Value) -> Value {
        if self == Self::Stateless && result.is_object() {
            result["resultType"] = json!("complete");
        }
        result
    }

    /// Does the same as [`complete`](Self::complete) for cacheable results, without caching: sandboxes change.
    pub fn listed(self, result: Value) -> Value {
        let mut result = self.complete(result);
        if self == Self::Stateless && result.is_object() {
            (result["ttlMs"], result["cacheScope"]) = (json!(0), json!("private"));
        }
        result
    }

    /// Returns the server's description of itself.
    pub(crate) fn discovered(
        self,
        capabilities: Value,
        server: Value,
        instructions: &str,
    ) -> Value {
        self.listed(json!({
            "supportedVersions": [STATELESS],
            "capabilities": capabilities,
            "instructions": instructions,
            "_meta": { SERVER: server },
        }))
    }
}

/// Returns the first header of a stateless request that does not match its message.
pub fn mismatch<'h>(
    method: &str,
    params: &Value,
    header: impl Fn(&str) -> Option<&'h str>,
) -> Option<&'static str> {
    let key = match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        _ => None,
    };
    let named = key.and_then(|key| params.get(key)?.as_str());
    let differs = |name: &str, wanted: &str| header(name) != Some(wanted);
    match () {
        () if differs(HEADER_VERSION, STATELESS) => Some(HEADER_VERSION),
        () if differs(HEADER_METHOD, method) => Some(HEADER_METHOD),
        // Other names are in base64 in the header; then the message itself decides.
        () if named.is_some_and(|name| is_plain(name) && differs(HEADER_NAME, name)) => {
            Some(HEADER_NAME)
        }
        () => None,
    }
}

fn is_plain(name: &str) -> bool {
    name == name.trim() && name.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_how_it_is_spoken() {
        let id = RequestId::Number(1);
        let meta = |version: &str| json!({ "_meta": { VERSION: version, CAPABILITIES: {} } });
        assert_eq!(Era::of(&id, &json!({})), Ok(Era::Handshake));
        assert_eq!(Era::of(&id, &meta(STATELESS)), Ok(Era::Stateless));
        let refused = Era::of(&id, &meta("2030-01-01")).unwrap_err();
        assert_eq!(refused["error"]["code"], -32022);
        assert_eq!(refused["error"]["data"]["supported"], json!([STATELESS]));
        let bare = json!({ "_meta": { VERSION: STATELESS } });
        assert_eq!(Era::of(&id, &bare).unwrap_err()["error"]["code"], -32602);
        assert_eq!(Era::Handshake.listed(json!({})), json!({}));
        let listed = Era::Stateless.listed(json!({ "tools": [] }));
        assert_eq!(
            listed,
            json!({ "tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private" })
        );
    }

    #[test]
    fn headers_say_what_the_message_says() {
        let params = json!({ "name": "status" });
        let all =
            [(HEADER_VERSION, STATELESS), (HEADER_METHOD, "tools/call"), (HEADER_NAME, "status")];
        let without = |left: &str| {
            let header = |name: &str| {
                all.iter().find(|(own, _)| *own == name && name != left).map(|(_, it)| *it)
            };
            mismatch("tools/call", &params, header)
        };
        assert_eq!(without(""), None);
        for name in [HEADER_VERSION, HEADER_METHOD, HEADER_NAME] {
            assert_eq!(without(name), Some(name));
        }
    }
}
