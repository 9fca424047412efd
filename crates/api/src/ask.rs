//! What agents ask the user for.

use hothouse_model::ask::AskState;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A request of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AskView {
    pub id: String,
    pub project: String,
    pub sandbox: String,
    #[schema(value_type = String, format = DateTime)]
    pub time: Timestamp,
    /// The reason, in the agent's words.
    pub text: String,
    pub host: Option<String>,
    pub secret: Option<String>,
    pub limit: Option<String>,
    /// `open`, `allowed` or `denied`.
    #[schema(value_type = String)]
    pub state: AskState,
    /// What the user had to say.
    pub answer: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub answered: Option<Timestamp>,
}

/// Which requests are meant.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct AsksQuery {
    /// `NAME` or `PROJECT/NAME`; by default those of every sandbox.
    pub sandbox: Option<String>,
    pub folder: String,
    /// Whether answered ones are meant too.
    #[serde(default)]
    pub all: bool,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AskBody {
    pub sandbox: Option<String>,
    pub folder: String,
    pub text: String,
    /// An egress rule, such as `api.example.com`.
    #[serde(default)]
    pub host: Option<String>,
    #[serde(default)]
    pub secret: Option<String>,
    #[serde(default)]
    pub limit: Option<String>,
}

/// The user's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AnswerBody {
    pub id: String,
    pub allow: bool,
    /// What the agent is told.
    #[serde(default)]
    pub answer: Option<String>,
}
