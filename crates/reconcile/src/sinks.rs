//! Sinks for side effects: those of one run are shared by all rooms of its sandbox.
//!
//! `hothouse_sinks` parses a request; this module turns it into files and records of the run's
//! timeline, and only then answers the app. If the timeline cannot be written the app gets an
//! error: nothing that was acknowledged is lost.

mod base;
pub(crate) mod local;
pub(crate) mod mail;
pub(crate) mod metered;
mod models;
pub(crate) mod objects;
mod queues;
mod resolved;
mod served;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::join_all;
use hothouse_host::{Clock, clock::HostClock, random};
use hothouse_mock::{Answer, Match, request::Content};
use hothouse_model::{
    SandboxRecord,
    config::HostName,
    ledger::RoomProcess,
    query::Query,
    record::{
        Draft, Kind, Process, Record,
        bodies::{GapKind, LogBody, MailBody},
        trace_of,
    },
};
use hothouse_objects::Store;
use hothouse_sinks::{
    Call, Context, FlagSet, HostSink, Recorded, Taken, analytics, find, find_named, llm, queue,
};
use hothouse_terminate::{BODY_LIMIT, StandInAnswer, StandInRequest};
use hothouse_timeline::{AppendError, Direction, Selection, Timeline};
use serde_json::{Value, json};

use self::{base::Base, objects::ObjectSink};
use crate::{Connections, Flags, Subtasks, Timelines, Webhooks, mocks};

/// The size limit of requests to a sink: a mail with attachments, or a session recording.
pub(crate) const LONG_BODY: usize = 50 << 20;

/// The total size limit of files in a run: a room that sends mail endlessly must not fill the disk.
const FILES_LIMIT: u64 = 2 << 30;

/// How many issues of a run are remembered; beyond that the timeline is queried.
const ISSUES_LIMIT: usize = 10_000;

/// The sinks of all runs.
pub(crate) struct Sinks {
    timelines: Arc<Timelines>,
    flags: Arc<Flags>,
    webhooks: Arc<Webhooks>,
    connections: Arc<Connections>,
    /// The state folder.
    state: PathBuf,
    runs: Mutex<HashMap<String, Weak<RunSinks>>>,
    /// Calls of real models that have not ended, or whose records are not stored.
    model_calls: Arc<Subtasks>,
}

/// The sinks of one run.
pub(crate) struct RunSinks {
    timelines: Arc<Timelines>,
    flags: Arc<Flags>,
    webhooks: Arc<Webhooks>,
    connections: Arc<Connections>,
    sandbox: SandboxRecord,
    /// Empty for rooms without a run, whose sinks accept nothing.
    run: String,
    /// How many requests were refused since the last record, because they could not be stored.
    refused: AtomicU64,
    /// How many bytes of files were stored.
    kept: AtomicU64,
    /// The ids of reported issues.
    issues: Mutex<HashSet<String>>,
    base: Base,
    large: mail::LargeMessages,
    /// Greylisted recipients, which are accepted the next time.
    greylisted: Mutex<BTreeSet<String>>,
    /// Objects stored by apps.
    objects: Arc<Store>,
    /// Messages of queues.
    broker: queues::RunBroker,
    /// The cost of real model calls.
    spending: metered::Spending,
    model_calls: Arc<Subtasks>,
    /// Who is notified of object changes.
    told: Mutex<objects::ToldOfChanges>,
    /// Source maps sent by apps.
    served: served::Served,
}

/// Something that could not be stored, and so must not be acknowledged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotKept {
    #[error("no run of this sandbox is being recorded")]
    NoRun,
    #[error("this run has kept as much as a run may")]
    Full,
    #[error("{0}")]
    Disk(String),
}

/// Drafts of records whose files are written, and the timeline they belong to.
type Drafted = Result<(Arc<Timeline>, Vec<Draft>), NotKept>;

/// Records on their way to the timeline.
enum Prepared {
    /// How many records they were.
    Drafted(u64, Drafted),
    /// Errors of scripts: an app may have to be asked for their source maps first.
    Unresolved(Vec<Recorded>, Option<RoomProcess>),
}

impl Sinks {
    pub(crate) fn new(
        timelines: Arc<Timelines>,
        flags: Arc<Flags>,
        webhooks: Arc<Webhooks>,
        connections: Arc<Connections>,
        state: PathBuf,
    ) -> Arc<Self> {
        let model_calls = Arc::new(Subtasks::new("calls of real models"));
        let runs = Mutex::default();
        Arc::new(Self { timelines, flags, webhooks, connections, state, runs, model_calls })
    }

