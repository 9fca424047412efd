//! The meaning of `@toolchain` on this host, cached between daemons.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hothouse_host::{files, toolchain};
use hothouse_model::config::Destination;
use tokio::sync::watch;

/// How long the tools' answers are cached.
const FRESH: Duration = Duration::from_secs(600);

/// How long a daemon must have run before tools are queried without a request.
const SETTLED: Duration = Duration::from_secs(30);

/// The registries that the host's tools are configured for.
pub(super) struct Toolchain {
    home: PathBuf,
    file: PathBuf,
    begun: Instant,
    known: Mutex<Option<(Instant, Vec<Destination>)>>,
    /// Whether the tools are being queried.
    asking: watch::Sender<bool>,
    generation: AtomicU64,
}

impl Toolchain {
    pub(super) fn new(home: PathBuf, file: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            home,
            file,
            begun: Instant::now(),
            known: Mutex::default(),
            asking: watch::Sender::new(false),
            generation: AtomicU64::new(0),
        })
    }

    /// Counts changes of the result.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Returns the registries; the cached ones until the tools have answered.
    pub(super) async fn registries(self: &Arc<Self>, patience: Duration) -> Vec<Destination> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((asked, found)) = &known {
            if asked.elapsed() >= FRESH {
                self.ask();
            }
            return found.clone();
        }
        let last = self.last();
        if patience.is_zero() && self.begun.elapsed() < SETTLED {
            return last;
        }
        self.ask();
        if last.is_empty() {
            self.answered(patience).await;
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known.map_or(last, |(_, found)| found)
    }

    /// Returns the registries as the tools report them now: the cached ones may lack the one that
    /// is needed.
    pub(super) async fn told(self: &Arc<Self>, patience: Duration) -> Vec<Destination> {
        if self.known.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            self.ask();
            self.answered(patience).await;
        }
        self.registries(Duration::ZERO).await
    }

    async fn answered(&self, patience: Duration) {
        let mut asking = self.asking.subscribe();
        tokio::time::timeout(patience, asking.wait_for(|asking| !asking)).await.ok();
    }

    fn last(&self) -> Vec<Destination> {
        let text = files::read_text(&self.file).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Queries the tools in the background, unless that is in progress.
    fn ask(self: &Arc<Self>) {
        let begins = self.asking.send_if_modified(|asking| !std::mem::replace(asking, true));
        if !begins {
            return;
        }
        let own = self.clone();
        tokio::task::spawn_blocking(move || {
            let found = toolchain::registries(&own.home);
            let changed = {
                let mut known = own.known.lock().unwrap_or_else(PoisonError::into_inner);
                let before = known.replace((Instant::now(), found.clone()));
                before.is_none_or(|(_, before)| before != found)
            };
            if changed {
                own.generation.fetch_add(1, Ordering::Relaxed);
                let text = serde_json::to_vec(&found).unwrap_or_default();
                if let Err(error) = files::replace(&own.file, &text, 0o600) {
                    tracing::warn!(%error, "the registries of the tools are not remembered");
                }
            }
            own.asking.send_replace(false);
        });
    }
}
