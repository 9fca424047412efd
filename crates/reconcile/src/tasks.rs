//! Background work of the daemon: loops that are started by name and joined, and what they start.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::watch,
    task::{Id, JoinError, JoinSet},
};

/// Asks a loop to stop.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Returns when the loop should stop.
    pub async fn told(&mut self) {
        // A dropped sender means the same.
        self.0.wait_for(|stop| *stop).await.ok();
    }

    /// Waits; `false` if the loop should stop.
    pub async fn pause(&mut self, time: Duration) -> bool {
        tokio::select! {
            () = self.told() => false,
            () = tokio::time::sleep(time) => true,
        }
    }
}

/// All background work of the daemon.
#[derive(Debug)]
pub struct Tasks {
    stop_tx: watch::Sender<bool>,
    running: JoinSet<()>,
    names: HashMap<Id, &'static str>,
}

impl Default for Tasks {
    fn default() -> Self {
        let (running, names) = (JoinSet::new(), HashMap::new());
        Self { stop_tx: watch::Sender::new(false), running, names }
    }
}

impl Tasks {
    /// Starts a loop, which must end when asked to.
    pub fn start<F>(&mut self, name: &'static str, task: impl FnOnce(Stop) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let running = self.running.spawn(task(Stop(self.stop_tx.subscribe())));
        self.names.insert(running.id(), name);
    }

    /// Asks all loops to stop and waits for them; returns the names of those that panicked or took
    /// too long.
    pub async fn end(mut self, patience: Duration) -> Vec<&'static str> {
        self.stop_tx.send_replace(true);
        let mut broken = Vec::new();
        let all = async {
            while let Some(ended) = self.running.join_next_with_id().await {
                let id = ended.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
                let name = self.names.remove(&id);
                broken.extend(name.filter(|_| ended.is_err()));
            }
        };
        tokio::time::timeout(patience, all).await.ok();
        broken.extend(self.names.into_values());
        broken
    }
}

/// Tasks that the owner of a loop starts as needed. The loop joins them before it ends.
#[derive(Debug)]
pub struct Subtasks {
    name: &'static str,
    running: Mutex<JoinSet<()>>,
}

impl Subtasks {
    pub fn new(name: &'static str) -> Self {
        Self { name, running: Mutex::default() }
    }

    /// Starts a task.
    pub fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.running().spawn(task);
    }

    /// Starts a task from a thread outside of the runtime.
    pub fn start_on(&self, handle: &Handle, task: impl Future<Output = ()> + Send + 'static) {
        self.running().spawn_on(task, handle);
    }

    /// Returns how many have not ended.
    pub fn count(&self) -> usize {
        self.running().len()
    }

    /// Waits for those that have not ended, and for what is started meanwhile.
    pub async fn finish(&self) {
        loop {
            let mut rest = std::mem::take(&mut *self.running());
            let Some(mut ended) = rest.join_next().await else { return };
            loop {
                self.check(ended);
                match rest.join_next().await {
                    Some(next) => ended = next,
                    None => break,
                }
            }
        }
    }

    /// Cancels those that have not ended, and waits for them.
    pub async fn end(&self) {
        let mut rest = std::mem::take(&mut *self.running());
        rest.abort_all();
        while let Some(ended) = rest.join_next().await {
            self.check(ended);
        }
    }

    /// Locks the set, without those that have ended.
    fn running(&self) -> MutexGuard<'_, JoinSet<()>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(ended) = running.try_join_next() {
            self.check(ended);
        }
        running
    }

    fn check(&self, ended: Result<(), JoinError>) {
        if let Err(error) = ended
            && error.is_panic()
        {
            tracing::error!(%error, name = self.name, "a task panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_loop_started_ends_with_it() {
        let (held_tx, mut held_rx) = watch::channel(());
        let subtasks = Subtasks::new("test");
        subtasks.start(async {});
        subtasks.start(async move {
            std::future::pending::<()>().await;
            drop(held_tx);
        });
        while subtasks.count() > 1 {
            tokio::task::yield_now().await;
        }
        assert!(!held_rx.has_changed().unwrap());
        subtasks.end().await;
        assert!(held_rx.changed().await.is_err(), "its end was waited for");
        assert_eq!(subtasks.count(), 0);
    }

    #[tokio::test]
    async fn what_must_not_be_lost_is_waited_for() {
        let (done_tx, done_rx) = watch::channel(0);
        let subtasks = std::sync::Arc::new(Subtasks::new("test"));
        let own = subtasks.clone();
        let first = done_tx.clone();
        subtasks.start(async move {
            tokio::task::yield_now().await;
            first.send_modify(|done| *done += 1);
            // Started while the first is waited for.
            own.start(async move {
                tokio::task::yield_now().await;
                done_tx.send_modify(|done| *done += 1);
            });
        });
        subtasks.finish().await;
        assert_eq!(*done_rx.borrow(), 2);
    }

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn whoever_does_not_end_well_is_named() {
        let mut tasks = Tasks::default();
        tasks.start("good", |mut stop| async move { while stop.pause(LONG).await {} });
        tasks.start("done already", |_| async {});
        tasks.start("deaf", |_| std::future::pending());
        tasks.start("broken", |_| async { std::panic::resume_unwind(Box::new(())) });
        let mut named = tasks.end(Duration::from_millis(50)).await;
        named.sort_unstable();
        assert_eq!(named, ["broken", "deaf"]);
    }

    #[tokio::test]
    async fn an_end_in_time_waits_for_nobody() {
        let mut tasks = Tasks::default();
        tasks.start("good", |mut stop| async move { stop.told().await });
        assert_eq!(tasks.end(LONG).await, Vec::<&str>::new());
    }
}
