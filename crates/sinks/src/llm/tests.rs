use hothouse_model::record::Kind;
use serde_json::json;

use super::*;
use crate::{
    FlagSet,
    testing::{Sent, each, tree},
};

const WEATHER: &str = r#"{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":2}},"required":["city","days"]}"#;

fn ask(host: &str, path: &str, body: &Value) -> Taken {
    let take: crate::Take = |call, context| echo(call, context).expect("it is a host of a model");
    let sent = Sent::json(path, body).header("authorization", "Bearer x");
    sent.taken_by(host, take, &FlagSet::new())
}

fn openai(path: &str, body: &Value) -> Taken {
    ask("api.openai.com", path, body)
}

fn text(taken: &Taken) -> String {
    String::from_utf8(taken.answer.body.bytes()).unwrap()
}

/// Returns the data of the events in a stream.
fn events(taken: &Taken) -> Vec<Value> {
    let data = |line: &str| serde_json::from_str(line.strip_prefix("data: ")?).ok();
    text(taken).lines().filter_map(data).collect()
}

fn joined(events: &[Value], pointer: &str) -> String {
    events.iter().filter_map(|event| event.pointer(pointer)?.as_str()).collect()
}

const LONG: &str = "Say hello to everybody who is here, and to those who are not: ä€😀.";

#[test]
fn the_last_message_of_the_user_comes_back() {
    let chat = json!({ "model": "gpt-4o", "messages": [{ "role": "system", "content": "be kind" }, { "role": "user", "content": [{ "type": "text", "text": LONG }] }] });
    let message = tree(&openai("/v1/chat/completions", &chat));
    assert_eq!(message["choices"][0]["message"]["content"], LONG);
    assert_eq!(message["choices"][0]["finish_reason"], "stop");
    let response = tree(&openai("/v1/responses", &json!({ "model": "gpt-5", "input": LONG })));
    assert_eq!(response["output"][0]["content"][0]["text"], LONG);
    let claude = json!({ "model": "claude", "max_tokens": 100, "messages": [{ "role": "user", "content": LONG }] });
    let message = tree(&ask("api.anthropic.com", "/v1/messages", &claude));
    assert_eq!(message["content"][0]["text"], LONG);
    let contents = json!({ "contents": [{ "role": "user", "parts": [{ "text": LONG }] }] });
    let path = "/v1beta/models/gemini-2.5-flash:generateContent";
    let answer = tree(&ask("generativelanguage.googleapis.com", path, &contents));
    assert_eq!(answer["candidates"][0]["content"]["parts"][0]["text"], LONG);
}

#[test]
fn a_stream_has_the_same_text_in_pieces() {
    let mut chat = json!({ "model": "gpt-4o", "stream": true, "stream_options": { "include_usage": true }, "messages": [{ "role": "user", "content": LONG }] });
    let taken = openai("/v1/chat/completions", &chat);
    let chunks = events(&taken);
    assert_eq!(joined(&chunks, "/choices/0/delta/content"), LONG);
    assert!(text(&taken).ends_with("data: [DONE]\n\n"));
    assert!(chunks.last().unwrap()["usage"]["total_tokens"].as_u64() > Some(10));
    chat["stream_options"] = Value::Null;
    let chunks = events(&openai("/v1/chat/completions", &chat));
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");
    let response =
        events(&openai("/v1/responses", &json!({ "model": "m", "stream": true, "input": LONG })));
    assert_eq!(joined(&response[..response.len() - 1], "/delta"), LONG);
    let numbers: Vec<_> =
        response.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(response.last().unwrap()["response"]["status"], "completed");
    let claude = json!({ "model": "claude", "max_tokens": 100, "stream": true, "messages": [{ "role": "user", "content": LONG }] });
    let found = events(&ask("api.anthropic.com", "/v1/messages", &claude));
    assert_eq!(joined(&found, "/delta/text"), LONG);
    assert_eq!(
        (&found[0]["type"], &found.last().unwrap()["type"]),
        (&json!("message_start"), &json!("message_stop"))
    );
    let contents = json!({ "contents": [{ "parts": [{ "text": LONG }] }] });
    let host = "generativelanguage.googleapis.com";
    let path = "/v1beta/models/g:streamGenerateContent";
    let found = events(&ask(host, &format!("{path}?alt=sse"), &contents));
    assert_eq!(joined(&found, "/candidates/0/content/parts/0/text"), LONG);
    let list = tree(&ask(host, path, &contents));
    assert_eq!(list.as_array().unwrap().len(), found.len());
}

