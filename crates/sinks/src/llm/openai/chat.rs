//! Chat completions.

use serde_json::{Value, json};

use super::{Answered, Asked, Reply, VENDOR, id};
use crate::{
    Call, Context, Taken,
    llm::stream::{Events, pieces},
};

pub(super) fn answer(asked: &Asked, call: &Call<'_>, context: &mut Context<'_>) -> Answered {
    let reply = asked.reply();
    let output_tokens = reply.tokens();
    let head = json!({ "id": id("chatcmpl-", context), "created": context.now.as_second(), "model": asked.model, "service_tier": "default", "system_fingerprint": "fp_hothouse" });
    let call_id = id("call_", context);
    let usage = usage(asked, output_tokens);
    let taken = match asked.stream {
        true => {
            let with_usage =
                call.tree().and_then(|tree| tree.pointer("/stream_options/include_usage"));
            let usage = (with_usage == Some(&Value::Bool(true))).then_some(usage);
            streamed(&head, &reply, &call_id, usage)
        }
        false => {
            let (message, finish) = message(&reply, &call_id);
            let mut tree = head;
            tree["object"] = "chat.completion".into();
            tree["choices"] = json!([{ "index": 0, "message": message, "logprobs": null, "finish_reason": finish }]);
            tree["usage"] = usage;
            Taken::json(200, &tree, VENDOR, Vec::new())
        }
    };
    Answered { taken, output_tokens: Some(output_tokens) }
}

fn usage(asked: &Asked, output: u64) -> Value {
    let input = asked.input_tokens();
    json!({
        "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
        "prompt_tokens_details": { "cached_tokens": 0, "audio_tokens": 0 },
        "completion_tokens_details": { "reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0 },
    })
}

fn message(reply: &Reply, call_id: &str) -> (Value, &'static str) {
    let mut message =
        json!({ "role": "assistant", "content": null, "refusal": null, "annotations": [] });
    match reply {
        Reply::Text { text, cut } => {
            message["content"] = text.clone().into();
            (message, if *cut { "length" } else { "stop" })
        }
        Reply::Call { name, arguments } => {
            let function = json!({ "name": name, "arguments": arguments.to_string() });
            message["tool_calls"] =
                json!([{ "id": call_id, "type": "function", "function": function }]);
            (message, "tool_calls")
        }
    }
}

fn streamed(head: &Value, reply: &Reply, call_id: &str, usage: Option<Value>) -> Taken {
    let mut events = Events::default();
    let chunk = |choices: Value| {
        let mut chunk = head.clone();
        chunk["object"] = "chat.completion.chunk".into();
        chunk["choices"] = choices;
        chunk
    };
    let delta = |delta: Value, finish: Value| {
        chunk(json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }]))
    };
    let finish = match reply {
        Reply::Text { text, cut } => {
            events.data(&delta(
                json!({ "role": "assistant", "content": "", "refusal": null }),
                Value::Null,
            ));
            for piece in pieces(text) {
                events.data(&delta(json!({ "content": piece }), Value::Null));
            }
            if *cut { "length" } else { "stop" }
        }
        Reply::Call { name, arguments } => {
            let first = json!([{ "index": 0, "id": call_id, "type": "function", "function": { "name": name, "arguments": "" } }]);
            events.data(&delta(
                json!({ "role": "assistant", "content": null, "tool_calls": first }),
                Value::Null,
            ));
            for piece in pieces(&arguments.to_string()) {
                let next = json!([{ "index": 0, "function": { "arguments": piece } }]);
                events.data(&delta(json!({ "tool_calls": next }), Value::Null));
            }
            "tool_calls"
        }
    };
    events.data(&delta(json!({}), finish.into()));
    if let Some(usage) = usage {
        let mut last = chunk(json!([]));
        last["usage"] = usage;
        events.data(&last);
    }
    events.push("data: [DONE]\n\n".into());
    events.answer("text/event-stream; charset=utf-8", VENDOR)
}
