//! OpenAI: chat completions, responses, embeddings, images, models.

mod chat;
mod other;
mod responses;

use serde_json::Value;

use super::{
    Answered,
    ask::{self, Asked, Refused, Tool, add_text, body, content_text, named},
};
use crate::{Call, Context, http};

pub(super) const VENDOR: &str = "openai";

/// Parses a request.
pub(super) fn read(call: &Call<'_>) -> Result<Asked, Refused> {
    if call.request.header("authorization").is_none() {
        return Err(Refused::no_key());
    }
    match http::path(call).as_slice() {
        ["v1", "chat", "completions"] => read_chat(body(call)?),
        // A client that tries a WebSocket first falls back to requests.
        ["v1", "responses"] if call.request.header("upgrade").is_some() => {
            Err(Refused { status: 426, message: "use POST: WebSockets are not served".into() })
        }
        ["v1", "responses"] => read_responses(body(call)?),
        ["v1", "embeddings"] => other::read(body(call)?, "embeddings", "input"),
        ["v1", "images", "generations"] => other::read(body(call)?, "images.generations", "prompt"),
        ["v1", "moderations"] => other::read(body(call)?, "moderations", "input"),
        ["v1", "models", ..] => Ok(Asked { endpoint: "models", ..Asked::default() }),
        ["v1", "files", "hothouse", "content"] => {
            Ok(Asked { endpoint: "files", ..Asked::default() })
        }
        _ => Err(Refused::unknown()),
    }
}

/// Answers a request.
pub(super) fn answer(asked: &Asked, call: &Call<'_>, context: &mut Context<'_>) -> Answered {
    match asked.endpoint {
        "chat.completions" => chat::answer(asked, call, context),
        "responses" => responses::answer(asked, context),
        _ => other::answer(asked, call, context),
    }
}

fn common(tree: &Value, endpoint: &'static str) -> Result<Asked, Refused> {
    let model =
        tree["model"].as_str().ok_or_else(|| Refused::bad("you must provide a model parameter"))?;
    Ok(Asked {
        endpoint,
        model: model.to_owned(),
        stream: tree["stream"] == true,
        ..Asked::default()
    })
}

fn read_chat(tree: &Value) -> Result<Asked, Refused> {
    let messages = tree["messages"].as_array().filter(|messages| !messages.is_empty());
    let messages =
        messages.ok_or_else(|| Refused::bad("Missing required parameter: 'messages'."))?;
    let mut asked = common(tree, "chat.completions")?;
    asked.messages = messages.len() as u64;
    add_text(&tree["messages"], &mut asked.prompt);
    let user = messages.iter().rev().find(|message| message["role"] == "user");
    asked.last = user.map(|message| content_text(&message["content"])).unwrap_or_default();
    asked.after_tool = messages.last().is_some_and(|message| message["role"] == "tool");
    let tools = tree["tools"].as_array().into_iter().flatten();
    asked.tools = tools.filter_map(|tool| tool_of(&tool["function"])).collect();
    let choice = &tree["tool_choice"];
    asked.forced = match choice.as_str() {
        Some("required") => (!asked.tools.is_empty()).then_some(0),
        _ => named(&asked.tools, choice.pointer("/function/name").and_then(Value::as_str)),
    };
    asked.schema = schema_of(&tree["response_format"], "/json_schema/schema");
    let limit = tree.get("max_completion_tokens").or_else(|| tree.get("max_tokens"));
    asked.most_tokens = limit.and_then(Value::as_u64);
    Ok(asked)
}

fn read_responses(tree: &Value) -> Result<Asked, Refused> {
    let mut asked = common(tree, "responses")?;
    let input = &tree["input"];
    if input.is_null() && tree["prompt"].is_null() {
        return Err(Refused::bad("Missing required parameter: 'input'."));
    }
    add_text(&tree["instructions"], &mut asked.prompt);
    add_text(input, &mut asked.prompt);
    let items = input.as_array().map(Vec::as_slice).unwrap_or_default();
    asked.messages = items.len().max(1) as u64;
    let user = items.iter().rev().find(|item| item["role"] == "user");
    asked.last = match (input, user) {
        (Value::String(text), _) => text.clone(),
        (_, Some(item)) => content_text(&item["content"]),
        _ => String::new(),
    };
    asked.after_tool = items.last().is_some_and(|item| item["type"] == "function_call_output");
    let tools = tree["tools"].as_array().into_iter().flatten();
    asked.tools = tools.filter(|tool| tool["type"] == "function").filter_map(tool_of).collect();
    let choice = &tree["tool_choice"];
    asked.forced = match choice.as_str() {
        Some("required") => (!asked.tools.is_empty()).then_some(0),
        _ => named(&asked.tools, choice["name"].as_str()),
    };
    asked.schema = schema_of(&tree["text"]["format"], "/schema");
    asked.most_tokens = tree["max_output_tokens"].as_u64();
    Ok(asked)
}

fn tool_of(tree: &Value) -> Option<Tool> {
    let name = tree["name"].as_str()?.to_owned();
    Some(Tool { name, schema: tree["parameters"].clone() })
}

/// Returns the schema of a response format; without one it is any object.
fn schema_of(format: &Value, place: &str) -> Option<Value> {
    match format["type"].as_str()? {
        "json_schema" => format.pointer(place).cloned(),
        "json_object" => Some(serde_json::json!({ "type": "object" })),
        _ => None,
    }
}

/// Generates an id in the vendor's format.
fn id(prefix: &str, context: &mut Context<'_>) -> String {
    format!("{prefix}{}", hothouse_model::id::hex(&(context.random)()))
}

pub(super) use ask::Reply;
