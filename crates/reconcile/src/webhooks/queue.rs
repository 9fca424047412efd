//! Pending deliveries: a lane for each integration, and the file that outlives the daemon.

use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
    sync::Arc,
    time::Duration,
};

use hothouse_engine::WebhookTarget;
use hothouse_host::{FileError, files};
use hothouse_sinks::webhook::{Adversary, Delivery, Signing};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::listen::PRIVATE;
use crate::durable::{DurableFile, Receipt};

/// The file with a run's pending deliveries.
const FILE: &str = "webhook-queue.jsonl";

/// The maximum size of that file.
const FILE_MOST: u64 = 64 << 20;

/// The maximum number of pending deliveries in a run, and of their bytes.
const MOST: usize = 1_000;
const BYTES_MOST: usize = 16 << 20;

/// A pending webhook.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Pending {
    /// The id of its record.
    pub(crate) id: String,
    pub(crate) integration: String,
    /// Its origin, such as `stripe/invoice.paid`.
    pub(crate) fixture: String,
    pub(crate) vendor: String,
    pub(crate) kind: String,
    pub(crate) headers: Vec<(String, String)>,
    #[serde(with = "as_base64")]
    pub(crate) body: Vec<u8>,
    /// The id of the message, which all attempts share.
    pub(crate) message: String,
    pub(crate) target: WebhookTarget,
    /// The number of attempts so far.
    pub(crate) attempts: u32,
    /// When to retry; `None` means immediately.
    pub(crate) due: Option<Timestamp>,
    /// Not stored: only manual deliveries inject faults, and their clients wait for the outcome.
    #[serde(skip)]
    pub(crate) twist: Twist,
}

/// How a delivery differs from an ordinary one.
#[derive(Clone, Debug)]
pub(crate) struct Twist {
    pub(crate) adversary: Option<Adversary>,
    pub(crate) signing: Signing,
    /// How long ago it was signed.
    pub(crate) age: SignedDuration,
    pub(crate) pace: Option<Duration>,
}

impl Default for Twist {
    fn default() -> Self {
        Self { adversary: None, signing: Signing::Current, age: SignedDuration::ZERO, pace: None }
    }
}

impl Pending {
    /// Creates a delivery that waits for its first attempt.
    pub(crate) fn of(
        delivery: Delivery,
        (id, integration, fixture): (String, &str, String),
        target: WebhookTarget,
        now: Timestamp,
    ) -> Self {
        let Delivery { adversary, payload, id: message, signed_at, signing, pace, .. } = delivery;
        Self {
            id,
            integration: integration.to_owned(),
            fixture,
            vendor: payload.vendor,
            kind: payload.kind,
            headers: payload.headers,
            body: payload.bytes,
            message,
            target,
            attempts: 0,
            due: None,
            twist: Twist { adversary, signing, age: now.duration_since(signed_at), pace },
        }
    }

    fn size(&self) -> usize {
        self.body.len() + 1024
    }
}

/// A delivery in memory, with the response that must be sent before it.
pub(crate) struct Queued {
    pub(crate) pending: Pending,
    pub(crate) after: Option<oneshot::Receiver<()>>,
}

/// The deliveries of one integration. First attempts keep their order; retries wait separately, so
/// that an event which the app refuses does not block others.
#[derive(Default)]
pub(crate) struct Lane {
    fresh: VecDeque<Queued>,
    again: Vec<Pending>,
    pub(crate) is_served: bool,
}

/// The next action of a lane.
pub(crate) enum Next {
    Deliver(Box<Queued>),
    Wait(Duration),
    Nothing,
}

impl Lane {
    pub(crate) fn push(&mut self, queued: Queued) {
        match queued.pending.due {
            Some(_) => self.again.push(queued.pending),
            None => self.fresh.push_back(queued),
        }
    }

    /// Takes the delivery that is due now.
    pub(crate) fn next(&mut self, now: Timestamp) -> Next {
        let due = |pending: &Pending| pending.due.unwrap_or(now);
        let earliest = (0..self.again.len()).min_by_key(|at| due(&self.again[*at]));
        let wait = earliest.map(|at| (at, due(&self.again[at]).duration_since(now)));
        match (wait, self.fresh.pop_front()) {
            (_, Some(queued)) => Next::Deliver(Box::new(queued)),
            (Some((at, wait)), None) if wait <= SignedDuration::ZERO => {
                let pending = self.again.swap_remove(at);
                Next::Deliver(Box::new(Queued { pending, after: None }))
            }
            (Some((_, wait)), None) => Next::Wait(wait.unsigned_abs()),
            (None, None) => Next::Nothing,
        }
    }
}

