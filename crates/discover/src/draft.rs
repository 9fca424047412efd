//! The proposed services, settings and questions, before they become text.

use std::collections::BTreeMap;

use hothouse_model::{config::IntegrationClass, integration::Wiring};
use serde::Serialize;

use crate::finding::{Evidence, StoreKind};

/// How a proposed service is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DraftWork {
    Recipe {
        kind: StoreKind,
        version: Option<String>,
        database: Option<String>,
        user: Option<String>,
        password: Option<String>,
    },
    Image {
        image: String,
        command: Option<String>,
    },
    Run {
        run: String,
        task: bool,
    },
}

/// How the readiness of a proposed service is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DraftReady {
    Http(String),
    Tcp,
}

/// A proposed service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftService {
    pub name: String,
    pub work: DraftWork,
    pub dir: String,
    pub port: Option<u16>,
    pub ports: Vec<u16>,
    pub needs: Vec<String>,
    pub ready: Option<DraftReady>,
    /// Whether it has a URL.
    pub url: bool,
    pub env: BTreeMap<String, String>,
    /// A line for the user that is not in the evidence.
    pub note: Option<String>,
    pub evidence: Vec<Evidence>,
}

/// A proposed integration for an outside service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DraftIntegration {
    pub name: String,
    pub title: String,
    pub class: IntegrationClass,
    pub hosts: Vec<String>,
    /// How its requests are redirected: `env`, or only `wall`.
    pub wiring: Wiring,
    pub caveat: Option<String>,
    pub evidence: Vec<Evidence>,
}

/// A bundle of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftSeed {
    pub name: String,
    pub run: String,
    pub dir: String,
    pub service: Option<String>,
    pub evidence: Vec<Evidence>,
}

/// Something that only a person can decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Question {
    /// The id for the answer, such as `port-web`.
    pub id: String,
    pub text: String,
    /// The behaviour until it is answered.
    pub until_then: String,
    /// The config key that the answer sets, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    pub evidence: Vec<Evidence>,
}

/// A proposed configuration, with remarks.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    pub name: String,
    pub setup: Option<String>,
    pub deps: Vec<String>,
    pub tools: Vec<String>,
    pub mounts: Vec<(String, String)>,
    pub stack: Option<(String, Vec<Evidence>)>,
    pub services: Vec<DraftService>,
    /// Services of a single profile, with its name.
    pub profiled: Vec<(String, DraftService)>,
    pub integrations: Vec<DraftIntegration>,
    pub seeds: Vec<DraftSeed>,
    pub questions: Vec<Question>,
    pub caveats: Vec<String>,
    /// Programs that are not available here, with what to do.
    pub missing: Vec<String>,
    /// Other content of the plan, by heading.
    pub managers: Vec<(String, Vec<Evidence>)>,
    pub frameworks: Vec<(String, String)>,
    pub queues: Vec<Evidence>,
    pub checks: Vec<(String, Evidence)>,
    pub state: Vec<Evidence>,
    pub pins: Vec<(String, String, Evidence)>,
    pub notes: Vec<Evidence>,
}
