//! Gemini: generation, complete and streamed, token counting, embeddings, models.

use hothouse_model::id::hex;
use serde_json::{Value, json};

use super::{
    Answered,
    ask::{Asked, Refused, Reply, Tool, add_text, body, content_text, named},
    stream::{Events, pieces},
    vector::{MOST_NUMBERS, unit_vector},
};
use crate::{Call, Context, Taken, http};

const VENDOR: &str = "gemini";

/// The length of an embedding, unless the request names another.
const DIMENSIONS: usize = 3072;

const MODELS: [&str; 3] = ["gemini-2.5-pro", "gemini-2.5-flash", "gemini-embedding-001"];

/// Parses a request. The key comes in a header or in the query.
pub(super) fn read(call: &Call<'_>) -> Result<Asked, Refused> {
    let has = |name: &str| call.request.header(name).is_some();
    if !has("x-goog-api-key") && !has("authorization") && call.query("key").is_none() {
        return Err(Refused::no_key());
    }
    match http::path(call).as_slice() {
        ["v1" | "v1beta" | "v1alpha", "models", rest] => match rest.split_once(':') {
            Some((model, method)) => read_method(call, model, method),
            None => Ok(Asked { endpoint: "models", model: (*rest).to_owned(), ..Asked::default() }),
        },
        ["v1" | "v1beta" | "v1alpha", "models"] => {
            Ok(Asked { endpoint: "models", ..Asked::default() })
        }
        _ => Err(Refused::unknown()),
    }
}

fn read_method(call: &Call<'_>, model: &str, method: &str) -> Result<Asked, Refused> {
    let endpoint = match method {
        "embedContent" => return embed(call, model, "embedContent"),
        "batchEmbedContents" => return embed(call, model, "batchEmbedContents"),
        "generateContent" => "generateContent",
        "streamGenerateContent" => "streamGenerateContent",
        "countTokens" => "count_tokens",
        _ => return Err(Refused::unknown()),
    };
    let tree = body(call)?;
    let tree = tree.get("generateContentRequest").unwrap_or(tree);
    let contents = tree["contents"].as_array().filter(|contents| !contents.is_empty());
    let contents = contents.ok_or_else(|| Refused::bad("contents is not specified"))?;
    let mut prompt = String::new();
    add_text(field(tree, "systemInstruction", "system_instruction"), &mut prompt);
    add_text(&tree["contents"], &mut prompt);
    let tools = tools(tree);
    let user = |content: &&Value| {
        content["role"] != "model" && !content_text(&content["parts"]).is_empty()
    };
    let last = contents.iter().rev().find(user);
    let is_result = |part: &Value| part.get("functionResponse").is_some();
    let config = field(tree, "generationConfig", "generation_config");
    Ok(Asked {
        endpoint,
        model: model.to_owned(),
        stream: endpoint == "streamGenerateContent",
        messages: contents.len() as u64,
        last: last.map(|content| content_text(&content["parts"])).unwrap_or_default(),
        after_tool: contents
            .last()
            .and_then(|content| content["parts"].as_array())
            .is_some_and(|parts| parts.iter().any(is_result)),
        forced: forced(tree, &tools),
        tools,
        prompt,
        schema: schema(config),
        most_tokens: field(config, "maxOutputTokens", "max_output_tokens").as_u64(),
    })
}

/// Parses a request for embeddings: of one text, or of several.
fn embed(call: &Call<'_>, model: &str, endpoint: &'static str) -> Result<Asked, Refused> {
    let wanted = embeddings(body(call)?, endpoint);
    if wanted.iter().any(|(text, _)| text.is_empty()) || wanted.is_empty() {
        return Err(Refused::bad("content is not specified"));
    }
    if wanted.iter().map(|(_, count)| count).sum::<usize>() > MOST_NUMBERS {
        return Err(Refused::bad("too many requests in one batch"));
    }
    let texts: Vec<&str> = wanted.iter().map(|(text, _)| text.as_str()).collect();
    Ok(Asked {
        endpoint,
        model: model.to_owned(),
        messages: wanted.len() as u64,
        prompt: texts.join("\n"),
        last: texts.last().copied().unwrap_or_default().to_owned(),
        ..Asked::default()
    })
}

/// Returns the texts of a request for embeddings, each with the number of dimensions wanted.
fn embeddings(tree: &Value, endpoint: &str) -> Vec<(String, usize)> {
    let one = |request: &Value| {
        let count = field(request, "outputDimensionality", "output_dimensionality").as_u64();
        let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(DIMENSIONS);
        (content_text(&request["content"]["parts"]), count.clamp(1, DIMENSIONS))
    };
    match endpoint {
        "embedContent" => vec![one(tree)],
        _ => tree["requests"].as_array().into_iter().flatten().map(one).collect(),
    }
}

/// Returns a field in either spelling.
fn field<'v>(tree: &'v Value, camel: &str, snake: &str) -> &'v Value {
    tree.get(camel).unwrap_or(&tree[snake])
}

