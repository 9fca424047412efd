//! The queues of a run and their messages. Pure: a time in, changes and records out.
//!
//! A queue is created on first use: in production it already exists. A message that was received as
//! often as its queue allows goes to the dead letters as soon as it would become visible again.

use std::collections::{BTreeMap, BTreeSet};

use hothouse_model::{
    queue::{Job, JobState},
    record::bodies::JobBody,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Recorded, bound};

/// How long FIFO queues remember sent messages, in milliseconds.
const REMEMBERED: i64 = 5 * 60 * 1000;

/// The default visibility timeout, in seconds.
const HIDDEN: i64 = 30;

/// A stored entry by its key; `None` if it was removed.
pub type Change = (String, Option<Value>);

/// A message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub id: String,
    pub body: String,
    #[serde(default)]
    pub attributes: BTreeMap<String, Value>,
    /// In milliseconds, like all times here.
    pub sent: i64,
    /// When it becomes visible.
    pub visible: i64,
    #[serde(default)]
    pub receives: u64,
    #[serde(default)]
    pub first_received: Option<i64>,
    #[serde(default)]
    pub group: Option<String>,
    #[serde(default)]
    pub deduplication: Option<String>,
    /// The queue from which it was moved to the dead letters.
    #[serde(default)]
    pub died_in: Option<String>,
}

/// A queue, without its messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    pub created: i64,
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    #[serde(skip)]
    messages: BTreeMap<u64, Message>,
    /// Recent messages of a FIFO queue: id and sequence number, by deduplication key.
    #[serde(skip)]
    recent: BTreeMap<String, (i64, String, u64)>,
}

/// All queues of a run.
#[derive(Debug, Default)]
pub struct Broker {
    queues: BTreeMap<String, Queue>,
    next: u64,
    changes: Vec<Change>,
    records: Vec<Recorded>,
}

/// A message to be sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outgoing {
    pub id: String,
    pub body: String,
    pub attributes: BTreeMap<String, Value>,
    /// In seconds.
    pub delay: Option<i64>,
    pub group: Option<String>,
    pub deduplication: Option<String>,
}

/// The dead-letter settings of a queue.
struct Redrive {
    to: String,
    after: u64,
}

impl Queue {
    fn number(&self, name: &str, otherwise: i64) -> i64 {
        self.attributes.get(name).and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    }

    fn redrive(&self) -> Option<Redrive> {
        let policy: Value = serde_json::from_str(self.attributes.get("RedrivePolicy")?).ok()?;
        let to = policy["deadLetterTargetArn"].as_str()?.rsplit(':').next()?.to_owned();
        let after = &policy["maxReceiveCount"];
        let after = after.as_u64().or_else(|| after.as_str()?.parse().ok())?;
        Some(Redrive { to, after: after.max(1) })
    }

    /// Counts messages that are waiting, being processed, and delayed.
    pub fn counts(&self, now: i64) -> (usize, usize, usize) {
        let state = |wanted| self.messages.values().filter(|one| one.state(now) == wanted).count();
        let waiting = state(JobState::Waiting) + state(JobState::Dead);
        (waiting, state(JobState::Active), state(JobState::Delayed))
    }

    /// Returns the default wait of a receive, in seconds.
    pub fn wait(&self) -> i64 {
        self.number("ReceiveMessageWaitTimeSeconds", 0)
    }
}

impl Message {
    fn state(&self, now: i64) -> JobState {
        match (self.visible > now, self.receives) {
            (true, 0) => JobState::Delayed,
            (true, _) => JobState::Active,
            (false, _) if self.died_in.is_some() => JobState::Dead,
            (false, _) => JobState::Waiting,
        }
    }

    /// Returns a name derived from its body, as job libraries do.
    fn name(&self) -> String {
        let tree: Value = serde_json::from_str(&self.body).unwrap_or_default();
        let named = ["type", "name", "job", "task", "event", "action"];
        let named = named.iter().find_map(|key| tree.get(key)?.as_str());
        bound::short(named.unwrap_or("message"))
    }