    /// Waits until the calls of real models have ended and are recorded.
    pub(crate) async fn finish(&self) {
        self.model_calls.finish().await;
    }

    /// Returns the sinks of a sandbox's current run.
    pub(crate) fn of(&self, sandbox: &SandboxRecord) -> Arc<RunSinks> {
        let run = sandbox.room.as_ref().map(|room| room.run.id.clone()).unwrap_or_default();
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|_, known| known.strong_count() > 0);
        if let Some(known) = runs.get(&run).and_then(Weak::upgrade) {
            return known;
        }
        let made = Arc::new(RunSinks {
            timelines: self.timelines.clone(),
            flags: self.flags.clone(),
            webhooks: self.webhooks.clone(),
            connections: self.connections.clone(),
            sandbox: sandbox.clone(),
            run: run.clone(),
            refused: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            issues: Mutex::default(),
            base: Base::of(&self.state, sandbox),
            large: mail::LargeMessages::default(),
            greylisted: Mutex::default(),
            objects: Arc::new(Store::new(hothouse_engine::objects_folder(sandbox))),
            broker: queues::RunBroker::default(),
            spending: metered::Spending::default(),
            model_calls: self.model_calls.clone(),
            told: Mutex::default(),
            served: served::Served::default(),
        });
        runs.insert(run, Arc::downgrade(&made));
        if let Err(error) = made.objects.tidy() {
            tracing::warn!(%error, "what is left of unfinished uploads could not be removed");
        }
        made
    }
}

impl RunSinks {
    /// Returns the size limit of requests to a host.
    pub(crate) fn body_limit(host: &HostName, vendor: Option<&str>) -> usize {
        sink_for(host.as_str(), vendor).map_or(BODY_LIMIT, |_| LONG_BODY)
    }

    /// Returns the object store of apps.
    pub(crate) fn objects(self: &Arc<Self>) -> Arc<ObjectSink> {
        ObjectSink::new(self.clone(), self.objects.clone())
    }

