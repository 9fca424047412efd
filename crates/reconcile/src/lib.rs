//! Reconcilers: each owns one thing that a daemon keeps in addition to the store, and keeps updating it to what
//! is wanted.
//!
//! - [`agents`]: coding agents in rooms, their rounds, races and audits
//! - [`browsers`]: browsers in rooms
//! - [`walls`]: what leaves rooms, and by which policy
//! - `mocks`: what answers for mocked hosts, one per run
//! - [`seeds`]: what fills stacks with data
//! - [`queues`]: queues and schedules of apps
//! - [`routes`]: routes that frameworks tell
//! - [`in_room`]: commands of Hothouse itself in rooms
//! - [`tables`]: what is in the databases of rooms
//! - [`flags`]: feature flags, and what each run has pinned
//! - `sinks`: what takes side effects in, and makes them durable
//! - [`urls`]: the router, direct ports, and ports inside rooms
//! - [`room_api`]: what programs of a room ask for their own sandbox
//! - [`commits`]: commits of rooms, imported as they are made
//! - [`proofs`]: scenarios, and what runs prove
//! - [`recordings`]: real answers of mocked hosts, as fixtures
//! - [`sleep`]: pauses idle sandboxes, and wakes those that are needed
//! - [`chores`]: what the engine does from time to time
//! - [`timelines`]: what happened in each run
//! - [`webhooks`]: what vendors send to apps
//! - [`tasks`]: all of these as loops with names, which are joined
//!
//! Deliberately absent: sockets for clients (those are the daemon's), and nothing that the next daemon
//! could not compute again from the store and the rooms.

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
pub use tasks::{Stop, Tasks};
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
    /// Who uses which sandbox.
    pub activities: Arc<Activities>,
    /// URLs, from the moment that their ports are open.
    pub urls: Arc<OnceLock<Arc<Urls>>>,
    /// The walls of rooms, from the moment that rooms can be looked for.
    pub walls: Arc<LateWalls>,
    /// What happens in each run, written down.
    pub timelines: Arc<Timelines>,
    /// Feature flags, and what runs have pinned.
    pub flags: Arc<Flags>,
    /// What vendors send to apps.
    pub webhooks: Arc<Webhooks>,
    /// Coding agents in rooms.
    pub agents: Arc<Agents>,
    /// Browsers in rooms.
    pub browsers: Arc<Browsers>,
    /// What fills stacks with data.
    pub seeds: Arc<Seeds>,
    /// What answers programs of rooms, set by the daemon before it looks for rooms.
    pub room_api: LateRoomApi,
    /// Queues and schedules of apps.
    pub queues: Arc<Queues>,
    /// Answers of real hosts that are being recorded.
    pub recordings: Arc<Recordings>,
    /// The state folder.
    pub state: PathBuf,
    /// What rooms may have of the daemon's descriptors.
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
