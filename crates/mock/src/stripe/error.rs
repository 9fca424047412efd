//! Stripe's errors, in its format.

use serde_json::{Map, Value, json};

/// The refusal of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StripeError {
    pub status: u16,
    pub kind: &'static str,
    pub code: Option<String>,
    pub param: Option<String>,
    pub message: String,
    /// Further fields: `decline_code`, `payment_intent`, `charge`.
    pub more: Map<String, Value>,
    /// Whether changes so far are kept: a declined card leaves its attempt behind.
    pub keeps_changes: bool,
}

pub(super) type Done<T = Value> = Result<T, StripeError>;

impl StripeError {
    fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            code: None,
            param: None,
            message: message.into(),
            more: Map::new(),
            keeps_changes: false,
        }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", message)
    }

    #[must_use]
    pub(super) fn code(self, code: &str) -> Self {
        Self { code: Some(code.to_owned()), ..self }
    }

    #[must_use]
    pub(super) fn param(self, param: &str) -> Self {
        Self { param: Some(param.to_owned()), ..self }
    }

    pub(super) fn missing_param(param: &str) -> Self {
        let message = format!("Missing required param: {param}.");
        Self::invalid(message).code("parameter_missing").param(param)
    }

    pub(super) fn unknown_param(param: &str, near: Option<&str>) -> Self {
        let param: String = param.chars().take(100).collect();
        let message = match near {
            Some(near) => format!("Received unknown parameter: {param}. Did you mean {near}?"),
            None => format!("Received unknown parameter: {param}"),
        };
        Self::invalid(message).code("parameter_unknown").param(&param)
    }

    pub(super) fn not_found(kind: &str, id: &str, param: &str) -> Self {
        let id: String = id.chars().take(100).collect();
        let kind = kind.replace(['.', '_'], " ").replace(' ', "_");
        let refusal = Self::invalid(format!("No such {kind}: '{id}'"));
        Self { status: 404, ..refusal.code("resource_missing").param(param) }
    }

    pub(super) fn unexpected_state(what: &str, doing: &str, status: &str) -> Self {
        let message =
            format!("This {what}'s status is {status}; you cannot {doing} it in this status.");
        let code = format!("{}_unexpected_state", what.to_lowercase().replace("intent", "_intent"));
        Self::invalid(message).code(&code)
    }

    pub(super) fn no_key() -> Self {
        let message = "You did not provide an API key. You need to provide your API key in the Authorization header, using Bearer auth (e.g. 'Authorization: Bearer YOUR_SECRET_KEY').";
        Self::new(401, "invalid_request_error", message)
    }

    pub(super) fn wrong_key() -> Self {
        Self::new(
            401,
            "invalid_request_error",
            "Invalid API Key provided: it is no key of test mode (sk_test_…).",
        )
    }

    pub(super) fn live_key() -> Self {
        let message = "Hothouse refuses live keys: this request carries a key of live mode, and a sandbox must never have one. Use a key that begins with sk_test_.";
        Self::new(401, "invalid_request_error", message).code("live_key_refused")
    }

    pub(super) fn reused_key(key: &str) -> Self {
        let key: String = key.chars().take(100).collect();
        let message = format!(
            "Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than '{key}' if you meant to execute a different request."
        );
        Self::new(400, "idempotency_error", message)
    }

    pub(super) fn card(code: &str, decline_code: Option<&str>, message: &str) -> Self {
        let mut refusal = Self::new(402, "card_error", message).code(code);
        if let Some(decline_code) = decline_code {
            refusal.more.insert("decline_code".to_owned(), decline_code.into());
        }
        refusal
    }

    /// Adds a field, and keeps changes so far.
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: Value) -> Self {
        self.more.insert(name.to_owned(), value);
        self.keeps_changes = true;
        self
    }

    /// Returns the error as `last_payment_error` shows it.
    pub(super) fn fields(&self) -> Value {
        let mut fields = self.more.clone();
        fields.insert("type".to_owned(), self.kind.into());
        fields.insert("message".to_owned(), self.message.clone().into());
        if let Some(code) = &self.code {
            fields.insert("code".to_owned(), code.clone().into());
            let page = format!("https://stripe.com/docs/error-codes/{}", code.replace('_', "-"));
            fields.insert("doc_url".to_owned(), page.into());
        }
        if let Some(param) = &self.param {
            fields.insert("param".to_owned(), param.clone().into());
        }
        Value::Object(fields)
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the body of the answer.
    pub(super) fn tree(&self, request_id: &str) -> Value {
        let mut fields = self.fields();
        fields["request_log_url"] =
            format!("https://dashboard.stripe.com/test/logs/{request_id}").into();
        json!({ "error": fields })
    }
}