/// A change of the pending deliveries, as a line of the file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Add(Box<Pending>),
    Again { id: String, attempts: u32, due: Timestamp },
    Done(String),
}

/// No more deliveries fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many webhooks wait to be delivered")]
pub(crate) struct Full;

/// The pending deliveries of one run, on disk.
pub(crate) struct RunFile {
    file: Arc<DurableFile>,
    waiting: BTreeMap<String, usize>,
}

impl RunFile {
    /// Opens the file of a run, and returns the deliveries that an earlier daemon left, in order.
    pub(crate) fn open(artifacts: &Path) -> (Self, Vec<Pending>) {
        // It contains secrets of endpoints, so the room must not be able to request it.
        let folder = artifacts.join(PRIVATE);
        let (file, before) = (DurableFile::new(folder.join(FILE)), artifacts.join(FILE));
        if files::exists(&before) {
            // An earlier build stored it where a room could read it.
            let moved = files::make_private_folder(&folder)
                .and_then(|()| files::rename(&before, file.path()));
            if let Err(error) = moved {
                tracing::warn!(%error, "the queue of webhooks cannot be moved");
            }
        }
        let bytes = files::read_capped(file.path(), FILE_MOST).unwrap_or_default();
        let left = replayed(&bytes);
        let lines: Vec<Line> = left.iter().cloned().map(Box::new).map(Line::Add).collect();
        // Rewritten, so that nothing follows a torn line.
        if !bytes.is_empty()
            && let Err(error) = file.replace(&text(&lines))
        {
            tracing::warn!(%error, "the queue of webhooks cannot be written");
        }
        let waiting = left.iter().map(|one| (one.id.clone(), one.size())).collect();
        (Self { file, waiting }, left)
    }

    /// Stores deliveries, or refuses all of them. Durable after a wait on the receipt.
    pub(crate) fn add(
        &mut self,
        all: &[Pending],
    ) -> Result<Result<Option<Receipt>, FileError>, Full> {
        let bytes: usize = self.waiting.values().sum::<usize>();
        let new: usize = all.iter().map(Pending::size).sum();
        if self.waiting.len() + all.len() > MOST || bytes + new > BYTES_MOST {
            return Err(Full);
        }
        let kept = all.iter().filter(|one| one.twist.adversary.is_none());
        let lines: Vec<Line> = kept.cloned().map(Box::new).map(Line::Add).collect();
        let written = self.write(&lines);
        if written.is_ok() {
            self.waiting.extend(all.iter().map(|one| (one.id.clone(), one.size())));
        }
        Ok(written)
    }

    pub(crate) fn again(&mut self, pending: &Pending) -> Result<(), FileError> {
        let Some(due) = pending.due else { return Ok(()) };
        let (id, attempts) = (pending.id.clone(), pending.attempts);
        self.note(&[Line::Again { id, attempts, due }])
    }

    /// Removes a delivery. Once none is pending the file is empty again.
    pub(crate) fn done(&mut self, id: &str) -> Result<(), FileError> {
        if self.waiting.remove(id).is_none() {
            return Ok(());
        }
        match self.waiting.is_empty() {
            true => self.file.remove(),
            false => self.note(&[Line::Done(id.to_owned())]),
        }
    }

    /// Writes without waiting: if it is lost, a delivery is repeated.
    fn note(&self, lines: &[Line]) -> Result<(), FileError> {
        self.write(lines).map(drop)
    }

    fn write(&self, lines: &[Line]) -> Result<Option<Receipt>, FileError> {
        match lines.is_empty() {
            true => Ok(None),
            false => {
                if let Some(folder) = self.file.path().parent() {
                    files::make_private_folder(folder)?;
                }
                self.file.append(&text(lines)).map(Some)
            }
        }
    }
}

fn text(lines: &[Line]) -> Vec<u8> {
    let mut text = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut text, line).expect("a line has text as keys");
        text.push(b'\n');
    }
    text
}

/// Returns the pending deliveries after all lines of a file. A torn line at its end was never
/// acknowledged.
fn replayed(bytes: &[u8]) -> Vec<Pending> {
    let mut left: Vec<Pending> = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(Line::Add(pending)) if left.len() < MOST => left.push(*pending),
            Ok(Line::Again { id, attempts, due }) => {
                if let Some(one) = left.iter_mut().find(|one| one.id == id) {
                    (one.attempts, one.due) = (attempts, Some(due));
                }
            }
            Ok(Line::Done(id)) => left.retain(|one| one.id != id),
            Ok(Line::Add(_)) | Err(_) => {}
        }
    }
    left
}

