//! Embeddings, images, moderations, models.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{Answered, Asked, Refused, VENDOR, common};
use crate::{
    Call, Context, Taken, http,
    llm::{
        ask::add_text,
        vector::{MOST_NUMBERS, unit_vector},
    },
};

/// A grey image of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mOoBwAAgQCAGJu8LwAAAABJRU5ErkJggg==";

const MODELS: [&str; 6] =
    ["gpt-5", "gpt-5-mini", "gpt-4o", "gpt-4o-mini", "text-embedding-3-small", "gpt-image-1"];

pub(super) fn read(tree: &Value, endpoint: &'static str, input: &str) -> Result<Asked, Refused> {
    let value = tree.get(input).filter(|value| !value.is_null());
    let value =
        value.ok_or_else(|| Refused::bad(format!("Missing required parameter: '{input}'.")))?;
    let mut asked = match tree.get("model") {
        Some(_) => common(tree, endpoint)?,
        None if endpoint == "embeddings" => common(tree, endpoint)?,
        None => Asked { endpoint, model: "default".into(), ..Asked::default() },
    };
    asked.stream = false;
    add_text(value, &mut asked.prompt);
    asked.last = asked.prompt.trim_end().to_owned();
    asked.messages = inputs(value).len() as u64;
    if endpoint == "embeddings" && inputs(value).len() * dimensions(tree) > MOST_NUMBERS {
        return Err(Refused::bad("too many inputs for one request"));
    }
    Ok(asked)
}

pub(super) fn answer(asked: &Asked, call: &Call<'_>, context: &mut Context<'_>) -> Answered {
    let tree = call.tree().cloned().unwrap_or_default();
    let (answer, output_tokens) = match asked.endpoint {
        "embeddings" => (embeddings(asked, &tree), Some(0)),
        "images.generations" => (images(asked, &tree, context), Some(0)),
        "moderations" => (moderations(asked, &tree, context), Some(0)),
        "files" => {
            let pixel = STANDARD.decode(PIXEL).expect("it is base64");
            let taken = http::text(200, "image/png", pixel, VENDOR);
            return Answered { taken, output_tokens: None };
        }
        _ => (models(call), None),
    };
    Answered { taken: Taken::json(200, &answer, VENDOR, Vec::new()), output_tokens }
}

/// Returns the inputs: a text, texts, tokens of one text, or tokens of several.
fn inputs(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) if items.iter().all(|item| !item.is_number()) => items.iter().collect(),
        other => vec![other],
    }
}

fn dimensions(tree: &Value) -> usize {
    let large = tree["model"].as_str().is_some_and(|model| model.contains("large"));
    let asked = tree["dimensions"].as_u64().and_then(|count| usize::try_from(count).ok());
    asked.unwrap_or(if large { 3072 } else { 1536 }).clamp(1, 4096)
}

/// Generates unit vectors from the inputs: the same for the same text.
fn embeddings(asked: &Asked, tree: &Value) -> Value {
    let count = dimensions(tree);
    let base64 = tree["encoding_format"] == "base64";
    let one = |(at, input): (usize, &Value)| {
        let vector = unit_vector(&input.to_string(), count);
        let embedding = match base64 {
            true => {
                let bytes: Vec<u8> =
                    vector.iter().flat_map(|number| number.to_le_bytes()).collect();
                Value::from(STANDARD.encode(bytes))
            }
            false => vector.into(),
        };
        json!({ "object": "embedding", "index": at, "embedding": embedding })
    };
    let data: Vec<Value> = inputs(&tree["input"]).into_iter().enumerate().map(one).collect();
    let tokens = asked.input_tokens();
    json!({ "object": "list", "data": data, "model": asked.model, "usage": { "prompt_tokens": tokens, "total_tokens": tokens } })
}

fn images(asked: &Asked, tree: &Value, context: &Context<'_>) -> Value {
    let count = tree["n"].as_u64().unwrap_or(1).clamp(1, 10);
    let as_url = asked.model.starts_with("dall-e") && tree["response_format"] != "b64_json";
    let image = match as_url {
        true => {
            json!({ "url": "https://api.openai.com/v1/files/hothouse/content", "revised_prompt": asked.last })
        }
        false => json!({ "b64_json": PIXEL }),
    };
    let data: Vec<Value> = (0..count).map(|_| image.clone()).collect();
    let tokens = asked.input_tokens();
    json!({
        "created": context.now.as_second(), "data": data,
        "usage": { "input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens, "input_tokens_details": { "text_tokens": tokens, "image_tokens": 0 } },
    })
}

fn moderations(asked: &Asked, tree: &Value, context: &mut Context<'_>) -> Value {
    let result = json!({ "flagged": false, "categories": {}, "category_scores": {}, "category_applied_input_types": {} });
    let results: Vec<Value> = inputs(&tree["input"]).iter().map(|_| result.clone()).collect();
    json!({ "id": super::id("modr-", context), "model": asked.model, "results": results })
}

fn models(call: &Call<'_>) -> Value {
    let model = |id: &str| json!({ "id": id, "object": "model", "created": 1_750_000_000, "owned_by": "openai" });
    match http::path(call).get(2) {
        Some(id) => model(id),
        None => json!({ "object": "list", "data": MODELS.map(model) }),
    }
}
