//! Language models: OpenAI, Anthropic, Gemini.
//!
//! Fixtures of the worktree answer first, and [`observed`] builds the record. What no fixture
//! matches gets an [`echo`]: the user's last message, or a call of the tool that the app requires,
//! or a value that fits the requested schema. The same request gets the same response, except for
//! ids.
//!
//! Every four bytes count as one token, rounded up.
//!
//! - [`ask`]: the parsed request, independent of the provider
//! - [`openai`], [`anthropic`], [`gemini`]: the responses of each
//! - [`price`], [`usage`]: the prices of real models, and their reported usage
//! - [`stream`]: streamed responses
//! - `vector`: embeddings

pub mod anthropic;
pub mod ask;
pub mod gemini;
pub mod openai;
pub mod price;
pub mod stream;
pub mod usage;
mod vector;

use hothouse_mock::Answer;
use hothouse_model::record::bodies::{LlmBody, Prompt};
use serde_json::Value;

use crate::{Call, Context, Recorded, Taken, bound, http, ids};
use ask::{Asked, Refused};

/// How many characters of the last message a record contains.
const BEGINNING: usize = 200;

/// The provider of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    OpenAi,
    Anthropic,
    Gemini,
}

impl Provider {
    /// Returns the provider's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    fn read(self, call: &Call<'_>) -> Result<Asked, Refused> {
        match self {
            Self::OpenAi => openai::read(call),
            Self::Anthropic => anthropic::read(call),
            Self::Gemini => gemini::read(call),
        }
    }
}

/// Finds the provider of a host.
pub fn find(host: &str) -> Option<Provider> {
    match host {
        "api.openai.com" | "eu.api.openai.com" | "us.api.openai.com" => Some(Provider::OpenAi),
        "api.anthropic.com" => Some(Provider::Anthropic),
        "generativelanguage.googleapis.com" => Some(Provider::Gemini),
        _ => None,
    }
}

/// Finds the provider of an integration that names its vendor.
pub fn find_named(vendor: &str) -> Option<Provider> {
    [Provider::OpenAi, Provider::Anthropic, Provider::Gemini]
        .into_iter()
        .find(|provider| provider.as_str() == vendor)
}

/// A request to a real model that costs money.
#[derive(Clone, Debug)]
pub struct RealCall {
    pub provider: Provider,
    pub asked: Asked,
    /// How many completions are requested.
    pub answers: u64,
}

/// The result of a call to a real model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RealEnd {
    pub status: Option<u16>,
    /// In dollars.
    pub cost: Option<f64>,
    pub refused: Option<String>,
    pub input_tokens: u64,
    pub output_tokens: u64,
}

/// Parses a request to a real model. `None` if it is free; an error if its cost cannot be
/// determined.
pub fn read_real(call: &Call<'_>, provider: Provider) -> Result<Option<RealCall>, String> {
    if matches!(call.request.method, "GET" | "HEAD" | "OPTIONS") {
        return Ok(None);
    }
    let asked = provider.read(call).map_err(|refused| refused.message)?;
    if !asked.is_generation() {
        return Ok(None);
    }
    let tree = call.tree();
    let count = |place: &str| tree.and_then(|tree| tree.pointer(place)).and_then(Value::as_u64);
    let answers = count("/n").or_else(|| count("/generationConfig/candidateCount")).unwrap_or(1);
    Ok(Some(RealCall { provider, asked, answers }))
}

impl RealCall {
    /// Builds the record of the call.
    pub fn record(&self, end: RealEnd) -> Recorded {
        let mut body =
            body(self.provider, &self.asked, None, (end.input_tokens, end.output_tokens));
        let how = match (&end.refused, end.cost) {
            (Some(why), _) => format!("refused: {why}"),
            (None, Some(cost)) => format!("${cost:.6}"),
            (None, None) => "no answer".to_owned(),
        };
        (body.real, body.matched) = (true, end.refused.is_none());
        (body.status, body.cost, body.refused) = (end.status, end.cost, end.refused);
        recorded(&body, &how)
    }
}

/// Answers what no fixture matched. `None` if the host is not a model provider, or if this mock
/// does not know the path.
pub fn echo(call: &Call<'_>, context: &mut Context<'_>) -> Option<Taken> {
    let provider = find(call.request.host)?;
    if let Some(taken) = http::preflight(call, provider.as_str()) {
        return Some(taken);
    }
    let taken = match provider.read(call) {
        Err(refused) if refused == Refused::unknown() => return None,
        Err(refused) => refused.answered(provider),
        Ok(asked) => {
            let answered = match provider {
                Provider::OpenAi => openai::answer(&asked, call, context),
                Provider::Anthropic => anthropic::answer(&asked, context),
                Provider::Gemini => gemini::answer(&asked, call, context),
            };
            with_record(answered, provider, &asked)
        }
    };
    Some(http::shared(taken, call))
}

/// A response, and its number of tokens. `None` for responses that are not generated, such as a
/// list of models.
pub(crate) struct Answered {
    pub(crate) taken: Taken,
    pub(crate) output_tokens: Option<u64>,
}

fn with_record(answered: Answered, provider: Provider, asked: &Asked) -> Taken {
    let Answered { mut taken, output_tokens } = answered;
    if let Some(output_tokens) = output_tokens {
        taken.records.push(record(provider, asked, None, (asked.input_tokens(), output_tokens)));
    }
    taken
}

/// Builds the record of a call that a fixture answered. `None` if it is not a request to a model.
pub fn observed(call: &Call<'_>, answer: &Answer, fixture: &str) -> Option<Recorded> {
    let provider = find(call.request.host)?;
    let asked = provider.read(call).ok()?;
    if !asked.is_generation() {
        return None;
    }
    let bytes = answer.body.bytes();
    let told = usage::read(&bytes);
    let tokens = (
        told.input.unwrap_or_else(|| asked.input_tokens()),
        told.output.unwrap_or_else(|| ask::tokens(bytes.len())),
    );
    Some(record(provider, &asked, Some(fixture), tokens))
}

fn record(
    provider: Provider,
    asked: &Asked,
    fixture: Option<&str>,
    tokens: (u64, u64),
) -> Recorded {
    let how = if fixture.is_some() { "fixture" } else { "echo" };
    recorded(&body(provider, asked, fixture, tokens), how)
}

fn recorded(body: &LlmBody, how: &str) -> Recorded {
    let LlmBody { model, endpoint, input_tokens, output_tokens, .. } = body;
    let summary = format!("{model} {endpoint}: {input_tokens} in, {output_tokens} out ({how})");
    Recorded::of(summary, body)
}

fn body(
    provider: Provider,
    asked: &Asked,
    fixture: Option<&str>,
    (input_tokens, output_tokens): (u64, u64),
) -> LlmBody {
    let begins: String = asked.last.chars().take(BEGINNING).collect();
    let tools = asked.tools.iter().take(50).map(|tool| bound::short(&tool.name)).collect();
    LlmBody {
        provider: provider.as_str().to_owned(),
        model: bound::short(&asked.model),
        endpoint: asked.endpoint.to_owned(),
        stream: asked.stream,
        matched: fixture.is_some(),
        fixture: fixture.map(str::to_owned),
        real: false,
        status: None,
        cost: None,
        refused: None,
        input_tokens,
        output_tokens,
        prompt: Prompt {
            sha256: ids::fingerprint(asked.prompt.as_bytes()),
            messages: asked.messages,
            chars: asked.prompt.chars().count() as u64,
            tools,
            begins,
        },
    }
}

#[cfg(test)]
mod tests;
