//! Reconcilers: each owns some state that a daemon keeps in addition to the store, and keeps it up
//! to date.
//!
//! - [`agents`]: coding agents in rooms, their rounds, races and audits
//! - [`browsers`]: browsers in rooms
//! - [`walls`]: egress of rooms, and its policies
//! - `mocks`: mocked hosts, one mock per run
//! - [`seeds`]: fills stacks with data
//! - [`queues`]: queues and schedules of apps
//! - [`routes`]: routes reported by frameworks
//! - [`in_room`]: commands of Hothouse itself in rooms
//! - [`tables`]: the content of databases in rooms
//! - [`flags`]: feature flags, and what each run has pinned
//! - `sinks`: records side effects durably
//! - [`urls`]: the router, direct ports, and ports inside rooms
//! - [`room_api`]: the API for programs of a room
//! - [`commits`]: commits of rooms, imported as they are made
//! - [`proofs`]: scenarios, and proofs of runs
//! - [`recordings`]: real responses of mocked hosts, as fixtures
//! - [`sleep`]: pauses idle sandboxes, and wakes those that are needed
//! - [`chores`]: periodic tasks of the engine
//! - [`timelines`]: what happened in each run
//! - [`webhooks`]: webhooks from vendors to apps
//! - [`tasks`]: runs all of these as named loops, and joins them
//!
//! Deliberately absent: sockets for clients (those belong to the daemon), and any state that the
//! next daemon could not derive from the store and the rooms.

pub mod activities;
pub mod agents;
pub mod browsers;
mod chores;
mod commits;
pub mod connections;
mod durable;
pub mod flags;
pub mod in_room;
mod mocks;
pub mod proofs;
pub mod queues;
pub mod recordings;
pub mod room_api;
pub mod room_diff;
pub mod routes;
pub mod seeds;
mod sinks;
pub mod sleep;
pub mod tables;
pub mod tasks;
pub mod timelines;
pub mod urls;
pub mod walls;
pub mod webhooks;

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use hothouse_backend::Rooms;
use hothouse_engine::Engine;
use hothouse_host::shares::Shares;
use hothouse_model::{Event, SandboxRecord};
use tokio::sync::broadcast;

pub use activities::Activities;
pub use agents::Agents;
pub use browsers::Browsers;
pub use connections::Connections;
pub use flags::Flags;
pub use queues::{CronRun, Queues};
pub use recordings::Recordings;
pub use room_api::{LateRoomApi, RoomApi};
pub use seeds::{SeedWish, Seeds};
pub use tasks::{Stop, Subtasks, Tasks};
pub use timelines::Timelines;
pub use urls::Urls;
pub use walls::{LateWalls, Walls};
pub use webhooks::Webhooks;

/// What reconcilers share with each other and with the daemon's API.
#[derive(Clone)]
pub struct Keepers {
    pub engine: Arc<Engine>,
    /// engine --event--> subscribers
    pub event_tx: broadcast::Sender<Event>,
    /// Connections to rooms.
    pub connections: Arc<Connections>,
    /// Which sandboxes are in use.
    pub activities: Arc<Activities>,
    /// URLs, once their ports are open.
    pub urls: Arc<OnceLock<Arc<Urls>>>,
    /// The walls of rooms, set once rooms can be discovered.
    pub walls: Arc<LateWalls>,
    /// The timelines of runs.
    pub timelines: Arc<Timelines>,
    /// Feature flags, and what runs have pinned.
    pub flags: Arc<Flags>,
    /// Webhooks from vendors to apps.
    pub webhooks: Arc<Webhooks>,
    /// Coding agents in rooms.
    pub agents: Arc<Agents>,
    /// Browsers in rooms.
    pub browsers: Arc<Browsers>,
    /// Fills stacks with data.
    pub seeds: Arc<Seeds>,
    /// The API for programs of rooms, set by the daemon before it discovers rooms.
    pub room_api: LateRoomApi,
    /// Queues and schedules of apps.
    pub queues: Arc<Queues>,
    /// Recordings of real responses.
    pub recordings: Arc<Recordings>,
    /// The state folder.
    pub state: PathBuf,
    /// The rooms' shares of the daemon's descriptors.
    pub shares: Arc<Shares>,
    sleep_locks: Arc<sleep::SleepLocks>,
    proof_turns: Arc<proofs::Turns>,
}

