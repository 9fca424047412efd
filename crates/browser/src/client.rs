//! A client of the protocol over any two streams.
//!
//! ```text
//! call ──► writer task ──► browser ──► reader task ──answer──► call
//!             ▲                            │
//!             └────────── commands ◄── Listener::on_event
//! ```
//!
//! Events are never queued: the reader passes each to its [`Listener`], which keeps what it needs and may answer with
//! commands. So a page that emits events without end costs time, but no memory.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use crate::wire::{Command, Event, Frames, Message};

/// How many commands may be queued.
const COMMANDS: usize = 1024;

/// How many sessions a listener may have: frames and workers of a page.
const SESSIONS: usize = 512;

/// How much is read at a time.
const PIECE: usize = 256 << 10;

/// Receives events of the sessions of one page, and of the browser itself.
pub trait Listener: Send + Sync {
    /// Handles an event; returns commands for the browser. Must not block.
    fn on_event(&self, event: &Event) -> Vec<Command>;
}

/// A command that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("{method} was refused: {message}")]
    Refused { method: &'static str, message: String },
    #[error("the browser did not answer {method} in time")]
    Late { method: &'static str },
    #[error("the browser has ended: {why}")]
    Closed { why: String },
}

/// A connection to a browser.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    /// call, reader --message--> writer
    command_tx: mpsc::Sender<Vec<u8>>,
    next: AtomicU64,
    state: Mutex<State>,
    /// Why the connection has ended.
    closed_tx: watch::Sender<Option<String>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    pending: HashMap<u64, oneshot::Sender<Result<Value, String>>>,
    /// By session.
    listeners: HashMap<String, Arc<dyn Listener>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Client {
    /// Talks to a browser over two streams, until one of them ends.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let (command_tx, command_rx) = mpsc::channel(COMMANDS);
        let inner = Arc::new(Inner {
            command_tx,
            next: AtomicU64::new(1),
            state: Mutex::default(),
            closed_tx: watch::Sender::new(None),
            tasks: Mutex::default(),
        });
        let reading = tokio::spawn(read(reader, Arc::downgrade(&inner)));
        let writing = tokio::spawn(write(writer, command_rx, Arc::downgrade(&inner)));
        inner.tasks.lock().unwrap_or_else(PoisonError::into_inner).extend([reading, writing]);
        Self { inner }
    }

    /// Returns whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.inner.closed_tx.borrow().is_some()
    }

    /// Waits until the connection has ended; returns why.
    pub async fn closed(&self) -> String {
        let mut closed_rx = self.inner.closed_tx.subscribe();
        let why = closed_rx.wait_for(Option::is_some).await;
        why.ok().and_then(|why| why.clone()).unwrap_or_default()
    }

    /// Registers a listener for the events of a session, and of those attached below it.
    pub fn listen(&self, session: impl Into<String>, listener: Arc<dyn Listener>) {
        self.inner.state().listeners.insert(session.into(), listener);
    }

    /// Removes a listener with all its sessions.
    pub fn forget(&self, listener: &Arc<dyn Listener>) {
        self.inner.state().listeners.retain(|_, known| !Arc::ptr_eq(known, listener));
    }

    /// Sends a command and waits for its result.
    pub async fn call(&self, command: Command, deadline: Instant) -> Result<Value, CallError> {
        let method = command.method;
        let (id, answer_rx) = self.inner.begin();
        let sent = timeout_at(deadline, self.inner.command_tx.send(command.encode(id))).await;
        let answered = match sent {
            Err(_) => Err(CallError::Late { method }),
            Ok(Err(_)) => Err(self.inner.gone()),
            Ok(Ok(())) => match timeout_at(deadline, answer_rx).await {
                Err(_) => Err(CallError::Late { method }),
                Ok(Err(_)) => Err(self.inner.gone()),
                Ok(Ok(outcome)) => {
                    outcome.map_err(|message| CallError::Refused { method, message })
                }
            },
        };
        if answered.is_err() {
            self.inner.state().pending.remove(&id);
        }
        answered
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> (u64, oneshot::Receiver<Result<Value, String>>) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer_tx, answer_rx) = oneshot::channel();
        // Checked under the lock that `close` takes afterwards, so that one of the two sees the other.
        let mut state = self.state();
        if self.closed_tx.borrow().is_none() {
            state.pending.insert(id, answer_tx);
        }
        drop(state);
        (id, answer_rx)
    }

    fn gone(&self) -> CallError {
        CallError::Closed { why: self.closed_tx.borrow().clone().unwrap_or_default() }
    }

    /// Ends the connection, and with it all pending calls.
    fn close(&self, why: String) {
        self.closed_tx.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert(why);
            first
        });
        self.state().pending.clear();
    }

    fn take(&self, message: Message) {
        match message {
            Message::Answer { id, outcome } => {
                // An unexpected answer belongs to a listener's command, or is late.
                if let Some(answer_tx) = self.state().pending.remove(&id) {
                    answer_tx.send(outcome).ok();
                }
            }
            Message::Event(event) => self.dispatch(&event),
        }
    }

    fn dispatch(&self, event: &Event) {
        for listener in self.listeners_of(event) {
            for command in listener.on_event(event) {
                let id = self.next.fetch_add(1, Ordering::Relaxed);
                // A browser that sends events but reads nothing must not block us.
                self.command_tx.try_send(command.encode(id)).ok();
            }
        }
    }

    /// Returns the listener of an event's session, or all for an event of the browser itself.
    fn listeners_of(&self, event: &Event) -> Vec<Arc<dyn Listener>> {
        let mut state = self.state();
        if event.session.is_empty() {
            let mut all: Vec<Arc<dyn Listener>> = Vec::new();
            for listener in state.listeners.values() {
                if !all.iter().any(|known| Arc::ptr_eq(known, listener)) {
                    all.push(listener.clone());
                }
            }
            return all;
        }
        let Some(listener) = state.listeners.get(&event.session).cloned() else {
            return Vec::new();
        };
        let child = event.params["sessionId"].as_str();
        match (event.method.as_str(), child) {
            ("Target.attachedToTarget", Some(child)) => {
                let own =
                    state.listeners.values().filter(|known| Arc::ptr_eq(known, &listener)).count();
                if own < SESSIONS && !state.listeners.contains_key(child) {
                    state.listeners.insert(child.to_owned(), listener.clone());
                }
            }
            ("Target.detachedFromTarget", Some(child)) if child != event.session => {
                let is_own = |known: &Arc<dyn Listener>| Arc::ptr_eq(known, &listener);
                if state.listeners.get(child).is_some_and(is_own) {
                    state.listeners.remove(child);
                }
            }
            _ => {}
        }
        vec![listener]
    }
}

