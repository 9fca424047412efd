//! The daemon: the doors through which the engine is reached. One per user; it may die at any time.
//!
//! Invariants of absence: no decision is made here, nothing is remembered here that the store does
//! not hold, and nobody but the user who started it gets past [`listener`].

mod commits;
mod dashboard;
mod egress;
mod exec;
mod failure;
mod handshake;
mod ingress;
mod listener;
mod log;
pub mod openapi;
mod routes;
mod sleep;
mod start;
mod view;

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use hothouse_api::Build;
use hothouse_engine::Engine;
use hothouse_model::{Event, SandboxRecord};
use jiff::Timestamp;
use tokio::sync::{broadcast, watch};

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
    /// Connections to rooms.
    pub(crate) connections: Arc<exec::Connections>,
    /// Who uses which sandbox.
    pub(crate) activities: Arc<ingress::Activities>,
    pub(crate) beds: Arc<sleep::Beds>,
    /// URLs, from the moment that their ports are open.
    pub(crate) ingress: Arc<OnceLock<Arc<ingress::Ingress>>>,
    /// The walls of rooms, from the moment that rooms can be looked for.
    pub(crate) walls: Arc<egress::LateWalls>,
}

impl Door {
    /// Returns the port of `https` URLs, if there are any.
    pub(crate) fn url_port(&self) -> Option<u16> {
        self.ingress.get().and_then(|ingress| ingress.port())
    }

    /// Brings the walls of rooms in step with what is up, and with what was just changed.
    pub(crate) async fn renew_walls(&self) {
        if let Some(walls) = self.walls.get() {
            walls.renew().await;
        }
    }

    /// Brings the URLs of one sandbox in step with what was just done with it.
    pub(crate) async fn refresh_urls_of(&self, sandbox: &SandboxRecord) {
        if let Some(ingress) = self.ingress.get() {
            ingress.refresh_one(sandbox).await;
        }
    }

    /// Brings URLs in step with what is up.
    pub(crate) async fn refresh_urls(&self) {
        if let Some(ingress) = self.ingress.get() {
            ingress.refresh().await;
        }
    }
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
