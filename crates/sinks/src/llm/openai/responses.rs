//! The Responses API.

use serde_json::{Value, json};

use super::{Answered, Asked, Reply, VENDOR, id};
use crate::{
    Context, Taken,
    llm::stream::{Events, pieces},
};

pub(super) fn answer(asked: &Asked, context: &mut Context<'_>) -> Answered {
    let reply = asked.reply();
    let output_tokens = reply.tokens();
    let item = item(&reply, context);
    let response = response(asked, &reply, context);
    let done = done(&response, &item, (asked.input_tokens(), output_tokens));
    let taken = match asked.stream {
        true => streamed(&response, &item, &done),
        false => Taken::json(200, &done, VENDOR, Vec::new()),
    };
    Answered { taken, output_tokens: Some(output_tokens) }
}

/// Builds the output item: a message, or a call.
fn item(reply: &Reply, context: &mut Context<'_>) -> Value {
    match reply {
        Reply::Text { text, .. } => {
            let part =
                json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] });
            json!({ "id": id("msg_", context), "type": "message", "status": "completed", "role": "assistant", "content": [part] })
        }
        Reply::Call { name, arguments } => {
            let (own, call) = (id("fc_", context), id("call_", context));
            json!({ "id": own, "type": "function_call", "status": "completed", "call_id": call, "name": name, "arguments": arguments.to_string() })
        }
    }
}

fn response(asked: &Asked, reply: &Reply, context: &mut Context<'_>) -> Value {
    let cut = matches!(reply, Reply::Text { cut: true, .. });
    let incomplete = if cut { json!({ "reason": "max_output_tokens" }) } else { Value::Null };
    json!({
        "id": id("resp_", context), "object": "response", "created_at": context.now.as_second(), "status": "in_progress", "background": false,
        "error": null, "incomplete_details": incomplete, "instructions": null, "max_output_tokens": asked.most_tokens, "model": asked.model,
        "output": [], "parallel_tool_calls": true, "previous_response_id": null, "reasoning": { "effort": null, "summary": null },
        "store": true, "temperature": 1.0, "text": { "format": { "type": "text" } }, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "truncation": "disabled", "usage": null, "user": null, "metadata": {},
    })
}

fn done(response: &Value, item: &Value, (input, output): (u64, u64)) -> Value {
    let mut done = response.clone();
    let cut = !done["incomplete_details"].is_null();
    done["status"] = if cut { "incomplete" } else { "completed" }.into();
    done["output"] = json!([item]);
    done["usage"] = json!({
        "input_tokens": input, "input_tokens_details": { "cached_tokens": 0 }, "output_tokens": output,
        "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": input + output,
    });
    done
}

fn streamed(response: &Value, item: &Value, done: &Value) -> Taken {
    let mut events = Events::default();
    let mut number = 0;
    let mut add = |name: &str, mut data: Value| {
        data["type"] = name.into();
        data["sequence_number"] = number.into();
        number += 1;
        events.named(name, &data);
    };
    add("response.created", json!({ "response": response }));
    add("response.in_progress", json!({ "response": response }));
    let mut begun = item.clone();
    begun["status"] = "in_progress".into();
    let place = json!({ "item_id": item["id"], "output_index": 0 });
    let with = |more: &Value| {
        let mut all = place.clone();
        for (key, value) in more.as_object().into_iter().flatten() {
            all[key] = value.clone();
        }
        all
    };
    if let Some(text) = item.pointer("/content/0/text").and_then(Value::as_str) {
        begun["content"] = json!([]);
        add("response.output_item.added", json!({ "output_index": 0, "item": begun }));
        let empty = json!({ "type": "output_text", "text": "", "annotations": [], "logprobs": [] });
        add("response.content_part.added", with(&json!({ "content_index": 0, "part": empty })));
        for piece in pieces(text) {
            add(
                "response.output_text.delta",
                with(&json!({ "content_index": 0, "delta": piece, "logprobs": [] })),
            );
        }
        add(
            "response.output_text.done",
            with(&json!({ "content_index": 0, "text": text, "logprobs": [] })),
        );
        add(
            "response.content_part.done",
            with(&json!({ "content_index": 0, "part": item["content"][0] })),
        );
    } else {
        begun["arguments"] = "".into();
        add("response.output_item.added", json!({ "output_index": 0, "item": begun }));
        for piece in pieces(item["arguments"].as_str().unwrap_or_default()) {
            add("response.function_call_arguments.delta", with(&json!({ "delta": piece })));
        }
        add(
            "response.function_call_arguments.done",
            with(&json!({ "arguments": item["arguments"], "name": item["name"] })),
        );
    }
    add("response.output_item.done", json!({ "output_index": 0, "item": item }));
    let last =
        if done["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
    add(last, json!({ "response": done }));
    events.answer("text/event-stream; charset=utf-8", VENDOR)
}