async fn read(mut reader: impl AsyncRead + Unpin, inner: Weak<Inner>) {
    let (mut frames, mut piece) = (Frames::default(), vec![0; PIECE]);
    let why = loop {
        let count = match reader.read(&mut piece).await {
            Ok(0) => break "its end of the pipe was closed".to_owned(),
            Ok(count) => count,
            Err(error) => break error.to_string(),
        };
        let Some(inner) = inner.upgrade() else { return };
        let taken = frames.take(&piece[..count], &mut |message| inner.take(message));
        if let Err(error) = taken {
            break error.to_string();
        }
    };
    if let Some(inner) = inner.upgrade() {
        inner.close(why);
    }
}

async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut command_rx: mpsc::Receiver<Vec<u8>>,
    inner: Weak<Inner>,
) {
    while let Some(bytes) = command_rx.recv().await {
        if let Err(error) = writer.write_all(&bytes).await {
            if let Some(inner) = inner.upgrade() {
                inner.close(error.to_string());
            }
            return;
        }
    }
}

/// Returns the deadline after a duration.
pub fn within(time: Duration) -> Instant {
    Instant::now() + time
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tokio::io::{BufReader, DuplexStream, ReadHalf, WriteHalf, split};

    struct Noted(Mutex<Vec<String>>);

    impl Listener for Noted {
        fn on_event(&self, event: &Event) -> Vec<Command> {
            self.0.lock().unwrap().push(format!("{} {}", event.session, event.method));
            match event.method.as_str() {
                "Page.asks" => vec![Command::new(&event.session, "Page.told", json!({}))],
                _ => Vec::new(),
            }
        }
    }

    struct Fake {
        reader: BufReader<ReadHalf<DuplexStream>>,
        writer: WriteHalf<DuplexStream>,
    }

    impl Fake {
        async fn hear(&mut self) -> Value {
            let mut bytes = Vec::new();
            loop {
                match self.reader.read_u8().await.unwrap() {
                    0 => return serde_json::from_slice(&bytes).unwrap(),
                    byte => bytes.push(byte),
                }
            }
        }

        async fn say(&mut self, tree: Value) {
            self.writer.write_all(format!("{tree}\0").as_bytes()).await.unwrap();
        }
    }

    fn pair() -> (Client, Fake) {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let ((reader, writer), (r, w)) = (split(ours), split(theirs));
        (Client::new(reader, writer), Fake { reader: BufReader::new(r), writer: w })
    }

    #[tokio::test]
    async fn answers_find_their_calls_and_events_their_listeners() {
        let (client, mut fake) = pair();
        let noted = Arc::new(Noted(Mutex::default()));
        client.listen("S", noted.clone());
        let calling = tokio::spawn({
            let client = client.clone();
            let command = Command::new("S", "Page.enable", json!({ "a": 1 }));
            async move { client.call(command, within(Duration::from_secs(20))).await }
        });
        let asked = fake.hear().await;
        assert_eq!((&asked["method"], &asked["params"]["a"]), (&json!("Page.enable"), &json!(1)));
        let attached = json!({ "method": "Target.attachedToTarget", "sessionId": "S", "params": { "sessionId": "C" } });
        fake.say(attached).await;
        fake.say(json!({ "method": "Page.asks", "sessionId": "C" })).await;
        fake.say(json!({ "method": "Page.other", "sessionId": "X" })).await;
        fake.say(json!({ "method": "Target.targetCreated" })).await;
        fake.say(json!({ "id": asked["id"], "result": { "ok": true } })).await;
        assert_eq!(calling.await.unwrap().unwrap(), json!({ "ok": true }));
        assert_eq!(fake.hear().await["method"], "Page.told", "a listener answers by itself");
        let seen = noted.0.lock().unwrap().clone();
        assert_eq!(seen, ["S Target.attachedToTarget", "C Page.asks", " Target.targetCreated"]);
    }

    #[tokio::test]
    async fn nobody_waits_for_a_browser_that_is_silent_or_gone() {
        let (client, mut fake) = pair();
        let command = || Command::new("", "Browser.getVersion", json!({}));
        let late = client.call(command(), within(Duration::from_millis(10))).await;
        assert!(matches!(late, Err(CallError::Late { .. })));
        let calling = tokio::spawn({
            let client = client.clone();
            async move { client.call(command(), within(Duration::from_secs(60))).await }
        });
        fake.hear().await;
        fake.hear().await;
        drop(fake);
        assert!(matches!(calling.await.unwrap(), Err(CallError::Closed { .. })));
        client.closed().await;
        let after = client.call(command(), within(Duration::from_secs(60))).await;
        assert!(matches!(after, Err(CallError::Closed { .. })));
    }

    #[tokio::test]
    async fn nonsense_ends_the_connection() {
        let (client, mut fake) = pair();
        fake.writer.write_all(b"nonsense\0").await.unwrap();
        assert!(client.closed().await.contains("protocol"));
    }
}
