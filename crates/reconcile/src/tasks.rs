//! Background loops of the daemon: started by name, and joined.

use std::{collections::HashMap, future::Future, time::Duration};

use tokio::{
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

#[cfg(test)]
mod tests {
    use super::*;

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
