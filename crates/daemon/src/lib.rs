//! The daemon: the sockets and pages through which clients reach the engine. One per user; it may
//! die at any time.
//!
//! Deliberately absent: decisions, and state that is not in the store. [`listener`] accepts only
//! the user who started the daemon.

mod dashboard;
mod exec;
mod failure;
mod handshake;
mod listener;
mod log;
pub mod openapi;
mod room_api;
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

/// The state of the daemon, shared by all routes.
#[derive(Clone)]
pub(crate) struct Daemon {
    pub(crate) engine: Arc<Engine>,
    /// engine --event--> subscribers
    pub(crate) event_tx: broadcast::Sender<Event>,
    /// stop route, signals --true--> every loop that must end
    pub(crate) stop_tx: watch::Sender<bool>,
    pub(crate) about: Arc<About>,
    /// Walls, URLs, commits and sleep.
    pub(crate) keepers: Keepers,
    /// Set once the router is listening.
    pub(crate) dashboard: Arc<OnceLock<Arc<Dashboard>>>,
}

/// The daemon's own version, process and folders.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) build: Build,
    pub(crate) socket: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) started: Timestamp,
}
