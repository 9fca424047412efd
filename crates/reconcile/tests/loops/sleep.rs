//! Sleep, with time that only passes when every task is waiting.

use std::time::Duration;

use hothouse_model::SandboxState;
use hothouse_reconcile::{Tasks, sleep};

use crate::ground::{Daemon, Ground, PATIENCE};

const MINUTE: Duration = Duration::from_secs(60);

fn state(daemon: &Daemon) -> SandboxState {
    let sandbox = daemon.sandbox();
    sandbox.state(daemon.engine.room_of(&sandbox).as_ref())
}

/// Lets time pass until a condition holds, for at most an hour.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3600 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("{what} within an hour");
}

#[tokio::test(start_paused = true)]
async fn an_idle_sandbox_is_paused_then_stopped_and_wakes_for_whoever_asks() {
    let ground = Ground::new("[sandbox]\nidle = \"10m\"\nidle-stop = \"30m\"\n");
    let daemon = ground.daemon();
    daemon.fork_and_up(&ground).await;
    let key = daemon.sandbox().key;
    let mut tasks = Tasks::default();
    tasks.start("sleep", |stop| sleep::watch(daemon.keepers.clone(), stop));

    // In use for longer than the idle limit.
    let used = daemon.keepers.activities.of(key).enter();
    tokio::time::sleep(15 * MINUTE).await;
    assert_eq!(state(&daemon), SandboxState::Ready, "it is used");
    drop(used);

    let is_paused = || state(&daemon) == SandboxState::Paused;
    until("a pause", is_paused).await;
    let asleep = daemon.sandbox().room.and_then(|room| room.slept).unwrap();
    assert_eq!(asleep, daemon.engine.now());

    ground.clock.set(asleep.checked_add(31 * MINUTE).unwrap());
    until("a stop", || ground.rooms.count() == 0).await;

    let woken = sleep::wake(&daemon.keepers, key).await.unwrap();
    assert_eq!(state(&daemon), SandboxState::Ready);
    assert_eq!(woken.room.and_then(|room| room.slept), None);
    assert_eq!(tasks.end(PATIENCE).await, Vec::<&str>::new());
}