impl Keepers {
    /// Starts nothing yet: walls and URLs are opened later, and loops are [`start`](Self::start)ed.
    pub fn new(
        engine: Arc<Engine>,
        rooms: Arc<dyn Rooms>,
        walls: Arc<LateWalls>,
        event_tx: broadcast::Sender<Event>,
        state: PathBuf,
        shares: Arc<Shares>,
    ) -> Self {
        let timelines = Timelines::new(engine.clone());
        let connections = Arc::new(Connections::new(rooms));
        let (activities, urls) = (Arc::<Activities>::default(), Arc::default());
        let webhooks = Webhooks::new(engine.clone(), timelines.clone());
        let interest: Arc<queues::JobInterest> = Arc::default();
        let browsers = Browsers::new(browsers::BrowsersOrder {
            folder: state.clone(),
            engine: engine.clone(),
            connections: connections.clone(),
            activities: activities.clone(),
            timelines: timelines.clone(),
            webhooks: webhooks.clone(),
            urls: Arc::clone(&urls),
            interest: interest.clone(),
        });
        let seeds = Seeds::new(
            engine.clone(),
            timelines.clone(),
            connections.clone(),
            event_tx.clone(),
            browsers.clone(),
            Arc::clone(&urls),
        );
        let recordings = Recordings::new(engine.clone(), timelines.clone(), connections.clone());
        let queues = Queues::new(
            engine.clone(),
            timelines.clone(),
            connections.clone(),
            interest,
            walls.clone(),
        );
        let agents = Agents::new(agents::AgentsOrder {
            folder: state.join("agents"),
            engine: engine.clone(),
            timelines: timelines.clone(),
            connections: connections.clone(),
            activities: activities.clone(),
        });
        Self {
            agents,
            browsers,
            seeds,
            queues,
            recordings,
            flags: Flags::new(engine.clone(), timelines.clone()),
            webhooks,
            timelines,
            engine,
            event_tx,
            connections,
            activities,
            urls,
            walls,
            room_api: LateRoomApi::default(),
            state,
            shares,
            sleep_locks: Arc::default(),
            proof_turns: Arc::default(),
        }
    }

    /// Starts the loops.
    pub fn start(&self, tasks: &mut Tasks) {
        if let Some(walls) = self.walls.get() {
            tasks.start("walls", |stop| async move { walls.watch(stop).await });
        }
        tasks.start("timelines", |stop| self.timelines.clone().watch(stop));
        tasks.start("webhooks", |stop| webhooks::watch(self.clone(), stop));
        tasks.start("services", |stop| timelines::services::watch(self.clone(), stop));
        tasks.start("commands of the last daemon", |_| timelines::execs::finish(self.clone()));
        tasks.start("urls", |stop| urls::watch(self.clone(), stop));
        tasks.start("urls of starting rooms", |stop| urls::watch_steps(self.clone(), stop));
        tasks.start("agents", |stop| self.agents.clone().watch(stop));
        tasks.start("races", |stop| agents::go_on_with_races(self.clone(), stop));
        tasks.start("browsers", |stop| self.browsers.clone().watch(stop));
        let recordings = self.recordings.clone();
        tasks.start("recordings", |stop| recordings.watch(self.clone(), stop));
        tasks.start("queues", |stop| queues::watch(self.clone(), stop));
        tasks.start("commits", |stop| commits::watch(self.clone(), stop));
        tasks.start("sleep", |stop| sleep::watch(self.clone(), stop));
        chores::start(&self.engine, tasks);
        let all = self.clone();
        tasks.start("proofs that were cut short", |_| async move {
            tokio::task::spawn_blocking(move || proofs::sweep(&all)).await.ok();
        });
    }

    /// Returns the port of `https` URLs, if there are any.
    pub fn url_port(&self) -> Option<u16> {
        self.urls.get().and_then(|urls| urls.port())
    }

    /// Updates the walls of rooms to what is running and to what was just changed.
    pub async fn renew_walls(&self) {
        if let Some(walls) = self.walls.get() {
            walls.renew().await;
        }
    }

    /// Updates the URLs of one sandbox after a change.
    pub async fn refresh_urls_of(&self, sandbox: &SandboxRecord) {
        if let Some(urls) = self.urls.get() {
            urls.refresh_one(sandbox).await;
        }
    }

    /// Updates URLs to what is running.
    pub async fn refresh_urls(&self) {
        if let Some(urls) = self.urls.get() {
            urls.refresh().await;
        }
    }
}
