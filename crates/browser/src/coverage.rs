//! Which parts of a page's scripts ran, by the browser's own counters.
//!
//! Counters belong to a process, and a page that navigates elsewhere gets another process. So every document is held
//! until the counters have been read: nothing that ran before a navigation is lost.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::Instant};

use crate::{
    capture::{is_of, text},
    client::{Client, within},
    page::PageListener,
    wire::Command,
};

/// The maximum number of parts, and of bytes of script text.
const PARTS_MOST: usize = 2_000;
const TEXT_MOST: usize = 64 << 20;

/// How long a document is held for the counters of the previous one.
const HELD: Duration = Duration::from_secs(3);

/// The coverage of a page's scripts.
#[derive(Clone, Debug, Default)]
pub struct PageCoverage {
    pub scripts: Vec<ScriptPart>,
    /// Whether a limit was exceeded.
    pub is_cut: bool,
}

/// The coverage of one script, when the counters were read.
#[derive(Clone, Debug)]
pub struct ScriptPart {
    pub url: String,
    pub source: Arc<str>,
    /// In the browser's format.
    pub functions: Value,
    pub map: Option<Vec<u8>>,
}

impl ScriptPart {
    /// Returns the last line, which may have the URL of a source map.
    pub(crate) fn tail(&self) -> &str {
        let text = self.source.trim_end();
        &text[text.rfind('\n').map_or(0, |at| at + 1)..]
    }
}

/// Returns the commands that start the counters.
pub(crate) fn begin(session: &str) -> Vec<Command> {
    let params = json!({ "callCount": true, "detailed": true });
    vec![
        Command::new(session, "Profiler.enable", json!({})),
        Command::new(session, "Profiler.startPreciseCoverage", params),
        Command::new(session, "Debugger.enable", json!({})),
        // A page with `debugger;` in it would otherwise pause forever.
        Command::new(session, "Debugger.setSkipAllPauses", json!({ "skip": true })),
    ]
}

/// Reads the counters of a page: on request, and before each document.
pub(crate) struct Taker {
    inner: Arc<Inner>,
    task: JoinHandle<()>,
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Inner {
    client: Client,
    session: String,
    origins: Vec<String>,
    taken: Mutex<Taken>,
    /// One reading at a time: each resets the counters.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Taken {
    coverage: PageCoverage,
    /// Texts by document and script: another process reuses the ids of scripts.
    texts: HashMap<(u64, String), Arc<str>>,
    bytes: usize,
    document: u64,
}

impl Taker {
    /// Starts to release documents, each after the counters have been read.
    pub(crate) fn start(
        client: &Client,
        session: &str,
        origins: &[String],
        listener: &Arc<PageListener>,
    ) -> Self {
        let inner = Arc::new(Inner {
            client: client.clone(),
            session: session.to_owned(),
            origins: origins.to_vec(),
            taken: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        });
        let task = tokio::spawn(pass_documents(inner.clone(), listener.clone()));
        Self { inner, task }
    }

    /// Reads the counters.
    pub(crate) async fn take(&self, deadline: Instant) {
        self.inner.take(deadline).await;
    }

    /// Returns the coverage that was read so far.
    pub(crate) fn done(&self) -> PageCoverage {
        std::mem::take(&mut self.inner.taken().coverage)
    }
}

async fn pass_documents(inner: Arc<Inner>, listener: Arc<PageListener>) {
    let mut changed_rx = listener.changed_tx.subscribe();
    loop {
        let held = listener.capture().held.pop_front();
        let Some(commands) = held else {
            if changed_rx.changed().await.is_err() {
                return;
            }
            continue;
        };
        inner.take(within(HELD)).await;
        inner.taken().document += 1;
        for command in commands {
            inner.client.call(command, within(HELD)).await.ok();
        }
    }
}

impl Inner {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take(&self, deadline: Instant) {
        let _turn = self.turn.lock().await;
        let call = |method, params| {
            self.client.call(Command::new(&self.session, method, params), deadline)
        };
        let Ok(told) = call("Profiler.takePreciseCoverage", json!({})).await else { return };
        let scripts = told["result"].as_array().into_iter().flatten();
        let is_own = |script: &&Value| {
            let url = text(&script["url"]);
            self.origins.iter().any(|origin| is_of(url, origin))
        };
        for script in scripts.filter(is_own) {
            let id = text(&script["scriptId"]).to_owned();
            let key = (self.taken().document, id.clone());
            let known = self.taken().texts.get(&key).cloned();
            let source = match known {
                Some(source) => source,
                None => {
                    let told = call("Debugger.getScriptSource", json!({ "scriptId": id })).await;
                    let Ok(told) = told else { continue };
                    let source: Arc<str> = text(&told["scriptSource"]).into();
                    if !self.taken().keep(key, &source) {
                        continue;
                    }
                    source
                }
            };
            self.taken().add(ScriptPart {
                url: text(&script["url"]).to_owned(),
                source,
                functions: script["functions"].clone(),
                map: None,
            });
        }
    }
}

impl Taken {
    /// Keeps a text, if it fits within the limit.
    fn keep(&mut self, key: (u64, String), source: &Arc<str>) -> bool {
        let fits = self.bytes + source.len() <= TEXT_MOST && !source.is_empty();
        if fits {
            self.bytes += source.len();
            self.texts.insert(key, source.clone());
        }
        self.coverage.is_cut |= !fits && !source.is_empty();
        fits
    }

    fn add(&mut self, part: ScriptPart) {
        match self.coverage.scripts.len() < PARTS_MOST {
            true => self.coverage.scripts.push(part),
            false => self.coverage.is_cut = true,
        }
    }
}