    /// Answers a request to a host of an integration, once its content is stored.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: StandInRequest,
        (integration, vendor): (String, Option<&str>),
    ) -> StandInAnswer {
        let host = request.host.as_str();
        if llm::find(host).is_some() {
            return self.answer_model(request, None).await;
        }
        if vendor == Some("sqs") || vendor.is_none() && queue::knows(host) {
            return self.answer_queue(request).await;
        }
        // JSON sent to a custom host counts as an event.
        match sink_for(host, vendor).or_else(|| is_json(&request).then_some(analytics::GENERIC)) {
            Some(sink) => self.answer_by(sink, request).await,
            None => mocks::told(unknown(&request, &integration), &[]),
        }
    }

    /// Answers a request with a sink, once its content is stored.
    pub(crate) async fn answer_by(
        self: Arc<Self>,
        sink: HostSink,
        request: StandInRequest,
    ) -> StandInAnswer {
        let (process, own) = (request.process.clone(), self.clone());
        let took = tokio::task::spawn_blocking(move || {
            let Taken { answer, records } = own.take(sink, &request);
            (answer, own.prepared(with_trace(records, &request.headers), process))
        });
        let Ok((answer, prepared)) = took.await else {
            return mocks::told(down("the sink failed; the daemon's log has the reason"), &[]);
        };
        match self.keep_prepared(prepared).await {
            Ok(_) => mocks::told(answer, &[]),
            Err(why) => mocks::told(down(&why.to_string()), &[]),
        }
    }

    /// Writes records and their files, and waits until all of them are on the disk.
    pub(crate) async fn keep(
        self: &Arc<Self>,
        records: Vec<Recorded>,
        process: Option<RoomProcess>,
    ) -> Result<Vec<Record>, NotKept> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let count = records.len() as u64;
        let (own, maps) = (self.clone(), self.served_maps(&records).await);
        let drafting =
            tokio::task::spawn_blocking(move || own.drafted(records, process, &maps)).await;
        let drafted = drafting.unwrap_or_else(|error| Err(NotKept::Disk(error.to_string())));
        self.keep_drafted(count, drafted).await
    }

    /// Prepares records on a thread that may block.
    fn prepared(&self, records: Vec<Recorded>, process: Option<RoomProcess>) -> Prepared {
        match served::has_scripts(&records) {
            true => Prepared::Unresolved(records, process),
            false => {
                let count = records.len() as u64;
                Prepared::Drafted(count, self.drafted(records, process, &served::Maps::new()))
            }
        }
    }

    async fn keep_prepared(self: &Arc<Self>, prepared: Prepared) -> Result<Vec<Record>, NotKept> {
        match prepared {
            Prepared::Drafted(0, _) => Ok(Vec::new()),
            Prepared::Drafted(count, drafted) => self.keep_drafted(count, drafted).await,
            Prepared::Unresolved(records, process) => self.keep(records, process).await,
        }
    }

    async fn keep_drafted(&self, count: u64, drafted: Drafted) -> Result<Vec<Record>, NotKept> {
        let kept = match drafted {
            Ok((timeline, drafts)) => self.append(&timeline, drafts).await,
            Err(why) => Err(why),
        };
        if let Err(why) = &kept {
            tracing::warn!(%why, run = self.run, "a sink cannot keep what it is sent");
            self.refused.fetch_add(count, Ordering::Relaxed);
        }
        kept
    }

    async fn append(
        &self,
        timeline: &Timeline,
        mut drafts: Vec<Draft>,
    ) -> Result<Vec<Record>, NotKept> {
        let missed = self.refused.swap(0, Ordering::Relaxed);
        if missed > 0 {
            drafts.insert(0, gap(missed));
        }
        let appended = join_all(drafts.into_iter().map(|draft| timeline.append_async(draft))).await;
        let appended: Result<Vec<Record>, AppendError> = appended.into_iter().collect();
        let mut appended = appended.map_err(|error| {
            // Earlier losses must still be reported.
            self.refused.fetch_add(missed, Ordering::Relaxed);
            NotKept::Disk(error.to_string())
        })?;
        Ok(appended.split_off(usize::from(missed > 0)))
    }

    fn drafted(
        &self,
        records: Vec<Recorded>,
        process: Option<RoomProcess>,
        maps: &served::Maps,
    ) -> Drafted {
        let timeline = self.timelines.writable(&self.run).ok_or(NotKept::NoRun)?;
        self.drafts(&timeline, records, process, maps).map(|drafts| (timeline, drafts))
    }

    /// Writes the files of records, and drafts records that refer to them.
    fn drafts(
        &self,
        timeline: &Timeline,
        records: Vec<Recorded>,
        process: Option<RoomProcess>,
        maps: &served::Maps,
    ) -> Result<Vec<Draft>, NotKept> {
        let files = records.iter().flat_map(|record| &record.files);
        let all: u64 = files.map(|file| file.bytes.len() as u64).sum();
        if self.kept.load(Ordering::Relaxed).saturating_add(all) > FILES_LIMIT {
            return Err(NotKept::Full);
        }
        let service = process.as_ref().and_then(|one| one.service.clone());
        let process = process.map(|one| Process { room_pid: one.pid, command: one.name });
        let drafts = records.into_iter().map(|record| {
            let draft = drafted(timeline, self.told_if_new(timeline, record, maps))?;
            Ok(Draft { process: process.clone(), service: service.clone(), ..draft })
        });
        let drafts = drafts.collect::<Result<Vec<_>, _>>()?;
        self.kept.fetch_add(all, Ordering::Relaxed);
        Ok(drafts)
    }
}

impl RunSinks {
    /// Passes a request to a sink, with injected faults.
    fn take(&self, sink: HostSink, request: &StandInRequest) -> Taken {
        let (flags, mails) = (self.flags.of(&self.sandbox), |id: &str| self.mail(id));
        let taken = with_context(&flags, &mails, |context| (sink.take)(&call(request), context));
        self.with_faults(sink.vendor, taken)
    }

    /// Finds a mail of the run by the id that its vendor assigned.
    fn mail(&self, id: &str) -> Option<MailBody> {
        let is_id = id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let query = is_id.then(|| Query::parse(&format!("vendor_id={id}"), Some(Kind::Mail)))?;
        let reader = self.timelines.writable(&self.run)?.reader().ok()?;
        let selection = Selection {
            query: query.ok()?,
            since: None,
            now: HostClock.now(),
            limit: 1,
            direction: Direction::NewestFirst,
        };
        reader.records(&selection).ok()?.first()?.body().ok()
    }

