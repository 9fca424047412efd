//! Sleep and wake: an idle room is paused, later stopped, and wakes automatically.
//!
//! [`hothouse_model::sleep::decide`] decides when; the daemon knows which sandboxes are in use.

use std::time::Duration;

use hothouse_model::{
    Explain, Failure, OperationId, SandboxRecord, SandboxState, config, room::RoomWish,
    sleep::SleepPolicy,
};

use crate::{App, Engine, UpSpec};

impl Engine {
    /// Returns the sleep settings of a sandbox, from the config of its base commit.
    pub fn sleep_policy(&self, sandbox: &SandboxRecord) -> Result<SleepPolicy, Failure> {
        let config = self.pinned_config(sandbox).map_err(|error| error.failure())?;
        Ok(SleepPolicy { idle: config.sandbox.idle, stop: config.sandbox.idle_stop })
    }

    /// Pauses an idle room.
    pub fn pause_for_sleep(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let (_turn, sandbox) = self.turn(sandbox, "sleep", None)?;
        let sandbox = &sandbox;
        self.note_sleep(sandbox, true)?;
        let paused = self.pause_room(sandbox);
        if paused.is_err() {
            self.with.store.set_slept(sandbox.key, None).map_err(|error| error.failure())?;
        }
        paused
    }

    /// Stops a room that has slept long enough. Its run continues when it is woken.
    pub fn sleep_deeply(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let (_turn, sandbox) = self.turn(sandbox, "sleep", None)?;
        let operation = OperationId::from_random(hothouse_host::random::bytes());
        self.stop(&sandbox, operation)?;
        self.note_sleep(&sandbox, true)
    }

    /// Wakes a sandbox and waits for its services; one that is not asleep is left alone.
    pub fn wake(&self, sandbox: &SandboxRecord, patience: Duration) -> Result<(), Failure> {
        let Some(room) = sandbox.room.as_ref().filter(|room| room.slept.is_some()) else {
            return Ok(());
        };
        if room.wish == RoomWish::Up && self.room_of(sandbox).is_some() {
            return self.rouse(sandbox);
        }
        let operation = OperationId::from_random(hothouse_host::random::bytes());
        let profile = self.with.store.profile_of(&room.run.id).map_err(|error| error.failure())?;
        let now = self.with.clock.now();
        let left = room.ends.map(|ends| {
            Duration::try_from(ends.duration_since(now)).unwrap_or(Duration::from_secs(1))
        });
        let spec = UpSpec {
            ttl: left,
            profile: profile.filter(|name| name != config::DEFAULT_PROFILE),
            reuse: false,
            restrict: room.restricted,
            seed: Vec::new(),
            only_running: false,
            measured: false,
        };
        self.up(sandbox, &spec, operation.clone())?;
        let now = self.sandbox(sandbox.key)?;
        self.await_services(now.as_ref().unwrap_or(sandbox), patience, &operation)
    }

    /// Resumes a sleeping room.
    pub(crate) fn rouse(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let (_turn, sandbox) = self.turn(sandbox, "wake", None)?;
        self.thaw_room(&sandbox).map_err(|error| error.failure())?;
        self.note_sleep(&sandbox, false)
    }

    /// Records whether a room is asleep.
    pub(crate) fn note_sleep(&self, sandbox: &SandboxRecord, asleep: bool) -> Result<(), Failure> {
        let known = sandbox.room.as_ref().and_then(|room| room.slept);
        if !asleep && known.is_none() {
            return Ok(());
        }
        let since = asleep.then(|| known.unwrap_or_else(|| self.with.clock.now()));
        self.with.store.set_slept(sandbox.key, since).map_err(|error| error.failure())
    }

    /// Returns the apps of a sandbox whose room is stopped while it sleeps: their labels and
    /// reserved ports.
    pub fn sleeping_apps(&self, sandbox: &SandboxRecord) -> Result<Vec<(String, u16)>, Failure> {
        let stopped = sandbox.state(None) == SandboxState::Stopped;
        let asleep = sandbox.room.as_ref().is_some_and(|room| room.slept.is_some());
        if !(stopped && asleep) {
            return Ok(Vec::new());
        }
        self.kept_apps(sandbox)
    }

    /// Returns the apps with reserved ports.
    pub fn kept_apps(&self, sandbox: &SandboxRecord) -> Result<Vec<(String, u16)>, Failure> {
        let kept = self.with.store.ports_of(sandbox.key).map_err(|error| error.failure())?;
        let apps = kept.into_iter().filter(|(_, app)| !App::is_exposed_port(app));
        Ok(apps.map(|(port, app)| (app, port)).collect())
    }
}
