//! JSON-RPC 2.0: parses and writes single messages.

use serde_json::{Value, json};

/// The maximum size of a message.
pub const LIMIT: usize = 4 << 20;

/// The id of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RequestId {
    Number(i64),
    Text(String),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    NoJson,
    BadRequest,
    NoMethod,
    BadParams,
    Internal,
    /// MCP: a resource that does not exist.
    NoResource,
    /// MCP: a header that contradicts the message.
    Header,
    /// MCP: an unsupported version.
    Version,
}

impl Code {
    fn number(self) -> i64 {
        match self {
            Self::NoJson => -32700,
            Self::BadRequest => -32600,
            Self::NoMethod => -32601,
            Self::BadParams => -32602,
            Self::Internal => -32603,
            Self::NoResource => -32002,
            Self::Header => -32020,
            Self::Version => -32022,
        }
    }
}

/// A message from the client.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    Request {
        id: RequestId,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// We send no requests, so responses are ignored.
    Response,
}

impl RequestId {
    /// Parses an id; `None` if it is not valid.
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text.clone())),
            Value::Number(number) => number.as_i64().map(Self::Number),
            _ => None,
        }
    }

    /// Returns the answer to this request.
    pub fn answer(&self, result: Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.value(), "result": result })
    }

    /// Returns the refusal of this request.
    pub fn refused(&self, code: Code, message: &str) -> Value {
        error(self.value(), code, message)
    }

    fn value(&self) -> Value {
        match self {
            Self::Number(number) => json!(number),
            Self::Text(text) => json!(text),
        }
    }
}

/// Parses one message; for an invalid one, returns the error to send.
pub fn read(text: &str) -> Result<Incoming, Value> {
    let value: Value = serde_json::from_str(text)
        .map_err(|_| error(Value::Null, Code::NoJson, "the message is not JSON"))?;
    let bad = |message: &str| error(Value::Null, Code::BadRequest, message);
    let Value::Object(mut message) = value else {
        return Err(bad("a message is one JSON object"));
    };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(bad("`jsonrpc` is not \"2.0\""));
    }
    let id = message.remove("id");
    let params = message.remove("params").unwrap_or_else(|| json!({}));
    let method = match message.remove("method") {
        Some(Value::String(method)) => method,
        None if id.is_some() => return Ok(Incoming::Response),
        _ => return Err(bad("`method` is not a text")),
    };
    match id {
        None => Ok(Incoming::Notification { method, params }),
        Some(id) => match RequestId::of(&id) {
            Some(id) => Ok(Incoming::Request { id, method, params }),
            None => Err(bad("`id` is neither a text nor a whole number")),
        },
    }
}

fn error(id: Value, code: Code, message: &str) -> Value {
    let error = json!({ "code": code.number(), "message": message });
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}
