//! Responses that we generate ourselves: short JSON that says what happened, why, and what to do.

use hyper::{
    Response, StatusCode,
    header::{self, HeaderValue},
};
use serde_json::json;

use crate::{
    body::{Body, whole},
    gate::Refusal,
    scan::Echoes,
    test_keys::Found,
    upstream::UpstreamError,
};

/// A response that we send in place of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    pub(crate) status: StatusCode,
    code: &'static str,
    pub(crate) message: String,
    rule: Option<String>,
    hint: Option<String>,
}

impl Own {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), rule: None, hint: None }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn bad_request(why: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", why)
    }

    pub(crate) fn misdirected(asked: &str, host: &str) -> Self {
        let asked: String = asked.chars().filter(|c| !c.is_control()).take(253).collect();
        let message = format!("the connection was made for `{host}`, the request is for `{asked}`");
        Self::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", message)
    }

    pub(crate) fn method(method: &str) -> Self {
        let message = format!("{method} is not allowed through the wall");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", message)
    }

    pub(crate) fn denied(Refusal { rule, reason, hint }: Refusal) -> Self {
        let own = Self::new(StatusCode::FORBIDDEN, "denied", reason).hint(hint);
        Self { rule: Some(rule), ..own }
    }

    pub(crate) fn live_key(host: &str, Found { key, place }: &Found) -> Self {
        let message = format!(
            "{place} has a live {} {}, and {host} is used in test mode",
            key.vendor, key.what
        );
        let hint = "use a key of the vendor's test mode";
        Self::new(StatusCode::FORBIDDEN, "live_key", message).hint(hint)
    }

    pub(crate) fn own_key(host: &str, place: &str) -> Self {
        let message = format!(
            "{place} has a key of the room's own, and {host} is used with a key that the wall puts in"
        );
        let hint = "declare the key as `[secret.NAME]` with this host, and send what its variable holds in the room";
        Self::new(StatusCode::FORBIDDEN, "own_key", message).hint(hint)
    }

    pub(crate) fn unmetered_upgrade() -> Self {
        let message = "calls of this host are counted, and nobody can count what a WebSocket costs";
        Self::new(StatusCode::FORBIDDEN, "denied", message).hint("use requests over HTTP")
    }

    pub(crate) fn no_value(secret: &str, why: &str) -> Self {
        let message = format!("the request needs secret `{secret}`, which has no value: {why}");
        let hint = format!("a user on the host must run `hothouse secret set {secret}`");
        Self::new(StatusCode::BAD_GATEWAY, "secret_missing", message).hint(hint)
    }

    pub(crate) fn unfit(why: &dyn std::error::Error) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "secret_unfit", why.to_string())
    }

    pub(crate) fn too_long(most: usize) -> Self {
        let message = format!("this body may need a secret, and it has more than {} bytes", most);
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_long", message)
            .hint("send the credential in a header instead, and declare its `form` so")
    }

    pub(crate) fn too_long_for_mock(most: usize) -> Self {
        let message = format!(
            "the body has more than {most} bytes, decompressed, too many to be answered here"
        );
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_long", message)
    }

    pub(crate) fn unknown_coding(coding: &'static str) -> Self {
        let message = format!("the body is in `{coding}`, which cannot be decompressed here");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "body_compressed", message)
    }

    pub(crate) fn mock_failed(why: &str) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "mock_failed", why)
    }

    pub(crate) fn compressed(coding: &'static str) -> Self {
        let message = format!(
            "the host answered in `{coding}`, which cannot be decompressed and searched for secrets"
        );
        Self::new(StatusCode::BAD_GATEWAY, "answer_compressed", message)
    }

    pub(crate) fn busy() -> Self {
        let message = "too many compressed answers are being decompressed at the same time";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message).hint("try again in a moment")
    }

    pub(crate) fn too_many() -> Self {
        let message = "too many requests of this sandbox are being answered at the same time";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message).hint("try again in a moment")
    }

    pub(crate) fn no_memory() -> Self {
        let message = "other requests of this sandbox hold all the memory that it has for bodies";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message).hint("try again in a moment")
    }

    pub(crate) fn partial() -> Self {
        let message = "the host answered with another part than it was asked for, which may begin or end in the middle of a secret";
        Self::new(StatusCode::BAD_GATEWAY, "answer_partial", message)
            .hint("ask for all of it, or for one range of bytes")
    }

    pub(crate) fn extended() -> Self {
        let message = "the host wants to extend the WebSocket although it was asked not to, which cannot be looked through for secrets";
        Self::new(StatusCode::BAD_GATEWAY, "answer_extended", message)
    }

    pub(crate) fn unreachable(error: &UpstreamError) -> Self {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            let cause_text = match cause.downcast_ref::<h2::Error>() {
                Some(error) => reason_of(error),
                None => cause.to_string(),
            };
            text = format!("{text}: {cause_text}");
            source = cause.source();
        }
        Self::new(StatusCode::BAD_GATEWAY, "upstream", text)
    }

    pub(crate) fn broken_body() -> Self {
        Self::bad_request("the body ended early")
    }

    /// Replaces secret values in it: an error may quote the host, such as the names in its certificate.
    pub(crate) fn without(self, echoes: &Echoes) -> Self {
        let message =
            String::from_utf8_lossy(&echoes.replace(self.message.as_bytes())).into_owned();
        Self { message, ..self }
    }

    /// Builds the response.
    pub(crate) fn response(&self, host: &str) -> Response<Body> {
        let text = json!({ "error": {
            "code": self.code,
            "message": self.message,
            "host": host,
            "rule": self.rule,
            "hints": self.hint.iter().collect::<Vec<_>>(),
            "from": "hothouse",
        }});
        let mut response = Response::new(whole(format!("{text}\n")));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// Describes why HTTP/2 failed, without any text from the host: it would be shown escaped, and a value in it could not
/// be recognized.
fn reason_of(error: &h2::Error) -> String {
    let who = match error.is_remote() {
        true => "the host ended it",
        false => "it was ended here",
    };
    match (error.reason(), error.get_io()) {
        (Some(reason), _) => format!("{who}: {}", reason.description()),
        (None, Some(error)) => error.to_string(),
        (None, None) => who.to_owned(),
    }
}