#[test]
fn a_tool_that_is_insisted_on_is_called_with_arguments_that_fit() {
    let schema: Value = serde_json::from_str(WEATHER).unwrap();
    let fits = |arguments: &Value| {
        assert!(arguments["city"].is_string(), "{arguments}");
        assert!(arguments["days"].as_i64() >= Some(2), "{arguments}");
    };
    let tools =
        json!([{ "type": "function", "function": { "name": "weather", "parameters": schema } }]);
    for choice in
        [json!("required"), json!({ "type": "function", "function": { "name": "weather" } })]
    {
        for stream in [false, true] {
            let body = json!({ "model": "m", "stream": stream, "tools": tools, "tool_choice": choice, "messages": [{ "role": "user", "content": "rain?" }] });
            let taken = openai("/v1/chat/completions", &body);
            let arguments = match stream {
                true => joined(&events(&taken), "/choices/0/delta/tool_calls/0/function/arguments"),
                false => {
                    tree(&taken)["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
                        .as_str()
                        .unwrap()
                        .to_owned()
                }
            };
            fits(&serde_json::from_str(&arguments).unwrap());
        }
    }
    let tools = json!([{ "type": "function", "name": "weather", "parameters": schema }]);
    let body = json!({ "model": "m", "tools": tools, "tool_choice": "required", "input": "rain?" });
    let call = tree(&openai("/v1/responses", &body))["output"][0].clone();
    assert_eq!((&call["type"], &call["name"]), (&json!("function_call"), &json!("weather")));
    fits(&serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap());
    let tools = json!([{ "name": "weather", "input_schema": schema }]);
    let mut body = json!({ "model": "c", "max_tokens": 9, "tools": tools, "tool_choice": { "type": "any" }, "messages": [{ "role": "user", "content": "rain?" }] });
    let message = tree(&ask("api.anthropic.com", "/v1/messages", &body));
    assert_eq!(message["stop_reason"], "tool_use");
    fits(&message["content"][0]["input"]);
    body["stream"] = true.into();
    let found = events(&ask("api.anthropic.com", "/v1/messages", &body));
    fits(&serde_json::from_str(&joined(&found, "/delta/partial_json")).unwrap());
    let tools = json!([{ "functionDeclarations": [{ "name": "weather", "parameters": { "type": "OBJECT", "properties": { "city": { "type": "STRING" }, "days": { "type": "INTEGER", "minimum": 2 } }, "required": ["city", "days"] } }] }]);
    let body = json!({ "contents": [{ "parts": [{ "text": "rain?" }] }], "tools": tools, "toolConfig": { "functionCallingConfig": { "mode": "ANY" } } });
    let answer =
        tree(&ask("generativelanguage.googleapis.com", "/v1beta/models/g:generateContent", &body));
    fits(&answer["candidates"][0]["content"]["parts"][0]["functionCall"]["args"]);
}

#[test]
fn after_the_result_of_a_tool_there_is_text_or_an_app_would_never_end() {
    let tools = json!([{ "type": "function", "function": { "name": "weather" } }]);
    let messages = json!([{ "role": "user", "content": "rain?" }, { "role": "assistant", "tool_calls": [] }, { "role": "tool", "content": "no" }]);
    let body =
        json!({ "model": "m", "tools": tools, "tool_choice": "required", "messages": messages });
    let answer = tree(&openai("/v1/chat/completions", &body));
    assert_eq!(answer["choices"][0]["message"]["content"], "rain?");
}

#[test]
fn an_answer_fits_the_schema_and_the_limit_that_are_asked_for() {
    let schema: Value = serde_json::from_str(WEATHER).unwrap();
    let format = json!({ "type": "json_schema", "json_schema": { "name": "w", "schema": schema } });
    let body = json!({ "model": "m", "response_format": format, "messages": [{ "role": "user", "content": "x" }] });
    let answer = tree(&openai("/v1/chat/completions", &body));
    let content = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(serde_json::from_str::<Value>(content).unwrap()["city"].is_string());
    let short =
        json!({ "model": "c", "max_tokens": 2, "messages": [{ "role": "user", "content": LONG }] });
    let message = tree(&ask("api.anthropic.com", "/v1/messages", &short));
    assert_eq!(
        (&message["content"][0]["text"], &message["stop_reason"]),
        (&json!("Say hell"), &json!("max_tokens"))
    );
}

#[test]
fn embeddings_follow_from_the_text() {
    let embed = |body: &Value| tree(&openai("/v1/embeddings", body))["data"].clone();
    let two = embed(&json!({ "model": "text-embedding-3-small", "input": ["a", "b"] }));
    assert_eq!(two[0]["embedding"].as_array().unwrap().len(), 1536);
    assert_ne!(two[0]["embedding"], two[1]["embedding"]);
    let one = embed(&json!({ "model": "text-embedding-3-small", "input": "a", "dimensions": 8 }));
    let length: f64 = one[0]["embedding"]
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_f64().unwrap().powi(2))
        .sum();
    assert!((length - 1.0).abs() < 1e-5);
    let packed = embed(&json!({ "model": "m", "input": [1, 2, 3], "encoding_format": "base64" }));
    assert_eq!(packed[0]["embedding"].as_str().unwrap().len(), 1536 * 4 / 3 * 4);
    let many = json!({ "model": "m", "input": vec!["x"; 2048] });
    assert_eq!(openai("/v1/embeddings", &many).answer.status, 400);
}

