//! The daemon: the doors through which the engine is reached. One per user; it may die at any time.
//!
//! Invariants of absence: no decision is made here, nothing is remembered here that the store does
//! not hold, and nobody but the user who started it gets past [`listener`].

mod dashboard;
mod exec;
mod failure;
mod handshake;
mod listener;
mod log;
pub mod openapi;
mod routes;
mod start;
mod view;

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use hothouse_api::Build;
use hothouse_engine::Engine;
use hothouse_model::Event;
use hothouse_reconcile::Keepers;
use jiff::Timestamp;
use tokio::sync::{broadcast, watch};

use self::dashboard::Dashboard;

pub use start::{DaemonSpec, StartError, run};

/// What every route can reach.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) engine: Arc<Engine>,
    /// engine --event--> whoever follows
    pub(crate) event_tx: broadcast::Sender<Event>,
    /// stop route, signals --true--> everyone who must end
    pub(crate) stop_tx: watch::Sender<bool>,
    pub(crate) about: Arc<About>,
    /// Walls, URLs, commits and sleep.
    pub(crate) keepers: Keepers,
    /// From the moment that URLs are open.
    pub(crate) dashboard: Arc<OnceLock<Arc<Dashboard>>>,
}

/// What the daemon knows of itself.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) build: Build,
    pub(crate) socket: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) started: Timestamp,
}