    /// Adds to a record what only the sandbox knows.
    fn told_if_new(
        &self,
        timeline: &Timeline,
        mut record: Recorded,
        maps: &served::Maps,
    ) -> Recorded {
        let engine = self.flags.engine();
        match record.kind {
            Kind::Event => self.base.compare_event(engine, &self.sandbox, &mut record.body),
            Kind::Mail => mail::check_links(engine, &self.sandbox, &mut record.body),
            Kind::Error => return self.told_if_new_issue(timeline, record, maps),
            _ => {}
        }
        record
    }

    /// Marks on an event whether the run has seen its issue before.
    fn told_if_new_issue(
        &self,
        timeline: &Timeline,
        mut record: Recorded,
        maps: &served::Maps,
    ) -> Recorded {
        let Some(id) = record.id.as_deref().filter(|_| record.kind == Kind::Error) else {
            return record;
        };
        let is_first = {
            let mut issues = self.issues.lock().unwrap_or_else(PoisonError::into_inner);
            if issues.len() >= ISSUES_LIMIT {
                issues.clear();
            }
            issues.insert(id.to_owned())
        };
        // An earlier daemon may have recorded it.
        let is_new =
            is_first && timeline.reader().is_ok_and(|reader| matches!(reader.get(id), Ok(None)));
        let in_base = self.base.has(self.flags.engine(), &self.sandbox, id);
        record.body["new"] = (is_new && !in_base).into();
        record.body["base"] = in_base.into();
        resolved::resolve(self.flags.engine(), &self.sandbox, &mut record.body, maps);
        record
    }
}

/// Writes the files of a record, and drafts the record.
fn drafted(timeline: &Timeline, record: Recorded) -> Result<Draft, NotKept> {
    let Recorded { kind, id, trace, summary, mut body, files } = record;
    let id = id.unwrap_or_else(|| timeline.mint(kind));
    let mut named = Vec::with_capacity(files.len());
    for file in files {
        let path = file.path.replace("{id}", &id);
        if let Some(pointer) = file.pointer {
            point(&mut body, pointer, &path);
        }
        named.push((path, file.bytes));
    }
    let files = named.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()));
    timeline.put_files(kind, files).map_err(|error| NotKept::Disk(error.to_string()))?;
    let (id, time) = (Some(id), HostClock.now());
    Ok(Draft { kind, id, time, service: None, process: None, trace, summary, body })
}

/// Gives records the trace of the request that made them. A batch of an SDK is left as it is: what it collected belongs
/// to other traces than the request that carries it.
fn with_trace(mut records: Vec<Recorded>, headers: &[(String, Vec<u8>)]) -> Vec<Recorded> {
    let Some(trace) = trace_in(headers) else { return records };
    let is_one = records.len() == 1;
    let is_act = |kind| is_one || matches!(kind, Kind::Mail | Kind::Llm | Kind::Object);
    for record in records.iter_mut().filter(|record| is_act(record.kind)) {
        record.trace.get_or_insert_with(|| trace.clone());
    }
    records
}

/// Returns the trace that the headers of a request name.
fn trace_in(headers: &[(String, Vec<u8>)]) -> Option<String> {
    trace_of(
        headers
            .iter()
            .filter_map(|(name, value)| Some((name.as_str(), std::str::from_utf8(value).ok()?))),
    )
}

/// Finds the sink for requests: by config, then by host.
fn sink_for(host: &str, vendor: Option<&str>) -> Option<HostSink> {
    vendor.and_then(find_named).or_else(|| find(host))
}

/// Calls a sink with the context that it needs besides a request.
fn with_context<T>(
    flags: &FlagSet,
    mails: &dyn Fn(&str) -> Option<MailBody>,
    take: impl FnOnce(&mut Context<'_>) -> T,
) -> T {
    let mut random = random::bytes;
    take(&mut Context { now: HostClock.now(), random: &mut random, flags, mails })
}

/// Whether a request contains JSON.
fn is_json(request: &StandInRequest) -> bool {
    request.method == "POST" && matches!(call(request).content, Content::Json(_))
}

/// Decodes a request.
fn call(request: &StandInRequest) -> Call<'_> {
    Call::read(hothouse_mock::Request {
        method: &request.method,
        host: request.host.as_str(),
        path: &request.path,
        query: &request.query,
        headers: &request.headers,
        body: &request.body,
    })
}