    fn job(&self, queue: &str, state: JobState) -> Job {
        Job {
            queue: self.died_in.clone().unwrap_or_else(|| queue.to_owned()),
            id: self.id.clone(),
            name: self.name(),
            state: state.into(),
            attempts: self.receives,
            error: None,
        }
    }
}

fn key_of(queue: &str, number: u64) -> String {
    format!("message/{queue}/{number:020}")
}

fn is_fifo(name: &str) -> bool {
    name.ends_with(".fifo")
}

impl Broker {
    /// Loads stored entries.
    pub fn load(entries: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut broker = Self::default();
        for (key, value) in entries {
            match key.split('/').collect::<Vec<_>>()[..] {
                ["queue", name] => {
                    let Ok(read) = serde_json::from_value::<Queue>(value) else { continue };
                    let known = broker.queues.entry(name.to_owned()).or_default();
                    *known = Queue { messages: std::mem::take(&mut known.messages), ..read };
                }
                ["message", name, number] => {
                    let (Ok(message), Ok(number)) = (serde_json::from_value(value), number.parse())
                    else {
                        continue;
                    };
                    let known = broker.queues.entry(name.to_owned()).or_default();
                    known.messages.insert(number, message);
                    broker.next = broker.next.max(number);
                }
                _ => {}
            }
        }
        broker
    }

    /// Returns what has to be stored since the last call, and what has to be recorded.
    pub fn take_changes(&mut self) -> (Vec<Change>, Vec<Recorded>) {
        (std::mem::take(&mut self.changes), std::mem::take(&mut self.records))
    }

    /// Returns a queue by its name, creating it if necessary.
    pub fn queue(&mut self, name: &str, now: i64) -> &Queue {
        if !self.queues.contains_key(name) {
            let mut attributes = BTreeMap::new();
            if is_fifo(name) {
                attributes.insert("FifoQueue".to_owned(), "true".to_owned());
            }
            let queue = Queue { created: now, attributes, ..Queue::default() };
            self.queues.insert(name.to_owned(), queue);
            self.changed_queue(name);
        }
        &self.queues[name]
    }

    /// Changes attributes and tags of a queue.
    pub fn change(&mut self, name: &str, now: i64, change: impl FnOnce(&mut Queue)) {
        self.queue(name, now);
        if let Some(queue) = self.queues.get_mut(name) {
            change(queue);
        }
        self.changed_queue(name);
    }