#[test]
fn records_have_a_hash_and_no_more_than_the_beginning_of_a_prompt() {
    let body =
        json!({ "model": "gpt-4o", "messages": [{ "role": "user", "content": "x".repeat(1000) }] });
    let taken = openai("/v1/chat/completions", &body);
    let record = &taken.records[0];
    assert_eq!(record.kind, Kind::Llm);
    assert_eq!(record.body["endpoint"], "chat.completions");
    assert_eq!((&record.body["matched"], &record.body["fixture"]), (&json!(false), &Value::Null));
    assert_eq!(record.body["input_tokens"], 252);
    assert_eq!(record.body["output_tokens"], 250);
    assert_eq!(record.body["prompt"]["begins"].as_str().unwrap().len(), BEGINNING);
    assert_eq!(
        each(&openai("/v1/chat/completions", &body), "/prompt/sha256"),
        each(&taken, "/prompt/sha256")
    );
    assert!(openai("/v1/models", &json!({})).records.is_empty());
}

#[test]
fn what_a_fixture_answered_is_recorded_with_its_usage() {
    let body =
        json!({ "model": "c", "max_tokens": 9, "messages": [{ "role": "user", "content": "hi" }] });
    let bytes = body.to_string().into_bytes();
    let headers = vec![("x-api-key".to_owned(), b"k".to_vec())];
    let request = hothouse_mock::Request {
        method: "POST",
        host: "api.anthropic.com",
        path: "/v1/messages",
        query: "",
        headers: &headers,
        body: &bytes,
    };
    let answer = Answer::json(
        200,
        &json!({ "usage": { "input_tokens": 5, "output_tokens": 7 } }),
        hothouse_mock::Match::Fixture("f".into()),
    );
    let record = observed(&Call::read(request), &answer, "hello.toml").unwrap();
    assert_eq!(record.body["fixture"], "hello.toml");
    assert_eq!(
        (&record.body["input_tokens"], &record.body["output_tokens"]),
        (&json!(5), &json!(7))
    );
}

