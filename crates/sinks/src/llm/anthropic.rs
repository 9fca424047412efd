//! Anthropic: messages, token counting, models.

use hothouse_model::id::hex;
use serde_json::{Value, json};

use super::{
    Answered,
    ask::{Asked, Refused, Reply, Tool, add_text, body, content_text, named},
    stream::{Events, pieces},
};
use crate::{Call, Context, Taken, http};

const VENDOR: &str = "anthropic";

const MODELS: [&str; 3] = ["claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5"];

/// Parses a request. The key comes as `x-api-key` or as a bearer token.
pub(super) fn read(call: &Call<'_>) -> Result<Asked, Refused> {
    if call.request.header("x-api-key").is_none() && call.request.header("authorization").is_none()
    {
        return Err(Refused::no_key());
    }
    match http::path(call).as_slice() {
        ["v1", "messages"] => messages(body(call)?, "messages"),
        ["v1", "messages", "count_tokens"] => messages(body(call)?, "count_tokens"),
        ["v1", "models", ..] => {
            let model = call.segments.get(2).map(|id| id.to_string()).unwrap_or_default();
            Ok(Asked { endpoint: "models", model, ..Asked::default() })
        }
        _ => Err(Refused::unknown()),
    }
}

fn messages(tree: &Value, endpoint: &'static str) -> Result<Asked, Refused> {
    let required = |name: &str| Refused::bad(format!("{name}: Field required"));
    let model = tree["model"].as_str().ok_or_else(|| required("model"))?;
    let messages = tree["messages"].as_array().ok_or_else(|| required("messages"))?;
    if endpoint == "messages" && tree["max_tokens"].as_u64().is_none() {
        return Err(required("max_tokens"));
    }
    if messages.is_empty() {
        return Err(Refused::bad("messages: at least one message is required"));
    }
    let tools = tree["tools"].as_array().into_iter().flatten();
    let tools: Vec<Tool> = tools.filter_map(tool).collect();
    let choice = &tree["tool_choice"];
    let forced = match choice["type"].as_str() {
        Some("any") => (!tools.is_empty()).then_some(0),
        Some("tool") => named(&tools, choice["name"].as_str()),
        _ => None,
    };
    let mut prompt = String::new();
    add_text(&tree["system"], &mut prompt);
    add_text(&tree["messages"], &mut prompt);
    let is_result = |part: &Value| part["type"] == "tool_result";
    let users = || messages.iter().rev().filter(|message| message["role"] == "user");
    let texts = users().map(|message| content_text(&message["content"]));
    let format = tree.get("output_config").and_then(|config| config.get("format"));
    let format = format.or_else(|| tree.get("output_format"));
    Ok(Asked {
        endpoint,
        model: model.to_owned(),
        stream: tree["stream"] == true && endpoint == "messages",
        messages: messages.len() as u64,
        last: texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default(),
        after_tool: messages
            .last()
            .and_then(|message| message["content"].as_array())
            .is_some_and(|parts| parts.iter().any(is_result)),
        prompt,
        tools,
        forced,
        schema: format.and_then(|format| format.get("schema")).cloned(),
        most_tokens: tree["max_tokens"].as_u64(),
    })
}

fn tool(tree: &Value) -> Option<Tool> {
    let name = tree["name"].as_str()?.to_owned();
    Some(Tool { name, schema: tree["input_schema"].clone() })
}

/// Answers a request.
pub(super) fn answer(asked: &Asked, context: &mut Context<'_>) -> Answered {
    let not_generated = |tree: &Value| Answered {
        taken: Taken::json(200, tree, VENDOR, Vec::new()),
        output_tokens: None,
    };
    match asked.endpoint {
        "count_tokens" => not_generated(&json!({ "input_tokens": asked.input_tokens() })),
        "models" => not_generated(&models(&asked.model)),
        _ => answer_message(asked, context),
    }
}

fn answer_message(asked: &Asked, context: &mut Context<'_>) -> Answered {
    let reply = asked.reply();
    let mut id = |prefix: &str| format!("{prefix}{}", hex(&(context.random)()[..12]));
    let (block, reason) = match &reply {
        Reply::Text { text, cut } => {
            let reason = if *cut { "max_tokens" } else { "end_turn" };
            (json!({ "type": "text", "text": text }), reason)
        }
        Reply::Call { name, arguments } => {
            let block =
                json!({ "type": "tool_use", "id": id("toolu_"), "name": name, "input": arguments });
            (block, "tool_use")
        }
    };
    let usage = json!({
        "input_tokens": asked.input_tokens(), "output_tokens": reply.tokens(), "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "service_tier": "standard",
    });
    let message = json!({
        "id": id("msg_"), "type": "message", "role": "assistant", "model": asked.model, "content": [block],
        "stop_reason": reason, "stop_sequence": null, "usage": usage,
    });
    let mut taken = match asked.stream {
        true => streamed(&message),
        false => Taken::json(200, &message, VENDOR, Vec::new()),
    };
    taken.answer.headers.push(("request-id".into(), id("req_")));
    Answered { taken, output_tokens: Some(reply.tokens()) }
}

fn streamed(message: &Value) -> Taken {
    let mut events = Events::default();
    let mut add = |name: &str, mut data: Value| {
        data["type"] = name.into();
        events.named(name, &data);
    };
    let mut begun = message.clone();
    begun["content"] = json!([]);
    begun["stop_reason"] = Value::Null;
    begun["usage"]["output_tokens"] = 1.into();
    add("message_start", json!({ "message": begun }));
    let mut block = message["content"][0].clone();
    let (kind, field, text) = match block["text"].as_str() {
        Some(text) => ("text_delta", "text", text.to_owned()),
        None => ("input_json_delta", "partial_json", block["input"].to_string()),
    };
    match field {
        "text" => block["text"] = "".into(),
        _ => block["input"] = json!({}),
    }
    add("content_block_start", json!({ "index": 0, "content_block": block }));
    add("ping", json!({}));
    for piece in pieces(&text) {
        let delta = json!({ "type": kind, field: piece });
        add("content_block_delta", json!({ "index": 0, "delta": delta }));
    }
    add("content_block_stop", json!({ "index": 0 }));
    let delta = json!({ "stop_reason": message["stop_reason"], "stop_sequence": null });
    add(
        "message_delta",
        json!({ "delta": delta, "usage": { "output_tokens": message["usage"]["output_tokens"] } }),
    );
    add("message_stop", json!({}));
    events.answer("text/event-stream; charset=utf-8", VENDOR)
}

fn models(id: &str) -> Value {
    let model = |id: &str| json!({ "type": "model", "id": id, "display_name": id, "created_at": "2025-11-01T00:00:00Z" });
    if !id.is_empty() {
        return model(id);
    }
    json!({ "data": MODELS.map(model), "has_more": false, "first_id": MODELS[0], "last_id": MODELS[2] })
}
