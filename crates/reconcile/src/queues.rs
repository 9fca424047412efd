//! Queues and schedules of the apps in a room: waiting jobs, failed jobs, and manual runs.
//!
//! Brokers are queried with their own clients in the room, in the environment of their service.
//! Jobs become records when a change of their state is found, by a command or by [`sweep`].

mod scripts;
mod sweep;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hothouse_engine::{CronEntry, Engine, QueueConfig};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    Failure, FailureKind, SandboxRecord, Word,
    config::rules::nearest,
    cron::{Schedule, ScheduledWork},
    queue::{Job, JobState, read_jobs, read_rows},
    record::{Draft, bodies::JobBody},
    stack::ServiceOrder,
};

use crate::{
    Connections, LateWalls, Timelines,
    in_room::{InRoom, RoomTask, TaskOutput},
    sinks::RunSinks,
};

pub use self::sweep::{Interested, JobInterest, watch};

/// The label of queue commands in the room. They do not keep a sandbox awake.
const LABEL: &str = "queue";
pub(crate) const EXEC_PREFIX: &str = "queue-";

/// The maximum output of a broker.
const KEEP: usize = 16 << 20;

/// How often a queue that is being drained is polled.
const LOOK: Duration = Duration::from_millis(500);

/// How many jobs of a run are remembered.
const KNOWN: usize = 50_000;

/// The last known state of each job, by its queue and id.
type KnownJobs = HashMap<(String, String), Word<JobState>>;

/// The queues and schedules of all sandboxes.
pub struct Queues {
    engine: Arc<Engine>,
    timelines: Arc<Timelines>,
    connections: Arc<Connections>,
    /// The last recorded state of each job, by run.
    known: Mutex<HashMap<String, KnownJobs>>,
    interest: Arc<JobInterest>,
    walls: Arc<LateWalls>,
}

/// The result of a manually run schedule.
#[derive(Clone, Debug)]
pub struct CronRun {
    pub schedule: Schedule,
    pub ok: bool,
    /// How it ended.
    pub end: String,
    pub output: String,
    pub duration: Duration,
}

impl Queues {
    pub(crate) fn new(
        engine: Arc<Engine>,
        timelines: Arc<Timelines>,
        connections: Arc<Connections>,
        interest: Arc<JobInterest>,
        walls: Arc<LateWalls>,
    ) -> Arc<Self> {
        Arc::new(Self { engine, timelines, connections, known: Mutex::default(), interest, walls })
    }

    /// Returns the sinks with messages of vendor queues.
    fn sinks(&self, sandbox: &SandboxRecord) -> Option<Arc<RunSinks>> {
        Some(self.walls.get()?.sinks_of(sandbox))
    }

    /// Returns the messages of vendor queues, which are recorded as they change.
    async fn messages(&self, sandbox: &SandboxRecord) -> Result<Vec<Job>, Failure> {
        match self.sinks(sandbox) {
            Some(sinks) => {
                sinks.queue_jobs().await.map_err(|error| Failure::of(FailureKind::Host, &error))
            }
            None => Ok(Vec::new()),
        }
    }

    /// Lists the jobs of all queues of a sandbox.
    pub async fn list(&self, sandbox: &SandboxRecord) -> Result<Vec<Job>, Failure> {
        let (room, config) = self.enter(sandbox).await?;
        let mut jobs = self.jobs(&room, &config).await?;
        self.record(sandbox, &jobs);
        jobs.extend(self.messages(sandbox).await?);
        Ok(jobs)
    }

