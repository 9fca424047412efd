//! The Model Context Protocol (MCP), server side: messages in, answers out.
//!
//! Pure on purpose: standard input and HTTP both feed [`Server::receive`], so they cannot disagree. Tools are plain
//! descriptions, derived from the commands; the caller executes the calls.
//!
//! - [`message`]: JSON-RPC 2.0, parsing and writing
//! - [`tool`], [`resource`], [`prompt`]: what a server offers
//! - [`budget`]: truncates long results, with a cursor to continue from
//! - [`era`]: with a handshake, or stateless
//! - [`access`]: who may connect over HTTP

pub mod access;
pub mod budget;
pub mod era;
pub mod message;
pub mod prompt;
pub mod resource;
pub mod tool;

use serde_json::{Value, json};

use era::Era;
use message::{Code, Incoming, RequestId};
use prompt::Prompt;
use resource::Template;
use tool::Tool;

/// The supported versions of the protocol with a handshake, newest first.
pub const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// What a server offers.
#[derive(Clone, Debug, Default)]
pub struct Server {
    pub version: String,
    /// Instructions for the model about the whole server.
    pub instructions: String,
    pub tools: Vec<Tool>,
    pub templates: Vec<Template>,
    pub prompts: Vec<Prompt>,
}

/// What to do with a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Reaction {
    /// Send this answer.
    Answer(Value),
    /// Do nothing.
    Nothing,
    /// Run a tool, then answer.
    Call { id: RequestId, era: Era, tool: String, arguments: Value, progress: Option<Value> },
    /// List the resources, then answer.
    ListResources { id: RequestId, era: Era },
    /// Read a resource, then answer.
    ReadResource { id: RequestId, era: Era, uri: String },
    /// Stop working on a request; it is not answered.
    Cancel { id: RequestId },
}

impl Server {
    /// Processes one message in text form.
    pub fn receive(&self, text: &str) -> Reaction {
        match message::read(text) {
            Ok(Incoming::Request { id, method, params }) => self.request(id, &method, &params),
            Ok(Incoming::Notification { method, params }) => notified(&method, &params),
            Ok(Incoming::Response) => Reaction::Nothing,
            Err(refusal) => Reaction::Answer(refusal),
        }
    }

    fn request(&self, id: RequestId, method: &str, params: &Value) -> Reaction {
        let text = |name: &str| params.get(name).and_then(Value::as_str).map(str::to_owned);
        let missing = |id: &RequestId, name: &str| {
            Reaction::Answer(id.refused(Code::BadParams, &format!("`{name}` is missing")))
        };
        let era = match Era::of(&id, params) {
            Ok(era) => era,
            Err(refusal) => return Reaction::Answer(refusal),
        };
        let answer = |result: Value| Reaction::Answer(id.answer(era.complete(result)));
        let listed = |result: Value| Reaction::Answer(id.answer(era.listed(result)));
        match method {
            "initialize" => answer(self.initialize(params)),
            "server/discover" if era == Era::Stateless => Reaction::Answer(
                id.answer(era.discovered(capabilities(), self.own_info(), &self.instructions)),
            ),
            "ping" => answer(json!({})),
            "tools/list" => {
                listed(json!({ "tools": self.tools.iter().map(Tool::shown).collect::<Vec<_>>() }))
            }
            "tools/call" => match text("name") {
                None => missing(&id, "name"),
                Some(name) if !self.tools.iter().any(|tool| tool.name == name) => {
                    let shown: String = name.chars().take(80).collect();
                    let message = format!("there is no tool `{shown}`");
                    Reaction::Answer(id.refused(Code::BadParams, &message))
                }
                Some(tool) => {
                    let arguments = params.get("arguments").cloned().unwrap_or_else(|| json!({}));
                    let progress = params.pointer("/_meta/progressToken").cloned();
                    Reaction::Call { id, era, tool, arguments, progress }
                }
            },
            "resources/list" => Reaction::ListResources { id, era },
            "resources/templates/list" => {
                let shown: Vec<_> = self.templates.iter().map(Template::shown).collect();
                listed(json!({ "resourceTemplates": shown }))
            }
            "resources/read" => match text("uri") {
                Some(uri) => Reaction::ReadResource { id, era, uri },
                None => missing(&id, "uri"),
            },
            "prompts/list" => {
                let shown: Vec<_> = self.prompts.iter().map(Prompt::shown).collect();
                listed(json!({ "prompts": shown }))
            }
            "prompts/get" => {
                let name = text("name").unwrap_or_default();
                match self.prompts.iter().find(|prompt| prompt.name == name) {
                    Some(prompt) => answer(prompt.messages()),
                    None => {
                        Reaction::Answer(id.refused(Code::BadParams, "there is no such prompt"))
                    }
                }
            }
            _ => {
                let shown: String = method.chars().take(80).collect();
                let message = format!("there is no method `{shown}`");
                Reaction::Answer(id.refused(Code::NoMethod, &message))
            }
        }
    }