fn tools(tree: &Value) -> Vec<Tool> {
    let tools = tree["tools"].as_array().into_iter().flatten();
    let declared = tools.flat_map(|tool| {
        field(tool, "functionDeclarations", "function_declarations")
            .as_array()
            .into_iter()
            .flatten()
    });
    declared
        .filter_map(|tool| {
            let name = tool["name"].as_str()?.to_owned();
            let schema = tool.get("parametersJsonSchema").unwrap_or(&tool["parameters"]);
            Some(Tool { name, schema: lowered(schema) })
        })
        .collect()
}

fn forced(tree: &Value, tools: &[Tool]) -> Option<usize> {
    let config = field(
        field(tree, "toolConfig", "tool_config"),
        "functionCallingConfig",
        "function_calling_config",
    );
    if config["mode"] != "ANY" || tools.is_empty() {
        return None;
    }
    let allowed = field(config, "allowedFunctionNames", "allowed_function_names");
    named(tools, allowed[0].as_str()).or(Some(0))
}

fn schema(config: &Value) -> Option<Value> {
    let found = config.get("responseJsonSchema").or_else(|| config.get("responseSchema"));
    let any = config["responseMimeType"] == "application/json";
    found.map(lowered).or_else(|| any.then(|| json!({ "type": "object" })))
}

/// Converts the types of a schema to JSON Schema: Gemini has them in upper case.
fn lowered(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| match (key.as_str(), value) {
                ("type", Value::String(kind)) => (key.clone(), kind.to_ascii_lowercase().into()),
                _ => (key.clone(), lowered(value)),
            };
            map.iter().map(entry).collect()
        }
        Value::Array(items) => items.iter().map(lowered).collect(),
        other => other.clone(),
    }
}

/// Answers a request.
pub(super) fn answer(asked: &Asked, call: &Call<'_>, context: &mut Context<'_>) -> Answered {
    let not_generated = |tree: &Value| Answered {
        taken: Taken::json(200, tree, VENDOR, Vec::new()),
        output_tokens: None,
    };
    match asked.endpoint {
        "count_tokens" => {
            let tokens = asked.input_tokens();
            not_generated(
                &json!({ "totalTokens": tokens, "promptTokensDetails": [{ "modality": "TEXT", "tokenCount": tokens }] }),
            )
        }
        "models" => not_generated(&models(&asked.model)),
        "embedContent" | "batchEmbedContents" => embedded(asked, call),
        _ => generated(asked, call, context),
    }
}

fn embedded(asked: &Asked, call: &Call<'_>) -> Answered {
    let wanted = call.tree().map(|tree| embeddings(tree, asked.endpoint)).unwrap_or_default();
    let one = |(text, count): (String, usize)| json!({ "values": unit_vector(&text, count) });
    let mut all: Vec<Value> = wanted.into_iter().map(one).collect();
    let tree = match asked.endpoint {
        "embedContent" => json!({ "embedding": all.pop() }),
        _ => json!({ "embeddings": all }),
    };
    Answered { taken: Taken::json(200, &tree, VENDOR, Vec::new()), output_tokens: Some(0) }
}

fn generated(asked: &Asked, call: &Call<'_>, context: &mut Context<'_>) -> Answered {
    let reply = asked.reply();
    let id = hex(&(context.random)()[..12]);
    let (parts, finish): (Vec<Value>, &str) = match &reply {
        Reply::Text { text, cut } => {
            let texts = if asked.stream { pieces(text) } else { vec![text.clone()] };
            let parts = texts.into_iter().map(|text| json!({ "text": text })).collect();
            (parts, if *cut { "MAX_TOKENS" } else { "STOP" })
        }
        Reply::Call { name, arguments } => {
            (vec![json!({ "functionCall": { "name": name, "args": arguments } })], "STOP")
        }
    };
    let (input, output) = (asked.input_tokens(), reply.tokens());
    let count = parts.len();
    let chunk = |(at, part): (usize, &Value)| {
        let mut candidate = json!({ "content": { "parts": [part], "role": "model" }, "index": 0 });
        if at + 1 == count {
            candidate["finishReason"] = finish.into();
        }
        json!({
            "candidates": [candidate], "modelVersion": asked.model, "responseId": id,
            "usageMetadata": { "promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output },
        })
    };
    let chunks: Vec<Value> = parts.iter().enumerate().map(chunk).collect();
    let taken = match asked.stream {
        true => streamed(&chunks, call.query("alt") == Some("sse")),
        false => Taken::json(200, &chunks[0], VENDOR, Vec::new()),
    };
    Answered { taken, output_tokens: Some(output) }
}

/// Streams chunks as events, or as a JSON list.
fn streamed(chunks: &[Value], as_events: bool) -> Taken {
    let mut events = Events::default();
    if as_events {
        chunks.iter().for_each(|chunk| events.data(chunk));
        return events.answer("text/event-stream", VENDOR);
    }
    for (at, chunk) in chunks.iter().enumerate() {
        events.push(format!("{}{chunk}", if at == 0 { "[" } else { ",\n" }));
    }
    events.push("]".into());
    events.answer("application/json", VENDOR)
}

fn models(name: &str) -> Value {
    let model = |name: &str| json!({ "name": format!("models/{name}"), "version": "001", "displayName": name, "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536, "supportedGenerationMethods": ["generateContent", "countTokens"] });
    if name.is_empty() { json!({ "models": MODELS.map(model) }) } else { model(name) }
}