    /// Returns the names of all queues.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.queues.keys().map(String::as_str)
    }

    /// Returns the queues whose dead letters go to this one.
    pub fn sources(&self, name: &str) -> Vec<String> {
        let leads = |queue: &Queue| queue.redrive().is_some_and(|redrive| redrive.to == name);
        self.queues.iter().filter(|(_, queue)| leads(queue)).map(|(own, _)| own.clone()).collect()
    }

    /// Removes a queue with its messages.
    pub fn delete_queue(&mut self, name: &str) {
        self.purge(name);
        if self.queues.remove(name).is_some() {
            self.changes.push((format!("queue/{name}"), None));
        }
    }

    /// Removes all messages of a queue.
    pub fn purge(&mut self, name: &str) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        for number in std::mem::take(&mut queue.messages).into_keys() {
            self.changes.push((key_of(name, number), None));
        }
    }

    /// Sends a message; returns its id and, for a FIFO queue, its sequence number.
    pub fn send(
        &mut self,
        name: &str,
        one: Outgoing,
        now: i64,
    ) -> Result<(String, Option<u64>), &'static str> {
        self.queue(name, now);
        let fifo = is_fifo(name);
        if fifo && one.group.is_none() {
            return Err("The request must contain the parameter MessageGroupId.");
        }
        let queue = self.queues.get_mut(name).expect("it was made above");
        let by_content =
            queue.attributes.get("ContentBasedDeduplication").is_some_and(|text| text == "true");
        let sameness = match (one.deduplication.clone(), by_content && fifo) {
            (None, true) => Some(crate::ids::fingerprint(one.body.as_bytes())),
            (given, _) => given.filter(|_| fifo),
        };
        if fifo && sameness.is_none() {
            return Err(
                "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly",
            );
        }
        queue.recent.retain(|_, (sent, ..)| now - *sent < REMEMBERED);
        if let Some((_, id, number)) = sameness.as_ref().and_then(|same| queue.recent.get(same)) {
            return Ok((id.clone(), Some(*number)));
        }
        self.next += 1;
        let number = self.next;
        if let Some(same) = &sameness {
            queue.recent.insert(same.clone(), (now, one.id.clone(), number));
        }
        let delay = one.delay.unwrap_or_else(|| queue.number("DelaySeconds", 0)).clamp(0, 900);
        let message = Message {
            id: one.id.clone(),
            body: one.body,
            attributes: one.attributes,
            sent: now,
            visible: now + delay * 1000,
            receives: 0,
            first_received: None,
            group: one.group,
            deduplication: sameness,
            died_in: None,
        };
        self.store(name, number, message, now);
        Ok((one.id, fifo.then_some(number)))
    }

    /// Receives due messages; each is hidden from others for a while.
    pub fn receive(
        &mut self,
        name: &str,
        (most, hidden): (usize, Option<i64>),
        now: i64,
    ) -> Vec<(u64, Message)> {
        self.queue(name, now);
        self.bury(now);
        let queue = &self.queues[name];
        let hidden = hidden.unwrap_or_else(|| queue.number("VisibilityTimeout", HIDDEN));
        let in_work = |one: &&Message| is_fifo(name) && one.visible > now && one.receives > 0;
        let mut busy: BTreeSet<String> =
            queue.messages.values().filter(in_work).filter_map(|one| one.group.clone()).collect();
        let mut due = Vec::new();
        for (number, message) in &queue.messages {
            let group = message.group.clone().filter(|_| is_fifo(name));
            if due.len() == most || group.as_ref().is_some_and(|group| busy.contains(group)) {
                continue;
            }
            match message.visible <= now {
                true => due.push(*number),
                // Messages after a delayed one of the same group have to wait.
                false => busy.extend(group),
            }
        }
        let mut taken = Vec::new();
        for number in due {
            let mut message = self.queues[name].messages[&number].clone();
            message.receives += 1;
            message.first_received.get_or_insert(now);
            message.visible = now + hidden.clamp(0, 43_200) * 1000;
            self.store(name, number, message.clone(), now);
            taken.push((number, message));
        }
        taken
    }

    /// Returns when something in a queue next becomes due.
    pub fn next_due(&self, name: &str, now: i64) -> Option<i64> {
        let messages = self.queues.get(name)?.messages.values();
        messages.map(|one| one.visible).filter(|visible| *visible > now).min()
    }

    /// Removes a processed message.
    pub fn delete(&mut self, name: &str, number: u64) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        if let Some(message) = queue.messages.remove(&number) {
            self.changes.push((key_of(name, number), None));
            self.note(message.job(name, JobState::Completed));
        }
    }

    /// Hides a message again, for some seconds; `false` if it does not exist.
    pub fn hide(&mut self, name: &str, number: u64, seconds: i64, now: i64) -> bool {
        let found = self.queues.get(name).and_then(|queue| queue.messages.get(&number)).cloned();
        let Some(message) = found else { return false };
        let visible = now + seconds.clamp(0, 43_200) * 1000;
        self.store(name, number, Message { visible, ..message }, now);
        true
    }

    /// Lists all messages as jobs.
    pub fn jobs(&mut self, now: i64) -> Vec<Job> {
        self.bury(now);
        let of = |(name, queue): (&String, &Queue)| -> Vec<Job> {
            queue.messages.values().map(|one| one.job(name, one.state(now))).collect()
        };
        self.queues.iter().flat_map(of).take(hothouse_model::queue::JOBS_LIMIT).collect()
    }

    /// Makes delayed messages due.
    pub fn promote(&mut self, now: i64) {
        let delayed = self.found(|one| one.state(now) == JobState::Delayed);
        for (name, number, message) in delayed {
            self.store(&name, number, Message { visible: now, ..message }, now);
        }
    }

    /// Moves a dead letter back to its queue; `false` if there is none with this id.
    pub fn retry(&mut self, id: &str, now: i64) -> bool {
        let dead = self.found(|one| one.id == id && one.died_in.is_some());
        let Some((name, number, message)) = dead.into_iter().next() else { return false };
        self.revive(&name, number, message, now);
        true
    }

    /// Moves all dead letters of a queue back, or to another one; returns their number.
    pub fn redrive(&mut self, name: &str, to: Option<&str>, now: i64) -> usize {
        let letters: Vec<_> =
            self.found(|_| true).into_iter().filter(|(queue, ..)| queue == name).collect();
        let sources = self.sources(name);
        let mut moved = 0;
        for (queue, number, mut message) in letters {
            let otherwise = || to.map(str::to_owned).or_else(|| sources.first().cloned());
            message.died_in = match to {
                Some(to) => Some(to.to_owned()),
                None => message.died_in.or_else(otherwise),
            };
            if message.died_in.is_some() {
                self.revive(&queue, number, message, now);
                moved += 1;
            }
        }
        moved
    }

    fn revive(&mut self, name: &str, number: u64, message: Message, now: i64) {
        let Some(back) = message.died_in.clone() else { return };
        self.remove(name, number);
        self.queue(&back, now);
        let fresh = Message { visible: now, receives: 0, died_in: None, ..message };
        self.store(&back, number, fresh, now);
    }

    /// Moves messages that were received as often as their queue allows to the dead letters.
    fn bury(&mut self, now: i64) {
        let leads = self.queues.iter().filter_map(|(name, queue)| {
            Some((name.clone(), queue.redrive().filter(|redrive| redrive.to != *name)?))
        });
        for (name, Redrive { to, after }) in leads.collect::<Vec<_>>() {
            let worn = |one: &Message| one.visible <= now && one.receives >= after;
            let worn = self.found(worn).into_iter().filter(|(queue, ..)| *queue == name);
            for (_, number, message) in worn.collect::<Vec<_>>() {
                self.remove(&name, number);
                self.queue(&to, now);
                let dead = Message { visible: now, died_in: Some(name.clone()), ..message };
                self.store(&to, number, dead, now);
            }
        }
    }

    fn found(&self, wanted: impl Fn(&Message) -> bool) -> Vec<(String, u64, Message)> {
        let all = self.queues.iter().flat_map(|(name, queue)| {
            queue.messages.iter().map(move |(number, message)| (name, *number, message))
        });
        let found = all.filter(|(_, _, message)| wanted(message));
        found.map(|(name, number, message)| (name.clone(), number, message.clone())).collect()
    }

    fn remove(&mut self, name: &str, number: u64) {
        if let Some(queue) = self.queues.get_mut(name) {
            queue.messages.remove(&number);
        }
        self.changes.push((key_of(name, number), None));
    }

    fn store(&mut self, name: &str, number: u64, message: Message, now: i64) {
        let value = serde_json::to_value(&message).unwrap_or_default();
        self.changes.push((key_of(name, number), Some(value)));
        self.note(message.job(name, message.state(now)));
        if let Some(queue) = self.queues.get_mut(name) {
            queue.messages.insert(number, message);
        }
    }

    fn changed_queue(&mut self, name: &str) {
        let value = serde_json::to_value(&self.queues[name]).unwrap_or_else(|_| json!({}));
        self.changes.push((format!("queue/{name}"), Some(value)));
    }

    fn note(&mut self, job: Job) {
        let Job { queue, id, name, state, attempts, error } = job;
        let summary = format!("{name} {state} in {queue}");
        let body = JobBody { queue, job: id, name, state, attempts, error };
        self.records.push(Recorded::of(summary, &body));
    }
}