/// Sets the path of a file in a body that refers to it.
fn point(body: &mut Value, pointer: &str, path: &str) {
    let Some((above, name)) = pointer.rsplit_once('/') else { return };
    match body.pointer_mut(above) {
        Some(Value::Object(map)) => {
            map.insert(name.to_owned(), path.into());
        }
        Some(Value::Array(all)) => {
            let at = name.parse::<usize>().ok().and_then(|at| all.get_mut(at));
            at.into_iter().for_each(|slot| *slot = path.into());
        }
        _ => {}
    }
}

/// Answers for a host without a known protocol.
fn unknown(request: &StandInRequest, integration: &str) -> Answer {
    let host = &request.host;
    let tree = json!({ "error": {
        "code": "no_sink",
        "message": format!("integration `{integration}` is a sink, and no sink knows {host}"),
        "host": host.to_string(),
        "hints": [format!(
            "set `class = \"mock\"` under `[integration.{integration}]` and write a fixture for it, \
             or `class = \"disable\"`; docs/sinks.md lists the hosts that sinks know"
        )],
        "from": "hothouse",
    }});
    Answer::json(501, &tree, Match::Unmatched { nearest: Vec::new(), stub: String::new() })
}

/// Returns the response if a request could not be stored.
fn down(why: &str) -> Answer {
    let tree = json!({ "error": {
        "code": "sink_down",
        "message": format!("this was not accepted, because it cannot be kept: {why}"),
        "hints": ["try again later; `hothouse doctor` on the host says what is wrong"],
        "from": "hothouse",
    }});
    let mut answer = Answer::json(503, &tree, Match::Vendor("sink-down".into()));
    answer.headers.push(("retry-after".into(), "1".into()));
    answer
}

/// Drafts the gap record for refused requests.
fn gap(count: u64) -> Draft {
    let text = format!("sinks refused {count} records that could not be kept; the apps were told");
    let body = LogBody {
        source: "hothouse".into(),
        level: "warning".into(),
        text: text.clone(),
        gap: Some(GapKind::SinkDown.into()),
        count: Some(count),
        ..LogBody::default()
    };
    Draft::of(HostClock.now(), text, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_names_its_files_where_it_says() {
        let mut body = json!({ "files": { "eml": null }, "attachments": [{ "name": "a" }, null] });
        point(&mut body, "/files/eml", "mail/x/message.eml");
        point(&mut body, "/attachments/0/file", "mail/x/0");
        point(&mut body, "/attachments/1", "mail/x/1");
        for nowhere in ["/no/where", "/attachments/7", "/attachments/x", "", "files"] {
            point(&mut body, nowhere, "lost");
        }
        let expected = json!({
            "files": { "eml": "mail/x/message.eml" },
            "attachments": [{ "name": "a", "file": "mail/x/0" }, "mail/x/1"],
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn what_a_request_does_belongs_to_its_trace_and_a_batch_does_not() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let parent = format!("00-{trace}-00f067aa0ba902b7-01");
        let headers = [("Traceparent".to_owned(), parent.into_bytes())];
        let mail = || Recorded::of("a mail", &MailBody::default());
        let event =
            || Recorded::of("an event", &hothouse_model::record::bodies::EventBody::default());
        let own = Recorded { trace: Some("own".into()), ..event() };
        for (records, expected) in [
            (vec![mail()], vec![Some(trace)]),
            (vec![mail(), mail()], vec![Some(trace), Some(trace)]),
            (vec![event()], vec![Some(trace)]),
            (vec![event(), event()], vec![None, None]),
            (vec![own], vec![Some("own")]),
        ] {
            let records = with_trace(records, &headers);
            let found: Vec<_> = records.iter().map(|record| record.trace.as_deref()).collect();
            assert_eq!(found, expected);
        }
        assert_eq!(with_trace(vec![mail()], &[])[0].trace, None);
    }

    #[test]
    fn an_unknown_host_is_told_what_to_do() {
        let request = StandInRequest {
            host: "api.nobody.example".parse().unwrap(),
            method: "POST".into(),
            path: "/".into(),
            query: String::new(),
            headers: Vec::new(),
            body: Default::default(),
            process: None,
        };
        let answer = unknown(&request, "nobody");
        let text = String::from_utf8(answer.body.bytes()).unwrap();
        assert_eq!(answer.status, 501);
        for told in ["integration `nobody`", "api.nobody.example", "class = \\\"mock\\\""] {
            assert!(text.contains(told), "{told} in {text}");
        }
    }
}
