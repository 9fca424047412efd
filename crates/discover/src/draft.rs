//! What is proposed: services, settings and questions, before any of it is text.

use std::collections::BTreeMap;

use hothouse_model::{config::IntegrationClass, integration::Wiring};
use serde::Serialize;

use crate::finding::{Evidence, StoreKind};

/// What a proposed service is made of.
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

/// How a proposed service is known to be ready.
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
    /// A line for people that the evidence does not say.
    pub note: Option<String>,
    pub evidence: Vec<Evidence>,
}

/// A proposed treatment of an outside service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DraftIntegration {
    pub name: String,
    pub title: String,
    pub class: IntegrationClass,
    pub hosts: Vec<String>,
    /// By which it is led elsewhere: `env`, or `wall` alone.
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
    /// By which it is answered, such as `port-web`.
    pub id: String,
    pub text: String,
    /// What is done until it is answered.
    pub until_then: String,
    /// The key of the config that the answer becomes, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    pub evidence: Vec<Evidence>,
}

/// A proposed configuration, with what is said beside it.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    pub name: String,
    pub setup: Option<String>,
    pub deps: Vec<String>,
    pub tools: Vec<String>,
    pub mounts: Vec<(String, String)>,
    pub stack: Option<(String, Vec<Evidence>)>,
    pub services: Vec<DraftService>,
    /// Services that only a profile has, with its name.
    pub profiled: Vec<(String, DraftService)>,
    pub integrations: Vec<DraftIntegration>,
    pub seeds: Vec<DraftSeed>,
    pub questions: Vec<Question>,
    pub caveats: Vec<String>,
    /// Programs that nothing here offers, with what to do.
    pub missing: Vec<String>,
    /// What else the plan tells, by heading.
    pub managers: Vec<(String, Vec<Evidence>)>,
    pub frameworks: Vec<(String, String)>,
    pub queues: Vec<Evidence>,
    pub checks: Vec<(String, Evidence)>,
    pub state: Vec<Evidence>,
    pub pins: Vec<(String, String, Evidence)>,
    pub notes: Vec<Evidence>,
}