#[test]
fn refusals_are_in_the_form_of_the_vendor() {
    let user = json!([{ "role": "user", "content": "x" }]);
    for (host, path, body, status, pointer, value) in [
        (
            "api.openai.com",
            "/v1/chat/completions",
            json!({ "model": "m" }),
            400,
            "/error/type",
            "invalid_request_error",
        ),
        (
            "api.openai.com",
            "/v1/responses",
            json!([1]),
            400,
            "/error/type",
            "invalid_request_error",
        ),
        (
            "api.anthropic.com",
            "/v1/messages",
            json!({ "model": "c", "messages": user }),
            400,
            "/error/message",
            "max_tokens: Field required",
        ),
        (
            "api.anthropic.com",
            "/v1/messages",
            json!({ "model": "c", "max_tokens": 1, "messages": [] }),
            400,
            "/type",
            "error",
        ),
        (
            "generativelanguage.googleapis.com",
            "/v1beta/models/g:generateContent",
            json!({}),
            400,
            "/error/status",
            "INVALID_ARGUMENT",
        ),
    ] {
        let taken = ask(host, path, &body);
        assert_eq!(taken.answer.status, status, "{host}{path}");
        assert_eq!(tree(&taken).pointer(pointer).unwrap(), value, "{host}{path}");
        assert!(taken.records.is_empty());
    }
    let take: crate::Take = |call, context| echo(call, context).unwrap();
    let bare =
        Sent::json("/v1/messages", &json!({})).taken_by("api.anthropic.com", take, &FlagSet::new());
    assert_eq!(
        (bare.answer.status, &tree(&bare)["error"]["type"]),
        (401, &json!("authentication_error"))
    );
}

#[test]
fn a_path_that_the_mock_does_not_know_is_left_to_fixtures() {
    for (host, path) in [
        ("api.openai.com", "/v1/audio/speech"),
        ("api.anthropic.com", "/v1/messages/batches"),
        ("generativelanguage.googleapis.com", "/v1beta/models/g:tune"),
    ] {
        let take: crate::Take = |call, context| {
            assert_eq!(echo(call, context), None);
            Taken::empty(200, "none", Vec::new())
        };
        Sent::json(path, &json!({})).header("authorization", "Bearer x").taken_by(
            host,
            take,
            &FlagSet::new(),
        );
    }
}

#[test]
fn gemini_embeds_one_text_or_several() {
    let host = "generativelanguage.googleapis.com";
    let content = json!({ "parts": [{ "text": "hello" }] });
    let one = ask(
        host,
        "/v1beta/models/gemini-embedding-001:embedContent",
        &json!({ "content": content, "outputDimensionality": 64 }),
    );
    let values = tree(&one)["embedding"]["values"].as_array().unwrap().clone();
    let length: f64 = values.iter().filter_map(Value::as_f64).map(|number| number * number).sum();
    assert!(values.len() == 64 && (length - 1.0).abs() < 1e-3, "{length}");
    let requests = json!({ "requests": [{ "content": content }, { "content": { "parts": [{ "text": "bye" }] } }] });
    let batch = ask(host, "/v1beta/models/gemini-embedding-001:batchEmbedContents", &requests);
    let batched = tree(&batch)["embeddings"].as_array().unwrap().clone();
    let lengths: Vec<_> =
        batched.iter().map(|one| one["values"].as_array().unwrap().len()).collect();
    assert_eq!(lengths, [3072, 3072]);
    assert_eq!(batch.records[0].body["endpoint"], "batchEmbedContents");
    let empty = ask(
        host,
        "/v1beta/models/gemini-embedding-001:batchEmbedContents",
        &json!({ "requests": [] }),
    );
    assert_eq!(empty.answer.status, 400);
}