    fn initialize(&self, params: &Value) -> Value {
        let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        json!({
            "protocolVersion": agreed(asked),
            "capabilities": capabilities(),
            "serverInfo": self.own_info(),
            "instructions": self.instructions,
        })
    }

    fn own_info(&self) -> Value {
        json!({ "name": "hothouse", "title": "Hothouse", "version": self.version })
    }
}

fn capabilities() -> Value {
    json!({ "tools": {}, "resources": {}, "prompts": {} })
}

/// Returns the version to use: the client's, if it is supported, otherwise our newest.
pub fn agreed(asked: &str) -> &'static str {
    VERSIONS.into_iter().find(|known| *known == asked).unwrap_or(VERSIONS[0])
}

fn notified(method: &str, params: &Value) -> Reaction {
    match (method, params.get("requestId").and_then(RequestId::of)) {
        ("notifications/cancelled", Some(id)) => Reaction::Cancel { id },
        _ => Reaction::Nothing,
    }
}

/// Returns a notification about the progress of a request.
pub fn progress(token: &Value, step: u64, message: &str) -> Value {
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": { "progressToken": token, "progress": step, "message": message },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        Server {
            version: "1.2.3".into(),
            tools: vec![Tool::new("status", "Show one sandbox", json!({ "type": "object" }))],
            prompts: vec![Prompt::new("debug", "Find out what is wrong", "Look at the logs.")],
            ..Server::default()
        }
    }

    fn answer(text: &str) -> Value {
        match server().receive(text) {
            Reaction::Answer(value) => value,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_client_is_greeted_in_its_own_version_or_ours() {
        for (asked, agreed) in [
            ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"),
            ("2099-01-01", VERSIONS[0]),
            ("", VERSIONS[0]),
        ] {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{asked}"}}}}"#
            );
            let result = answer(&text);
            assert_eq!(result["result"]["protocolVersion"], agreed);
            assert_eq!(result["result"]["serverInfo"]["name"], "hothouse");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_code() {
        for (text, code) in [
            ("{", -32700),
            ("[]", -32600),
            ("17", -32600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#, -32601),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, -32602),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nuke"}}"#, -32602),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        ] {
            assert_eq!(answer(text)["error"]["code"], code, "{text}");
        }
        let silent = [
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
        ];
        for text in silent {
            assert_eq!(server().receive(text), Reaction::Nothing, "{text}");
        }
    }

    #[test]
    fn calls_and_cancellations_name_their_request() {
        let text = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"status","_meta":{"progressToken":7}}}"#;
        let expected = Reaction::Call {
            id: RequestId::Text("a".into()),
            era: Era::Handshake,
            tool: "status".into(),
            arguments: json!({}),
            progress: Some(json!(7)),
        };
        assert_eq!(server().receive(text), expected);
        let text =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#;
        let id = RequestId::Text("a".into());
        assert_eq!(server().receive(text), Reaction::Cancel { id });
    }
}