    /// Makes delayed jobs due now, and waits until no job is waiting or running. Returns the
    /// remaining jobs.
    pub async fn drain(
        &self,
        sandbox: &SandboxRecord,
        timeout: Duration,
    ) -> Result<Vec<Job>, Failure> {
        let (room, config) = self.enter(sandbox).await?;
        let deadline = Instant::now() + timeout;
        loop {
            self.promote(&room, &config).await?;
            if let Some(sinks) = self.sinks(sandbox) {
                let promoted = sinks.promote_messages().await;
                promoted.map_err(|error| Failure::of(FailureKind::Host, &error))?;
            }
            let mut jobs = self.jobs(&room, &config).await?;
            self.record(sandbox, &jobs);
            jobs.extend(self.messages(sandbox).await?);
            let open: Vec<&Job> = jobs.iter().filter(|job| job.is_open()).collect();
            if open.is_empty() {
                return Ok(jobs);
            }
            if Instant::now() >= deadline {
                let named: Vec<String> = open
                    .iter()
                    .take(5)
                    .map(|job| format!("{} {} ({})", job.queue, job.id, job.state))
                    .collect();
                let count = open.len();
                let message = format!(
                    "{count} jobs are not done after {}",
                    hothouse_model::config::format_duration(timeout)
                );
                return Err(Failure::new(FailureKind::Unmet, message)
                    .hint(format!("left: {}", named.join(", ")))
                    .hint("`hothouse status` shows whether the worker is running, `hothouse logs` what it says"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Puts a dead job back into its queue.
    pub async fn retry(&self, sandbox: &SandboxRecord, id: &str) -> Result<Job, Failure> {
        let (room, config) = self.enter(sandbox).await?;
        let stored = self.stored_jobs(&room).await?;
        let is_stored = stored.iter().any(|job| job.id == id);
        let mut jobs = stored;
        let mut own = Vec::new();
        for queue in &config {
            let listed = self.own_jobs(&room, queue).await?;
            // Only the command of the queue that lists a job can retry it.
            if !is_stored && listed.iter().any(|job| job.id == id) {
                own.push(queue.clone());
            }
            jobs.extend(listed);
        }
        let messages = self.messages(sandbox).await?;
        let is_message = messages.iter().any(|job| job.id == id);
        jobs.extend(messages);
        let Some(job) = jobs.iter().find(|job| job.id == id) else {
            let shown: String = id.chars().take(80).collect();
            let failure =
                Failure::new(FailureKind::NotFound, format!("no queue has a job `{shown}`"));
            return Err(match nearest(id, jobs.iter().map(|job| job.id.as_str())) {
                Some(near) => failure.hint(format!("did you mean `{near}`?")),
                None => failure.hint("`hothouse queue list` lists them"),
            });
        };
        if job.state != JobState::Dead {
            let message =
                format!("job `{id}` is {}: only dead jobs are tried again by hand", job.state);
            return Err(Failure::new(FailureKind::Conflict, message));
        }
        if let Some(sinks) = self.sinks(sandbox).filter(|_| is_message) {
            let tried = sinks.retry_message(id).await;
            if tried.map_err(|error| Failure::of(FailureKind::Host, &error))? {
                return Ok(Job { state: JobState::Waiting.into(), attempts: 0, ..job.clone() });
            }
        }
        for task in scripts::retry(&room.stack.services, &own, id) {
            let ended = room.run(task).await?;
            if ended.is_ok() && ended.stdout.text().trim_start().starts_with('1') {
                let again = Job { state: JobState::Waiting.into(), error: None, ..job.clone() };
                self.record(sandbox, std::slice::from_ref(&again));
                return Ok(again);
            }
        }
        let message =
            format!("job `{id}` cannot be put back: its queue keeps no copy of what it was to do");
        Err(Failure::new(FailureKind::Unmet, message).hint("let the app queue it again"))
    }

    async fn enter(&self, sandbox: &SandboxRecord) -> Result<(InRoom, Vec<QueueConfig>), Failure> {
        let (engine, own) = (self.engine.clone(), sandbox.clone());
        let config = blocking(move || engine.queue_config(&own)).await?;
        Ok((InRoom::of(&self.engine, &self.connections, sandbox).await?, config))
    }

    async fn jobs(&self, room: &InRoom, config: &[QueueConfig]) -> Result<Vec<Job>, Failure> {
        let mut all = self.stored_jobs(room).await?;
        for queue in config {
            all.extend(self.own_jobs(room, queue).await?);
        }
        Ok(all)
    }

    /// Returns the jobs stored in databases and caches.
    async fn stored_jobs(&self, room: &InRoom) -> Result<Vec<Job>, Failure> {
        let mut all = Vec::new();
        for service in &room.stack.services {
            if let Some(task) = scripts::redis_list(service) {
                let printed = ended(room.run(task).await?, service)?;
                all.extend(read_jobs(&printed).map_err(|why| unreadable(service.name(), &why))?);
            } else if let Some(task) = scripts::postgres_list(service) {
                let printed = ended(room.run(task).await?, service)?;
                let tables = printed.lines().filter_map(|line| line.split_once('\t'));
                all.extend(tables.flat_map(|(table, rows)| read_rows(table, rows)));
            }
        }
        Ok(all)
    }

    /// Returns the jobs that a project's command lists.
    async fn own_jobs(&self, room: &InRoom, queue: &QueueConfig) -> Result<Vec<Job>, Failure> {
        let Some(list) = &queue.list else { return Ok(Vec::new()) };
        let printed = room.run(own_command(queue, list, None)).await?;
        if !printed.is_ok() {
            let mut failure = Failure::new(
                FailureKind::Unmet,
                format!("list queue `{}`: {}", queue.name, printed.end),
            );
            failure.causes.extend(printed.last_lines(5));
            return Err(failure);
        }
        let mut jobs =
            read_jobs(&printed.stdout.text()).map_err(|why| unreadable(&queue.name, &why))?;
        jobs.iter_mut()
            .filter(|job| job.queue.is_empty())
            .for_each(|job| job.queue.clone_from(&queue.name));
        Ok(jobs)
    }

    async fn promote(&self, room: &InRoom, config: &[QueueConfig]) -> Result<(), Failure> {
        for task in room.stack.services.iter().flat_map(scripts::promote) {
            room.run(task).await?;
        }
        for queue in config {
            if let Some(drain) = &queue.drain {
                room.run(own_command(queue, drain, None)).await?;
            }
        }
        Ok(())
    }

    /// Records the jobs whose state has changed.
    fn record(&self, sandbox: &SandboxRecord, jobs: &[Job]) {
        let Some(room) = &sandbox.room else { return };
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(room.run.id.clone()).or_default();
        if known.len() > KNOWN {
            known.clear();
        }
        for job in jobs {
            let key = (job.queue.clone(), job.id.clone());
            if known.get(&key) == Some(&job.state) {
                continue;
            }
            known.insert(key, job.state.clone());
            let body = JobBody {
                queue: job.queue.clone(),
                job: job.id.clone(),
                name: job.name.clone(),
                state: job.state.clone(),
                attempts: job.attempts,
                error: job.error.clone(),
            };
            let summary = format!("{} {} in {}", job.name, job.state, job.queue);
            self.timelines.append(sandbox, Draft::of(HostClock.now(), summary, &body));
        }
    }

    /// Runs a schedule once, now.
    pub async fn run_cron(&self, sandbox: &SandboxRecord, name: &str) -> Result<CronRun, Failure> {
        let (engine, own) = (self.engine.clone(), sandbox.clone());
        let all = blocking(move || engine.crons(&own)).await?;
        let Some(entry) = all.iter().find(|entry| entry.schedule.name == name).cloned() else {
            return Err(unknown_cron(name, &all));
        };
        let room = InRoom::of(&self.engine, &self.connections, sandbox).await?;
        let begun = Instant::now();
        let (ok, end, output) = match &entry.schedule.work {
            ScheduledWork::Command(command) => {
                let mut task = RoomTask::shell(format!("exec 2>&1\n{command}"));
                (task.label, task.timeout, task.service) =
                    (LABEL, entry.timeout, entry.service.clone());
                task.folder = Some(entry.folder.clone().into());
                let ended = room.run(task).await?;
                (ended.is_ok(), ended.end.to_string(), ended.stdout.text())
            }
            ScheduledWork::Call(path) => match call(&room, &entry, path).await {
                Ok((status, body)) => {
                    ((200..300).contains(&status), format!("http {status}"), body)
                }
                Err(why) => (false, why, String::new()),
            },
        };
        let state = if ok { JobState::Completed } else { JobState::Failed };
        let body = JobBody {
            queue: "cron".into(),
            job: name.to_owned(),
            name: name.to_owned(),
            state: state.into(),
            attempts: 1,
            error: (!ok).then(|| end.clone()),
        };
        self.timelines.append(
            sandbox,
            Draft::of(HostClock.now(), format!("cron {name} {state}: {end}"), &body),
        );
        Ok(CronRun { schedule: entry.schedule, ok, end, output, duration: begun.elapsed() })
    }
}

fn own_command(queue: &QueueConfig, command: &str, id: Option<&str>) -> RoomTask {
    let mut task = RoomTask::shell(command.to_owned());
    (task.label, task.service, task.keep) = (LABEL, queue.service.clone(), KEEP);
    task.folder = Some(queue.folder.clone().into());
    task.env = id.map(|id| ("HOTHOUSE_JOB".to_owned(), id.to_owned())).into_iter().collect();
    task
}

fn ended(ended: TaskOutput, service: &ServiceOrder) -> Result<String, Failure> {
    if ended.is_ok() {
        return Ok(ended.stdout.text());
    }
    let mut failure = Failure::new(
        FailureKind::Backend,
        format!("ask `{}` for its queues: {}", service.name(), ended.end),
    );
    failure.causes.extend(ended.last_lines(3));
    Err(failure)
}

fn unreadable(name: &str, why: &str) -> Failure {
    Failure::new(FailureKind::Unmet, format!("the jobs of `{name}` cannot be read: {why}"))
}

fn unknown_cron(name: &str, all: &[CronEntry]) -> Failure {
    let shown: String = name.chars().take(80).collect();
    let failure = Failure::new(FailureKind::NotFound, format!("there is no schedule `{shown}`"));
    let names: Vec<&str> = all.iter().map(|entry| entry.schedule.name.as_str()).collect();
    match nearest(name, names.iter().copied()) {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None if names.is_empty() => {
            failure.hint("declare one under `[cron.NAME]` in hothouse.toml")
        }
        None => failure.hint(format!("available: {}", names.join(", "))),
    }
}

async fn call(room: &InRoom, entry: &CronEntry, path: &str) -> Result<(u16, String), String> {
    let named = entry.service.as_deref().and_then(|name| room.service(name));
    let service =
        named.or_else(|| room.stack.services.iter().find(|service| service.app.is_some()));
    let port =
        service.and_then(|service| service.port).ok_or("no app of the profile has a port")?;
    room.get(port, path, "hothouse-cron", 1 << 20, entry.timeout).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Failure::of(FailureKind::Internal, &error)))
}