mod as_base64 {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        BASE64_STANDARD.decode(text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn pending(id: &str) -> Pending {
        let target = WebhookTarget {
            service: "api".into(),
            path: "/hook".into(),
            secret: Some("S".into()),
            told: None,
        };
        Pending {
            id: id.into(),
            integration: "stripe".into(),
            fixture: "stripe/invoice.paid".into(),
            vendor: "stripe".into(),
            kind: "invoice.paid".into(),
            headers: Vec::new(),
            body: b"\xff{}".to_vec(),
            message: "msg_1".into(),
            target,
            attempts: 0,
            due: None,
            twist: Twist::default(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn what_was_not_delivered_is_found_again_in_its_order() {
        let folder = tempfile::tempdir().unwrap();
        let (mut file, left) = RunFile::open(folder.path());
        assert!(left.is_empty());
        file.add(&[pending("a"), pending("b"), pending("c")])
            .unwrap()
            .unwrap()
            .unwrap()
            .wait()
            .unwrap();
        file.done("b").unwrap();
        let tried = Pending { attempts: 2, due: Some(at(9)), ..pending("c") };
        file.again(&tried).unwrap();
        let (mut file, left) = RunFile::open(folder.path());
        let found: Vec<_> = left.iter().map(|one| (&*one.id, one.attempts, one.due)).collect();
        assert_eq!(found, [("a", 0, None), ("c", 2, Some(at(9)))]);
        assert_eq!(left[0].body, b"\xff{}");
        // A torn line is ignored, and does not affect later ones.
        let path = folder.path().join(PRIVATE).join(FILE);
        files::open_append(&path).unwrap().write_all(b"{\"add\":{\"id\":\"d").unwrap();
        let (mut torn, left) = RunFile::open(folder.path());
        assert_eq!(left.len(), 2);
        torn.add(&[pending("e")]).unwrap().unwrap().unwrap().wait().unwrap();
        assert_eq!(RunFile::open(folder.path()).1.len(), 3);
        torn.done("e").unwrap();
        file.done("a").unwrap();
        file.done("c").unwrap();
        assert!(!files::exists(&path), "nothing waits");
    }

    #[test]
    fn what_an_earlier_build_kept_is_found_and_closed() {
        let folder = tempfile::tempdir().unwrap();
        let line = text(&[Line::Add(Box::new(pending("a")))]);
        files::write(&folder.path().join(FILE), line).unwrap();
        assert_eq!(RunFile::open(folder.path()).1.len(), 1);
        assert!(!files::exists(&folder.path().join(FILE)));
    }

    #[test]
    fn a_run_has_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let (mut file, _) = RunFile::open(folder.path());
        let many: Vec<_> = (0..MOST).map(|number| pending(&number.to_string())).collect();
        file.add(&many).unwrap().unwrap().unwrap().wait().unwrap();
        assert_eq!(file.add(&[pending("x")]).err(), Some(Full));
        file.done("7").unwrap();
        file.add(&[pending("x")]).unwrap().unwrap().unwrap().wait().unwrap();
        let large = Pending { body: vec![0; BYTES_MOST], ..pending("y") };
        file.done("8").unwrap();
        assert_eq!(file.add(&[large]).err(), Some(Full));
    }

    #[test]
    fn first_attempts_keep_their_order_and_what_failed_waits_beside() {
        let mut lane = Lane::default();
        let taken = |lane: &mut Lane, second| match lane.next(at(second)) {
            Next::Deliver(queued) => queued.pending.id,
            Next::Wait(time) => format!("wait {}", time.as_secs()),
            Next::Nothing => "nothing".into(),
        };
        for id in ["a", "b"] {
            lane.push(Queued { pending: pending(id), after: None });
        }
        assert_eq!(taken(&mut lane, 0), "a");
        for (id, due) in [("a", 5), ("z", 3)] {
            let failed = Pending { attempts: 1, due: Some(at(due)), ..pending(id) };
            lane.push(Queued { pending: failed, after: None });
        }
        assert_eq!(taken(&mut lane, 9), "b", "a first attempt goes before");
        assert_eq!(taken(&mut lane, 1), "wait 2");
        assert_eq!(taken(&mut lane, 3), "z");
        assert_eq!(taken(&mut lane, 5), "a");
        assert_eq!(taken(&mut lane, 5), "nothing");
    }
}
