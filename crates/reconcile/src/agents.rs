//! Coding agents in rooms.
//!
//! An agent is a command on a terminal that room-init keeps, so it outlives this daemon and its
//! viewers. Its state is a file in the state folder, written before it starts and after each
//! change; the room knows whether it is running. A task follows each agent; the next daemon resumes
//! it.
//!
//! ```text
//! starting ──► running ◄──► waiting (for a human)
//!                 └──► exited | failed | stopped      a loop starts its next round from here
//! ```

mod audit;
mod follow;
mod login;
mod output;
mod prepare;
mod programs;
mod race;
mod races;
mod rounds;
mod tool;
mod transcript;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hothouse_backend::connection::{ExecId, WindowSize};
use hothouse_engine::Engine;
use hothouse_host::{Clock, clock::HostClock, files, random};
use hothouse_model::{
    Failure, FailureKind, SandboxRecord,
    agent::{AgentMode, AgentRecord, AgentState, LoopSpec},
    id::{SandboxKey, hex},
    record::{Draft, bodies},
};
use serde::{Deserialize, Serialize};

pub(crate) use self::races::go_on as go_on_with_races;
pub use self::{
    audit::{AuditWish, audit},
    race::{RaceWish, race},
    tool::{Tool, visible_text},
};
use crate::{Activities, Connections, Stop, Subtasks, Timelines, in_room::InRoom};

/// How long an agent may take to exit after it was asked to.
const GRACE: Duration = Duration::from_secs(5);

const TERMINATE: i32 = 15;
const KILL: i32 = 9;

/// The dependencies of [`Agents`].
pub struct AgentsOrder {
    /// The folder with a record for each sandbox's agent.
    pub folder: PathBuf,
    pub engine: Arc<Engine>,
    pub timelines: Arc<Timelines>,
    pub connections: Arc<Connections>,
    pub activities: Arc<Activities>,
}

/// The agents of all sandboxes, one each.
pub struct Agents {
    pub(crate) with: AgentsOrder,
    turns: Mutex<HashMap<SandboxKey, Arc<tokio::sync::Mutex<()>>>>,
    /// The sandboxes whose agent is followed by a task.
    followed: Mutex<HashMap<SandboxKey, String>>,
    following: Subtasks,
    races: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// Held while a record is read and written again.
    changing: Mutex<()>,
}

/// What a room says of an agent's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Running,
    /// The room has no such command, or it has ended.
    Ended,
    /// There is no room, or it does not answer.
    Silent,
}

/// A request to start an agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AgentWish {
    pub tool: Option<String>,
    pub prompt: Option<String>,
    pub task: Option<String>,
    pub model: Option<String>,
    pub unattended: bool,
    pub no_guard: bool,
    pub rounds: Option<LoopSpec>,
    /// The time limit.
    #[serde(default)]
    pub seconds: Option<u64>,
    pub rows: u16,
    pub columns: u16,
    /// Whether the tool continues its last conversation.
    #[serde(default)]
    pub resumed: bool,
    /// Whether the tool needs an option to run the guard's hook.
    #[serde(default)]
    pub unseen_hooks: bool,
}

/// The stored record of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) key: SandboxKey,
    pub(crate) record: AgentRecord,
    pub(crate) wish: AgentWish,
    /// Whether the user has stopped it.
    #[serde(default)]
    pub(crate) stopped: bool,
    /// Digests of what the last rounds changed and printed, to detect loops without progress.
    #[serde(default)]
    pub(crate) traces: Vec<(String, String)>,
    /// How many rate limits were hit in a row.
    #[serde(default)]
    pub(crate) limited: u32,
    /// What each round has cost so far, as reported by the tool.
    #[serde(default)]
    pub(crate) costs: BTreeMap<u32, f64>,
}

impl Kept {
    /// Takes what a round has cost so far. A tool repeats it, so only the largest amount counts.
    pub(crate) fn count_cost(&mut self, round: u32, cost: Option<f64>) {
        let Some(cost) = cost else { return };
        if let (true, Some(known)) = (self.costs.is_empty(), self.record.cost) {
            // An earlier build had only the sum.
            self.costs.insert(0, known);
        }
        let known = self.costs.entry(round).or_default();
        *known = known.max(cost);
        self.record.cost = Some(self.costs.values().sum());
    }

    pub(crate) fn is_active(&self) -> bool {
        self.record.state.is_active()
    }
}

impl Agents {
    pub(crate) fn new(with: AgentsOrder) -> Arc<Self> {
        Arc::new(Self {
            with,
            turns: Mutex::default(),
            followed: Mutex::default(),
            following: Subtasks::new("agents that are followed"),
            races: Mutex::default(),
            changing: Mutex::default(),
        })
    }

    fn turn(&self, key: SandboxKey) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(key).or_default().clone()
    }

    /// Ensures that each race is run by one task at a time.
    fn race_turn(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = self.races.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(name.to_owned()).or_default().clone()
    }

    /// Returns the path of an agent's record. It contains the creation time of the sandbox, which
    /// stays the same if the sandbox is deleted and restored.
    fn file(&self, sandbox: &SandboxRecord) -> PathBuf {
        self.with.folder.join(format!("{:x}.json", sandbox.created.as_nanosecond()))
    }

    /// Reads the stored record of a sandbox's agent; an unreadable one counts as missing.
    pub(crate) fn kept(&self, sandbox: &SandboxRecord) -> Option<Kept> {
        let read = |file: &Path| -> Option<Kept> {
            serde_json::from_slice(&files::read_capped(file, 4 << 20).ok()?).ok()
        };
        // An earlier build named the file after the sandbox's id, which a new sandbox of the same
        // name shares.
        let earlier = || {
            let kept = read(&self.with.folder.join(format!("{}.json", sandbox.id)))?;
            (kept.key == sandbox.key).then_some(kept)
        };
        let mut kept = read(&self.file(sandbox)).or_else(earlier)?;
        kept.record.sandbox = sandbox.name.to_string();
        Some(kept)
    }

    /// Removes the records of sandboxes that can no longer be restored.
    fn forget_gone(&self) -> Result<(), Failure> {
        use hothouse_model::Explain as _;
        let engine = &self.with.engine;
        let made = |sandboxes: Vec<SandboxRecord>| {
            sandboxes.into_iter().map(|one| format!("{:x}", one.created.as_nanosecond()))
        };
        // A sandbox that is deleted or restored meanwhile is in one of the three lists.
        let mut known: HashSet<String> = made(engine.sandboxes()?).collect();
        let deleted = engine.deleted()?;
        known.extend(deleted.iter().filter_map(|one| Some(one.id.rsplit_once('.')?.1.to_owned())));
        known.extend(made(engine.sandboxes()?));
        for file in files::list(&self.with.folder).unwrap_or_default() {
            let made = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let is_ours = !made.is_empty() && made.bytes().all(|byte| byte.is_ascii_hexdigit());
            if is_ours && !known.contains(made) {
                files::remove_file(&file).map_err(|error| error.failure())?;
            }
        }
        Ok(())
    }

    pub(crate) fn keep(&self, sandbox: &SandboxRecord, kept: &Kept) -> Result<(), Failure> {
        use hothouse_model::Explain as _;
        files::make_private_folder(&self.with.folder).map_err(|error| error.failure())?;
        let text = serde_json::to_vec(kept).expect("an agent has text as keys");
        files::replace(&self.file(sandbox), &text, 0o600).map_err(|error| error.failure())
    }

    /// Changes the record, and adds it to the timeline.
    pub(crate) fn change(
        &self,
        sandbox: &SandboxRecord,
        change: impl FnOnce(&mut Kept),
    ) -> Option<Kept> {
        let changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = self.kept(sandbox)?;
        let before = kept.record.clone();
        change(&mut kept);
        if let Err(failure) = self.keep(sandbox, &kept) {
            tracing::warn!(?failure, sandbox = %sandbox.name, "the state of an agent could not be written");
        }
        drop(changing);
        if before.state != kept.record.state || before.round != kept.record.round {
            self.note(sandbox, &kept);
        }
        Some(kept)
    }

    pub(crate) fn note(&self, sandbox: &SandboxRecord, kept: &Kept) {
        let AgentRecord {
            id,
            tool,
            mode,
            state,
            pid,
            model,
            round,
            started,
            login,
            exit,
            reason,
            cost,
            rounds,
            ..
        } = kept.record.clone();
        let summary = match (&reason, state) {
            (Some(reason), _) => format!("{tool} {state}: {reason}"),
            (None, AgentState::Running) if mode == AgentMode::Loop => {
                format!("{tool} running, round {round}")
            }
            (None, state) => format!("{tool} {state}"),
        };
        let commit = rounds.last().and_then(|round| round.commit.clone());
        let started = started.to_string();
        let body = bodies::AgentBody {
            agent: id,
            tool,
            mode,
            state,
            pid,
            model,
            round,
            started,
            login,
            exit,
            reason,
            cost,
            commit,
        };
        // The run of the sandbox may have ended meanwhile.
        let now = self.with.engine.sandbox(sandbox.key).ok().flatten();
        let summary: String = summary.chars().take(300).collect();
        self.with
            .timelines
            .append(now.as_ref().unwrap_or(sandbox), Draft::of(HostClock.now(), summary, &body));
    }

    /// Starts an agent in the room of a sandbox.
    pub async fn start(
        self: &Arc<Self>,
        sandbox: &SandboxRecord,
        wish: AgentWish,
    ) -> Result<AgentRecord, Failure> {
        let turn = self.turn(sandbox.key);
        let _turn = turn.lock().await;
        self.check_free(sandbox).await?;
        let inside = InRoom::of(&self.with.engine, &self.with.connections, sandbox).await?;
        let tool = Tool::of(wish.tool.as_deref(), self.configured(sandbox).as_deref());
        let prompt = prepare::prompt(&wish, sandbox)?;
        prepare::check_installed(&inside, &tool).await?;
        prepare::write_task(&inside, &wish).await?;
        let mut wish = wish;
        if !wish.no_guard {
            prepare::install_guard(&inside, &tool).await?;
            wish.unseen_hooks = prepare::needs_unseen_hooks(&inside, &tool).await?;
        }
        let login = self.login(sandbox, &tool).await?;
        login::write(&inside, &tool).await?;
        let id = format!("agent_{}", hex(&random::bytes::<8>()));
        let record = AgentRecord {
            exec: format!("agent-{}-1", &id[6..]),
            id,
            project: sandbox.project.to_string(),
            sandbox: sandbox.name.to_string(),
            tool: tool.name().to_owned(),
            mode: if wish.rounds.is_some() { AgentMode::Loop } else { AgentMode::Once },
            state: AgentState::Starting,
            pid: None,
            model: wish.model.clone(),
            round: 1,
            started: HostClock.now(),
            ended: None,
            exit: None,
            reason: None,
            cost: None,
            login,
            run: sandbox.room.as_ref().map(|room| room.run.id.clone()),
            rounds: Vec::new(),
        };
        let mut kept = Kept {
            key: sandbox.key,
            record,
            wish,
            stopped: false,
            traces: Vec::new(),
            limited: 0,
            costs: BTreeMap::new(),
        };
        kept.wish.prompt = prompt;
        self.keep(sandbox, &kept)?;
        self.note(sandbox, &kept);
        if let Err(failure) = self.launch(&inside, &mut kept).await {
            self.change(sandbox, |kept| {
                kept.record.state = AgentState::Failed;
                kept.record.ended = Some(HostClock.now());
                kept.record.reason = Some(failure.message.clone());
            });
            return Err(failure);
        }
        self.follow(sandbox.clone());
        Ok(kept.record)
    }

    /// Starts the command of the current round.
    pub(crate) async fn launch(&self, inside: &InRoom, kept: &mut Kept) -> Result<(), Failure> {
        let tool = Tool::of(Some(&kept.record.tool), None);
        let Kept { wish, record, .. } = &*kept;
        let task = prepare::task(inside, &tool, wish, record, &self.with.engine)?;
        let (rows, cols) = (wish.rows.max(24), wish.columns.max(80));
        let id = ExecId(record.exec.clone());
        let started = inside.start_on_terminal(&task, id.clone(), WindowSize { rows, cols }).await;
        started.map_err(|error| crate::in_room::lost(&error))?;
        let execs = inside.room.execs().await.unwrap_or_default();
        kept.record.pid = execs.into_iter().find(|exec| exec.id == id).map(|exec| exec.pid);
        kept.record.state = AgentState::Running;
        let (pid, exec) = (kept.record.pid, kept.record.exec.clone());
        self.change(&inside.sandbox, |kept| {
            kept.record.pid = pid;
            kept.record.exec = exec;
            kept.record.state = AgentState::Running;
        });
        Ok(())
    }

    /// Fails if there already is an agent.
    async fn check_free(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let Some(kept) = self.kept(sandbox).filter(Kept::is_active) else { return Ok(()) };
        let is_followed = self.is_followed(sandbox.key);
        let may_run = match self.look(sandbox, &kept).await {
            Seen::Running => true,
            Seen::Ended => false,
            Seen::Silent => self.with.engine.running(sandbox).is_ok(),
        };
        if !is_followed && !may_run {
            return Ok(());
        }
        let AgentRecord { tool, mode, .. } = &kept.record;
        let what = if *mode == AgentMode::Loop { "a loop" } else { "an agent" };
        let message = format!("`{}` already has {what}: `{tool}`", sandbox.name);
        Err(Failure::new(FailureKind::Conflict, message).hint(format!(
            "end it with `hothouse agent stop {}`, or attach: `hothouse agent attach {}`",
            sandbox.name, sandbox.name
        )))
    }

    fn is_followed(&self, key: SandboxKey) -> bool {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&key)
    }

    /// Asks the room whether it still has the command.
    async fn look(&self, sandbox: &SandboxRecord, kept: &Kept) -> Seen {
        let inside = InRoom::of(&self.with.engine, &self.with.connections, sandbox).await;
        let Ok(inside) = inside else { return Seen::Silent };
        let Ok(execs) = inside.room.execs().await else { return Seen::Silent };
        let runs = execs.iter().any(|exec| exec.id.0 == kept.record.exec && exec.exit.is_none());
        if runs { Seen::Running } else { Seen::Ended }
    }

    /// Lists the agents of sandboxes with their current state.
    pub async fn list(self: &Arc<Self>, sandboxes: Vec<SandboxRecord>) -> Vec<AgentRecord> {
        let mut all = Vec::new();
        for sandbox in sandboxes {
            if let Some(kept) = self.kept(&sandbox) {
                all.push(self.true_state(&sandbox, kept).await);
            }
        }
        all.sort_by_key(|agent| agent.started);
        all
    }

    /// Returns the stored record, updated if the room ended with the agent.
    async fn true_state(self: &Arc<Self>, sandbox: &SandboxRecord, kept: Kept) -> AgentRecord {
        let is_between_rounds =
            kept.record.mode == AgentMode::Loop && self.is_followed(sandbox.key);
        if !kept.is_active() || is_between_rounds {
            return kept.record;
        }
        let seen = self.look(sandbox, &kept).await;
        if seen == Seen::Running {
            return kept.record;
        }
        if self.is_paused(sandbox) {
            let reason = Some("its room is paused: `hothouse resume`".to_owned());
            return AgentRecord { reason, ..kept.record };
        }
        let run = sandbox.room.as_ref().map(|room| &room.run.id);
        if kept.record.run.as_ref() == run && self.with.engine.running(sandbox).is_ok() {
            // A busy room that does not answer in time has not ended, and neither has its agent. How a command ended
            // is recorded by its follower alone; without a room there is none to wait for.
            self.follow_active(sandbox);
            return self.kept(sandbox).unwrap_or(kept).record;
        }
        let changed = self.change(sandbox, |kept| {
            if kept.is_active() {
                follow::room_gone(kept);
            }
        });
        changed.map_or(kept.record, |kept| kept.record)
    }

    /// Follows an active agent, unless one is just being started: until its command runs, its room has none.
    fn follow_active(self: &Arc<Self>, sandbox: &SandboxRecord) {
        let turn = self.turn(sandbox.key);
        let Ok(_turn) = turn.try_lock() else { return };
        if self.kept(sandbox).is_some_and(|kept| kept.is_active()) {
            self.follow(sandbox.clone());
        }
    }

    /// Returns what is known of a sandbox's agent without querying its room.
    pub fn brief(&self, sandbox: &SandboxRecord) -> Option<AgentRecord> {
        let mut kept = self.kept(sandbox)?;
        let is_up = sandbox
            .room
            .as_ref()
            .is_some_and(|room| room.wish != hothouse_model::room::RoomWish::Stopped);
        if kept.is_active() && !is_up {
            follow::room_gone(&mut kept);
        }
        Some(kept.record)
    }

    /// Stops an agent, and returns its final state.
    pub async fn stop(&self, sandbox: &SandboxRecord) -> Result<AgentRecord, Failure> {
        let kept = self.known(sandbox)?;
        if !kept.is_active() {
            return Ok(kept.record);
        }
        if self.is_paused(sandbox) {
            let message = format!("`{}` is paused, and its agent with it", sandbox.name);
            let hint = format!("run `hothouse resume -w {}` first", sandbox.name);
            return Err(Failure::new(FailureKind::Conflict, message).hint(hint));
        }
        self.change(sandbox, |kept| kept.stopped = true);
        let inside = InRoom::of(&self.with.engine, &self.with.connections, sandbox).await;
        if let Ok(inside) = inside {
            for signal in [TERMINATE, KILL] {
                let now = self.kept(sandbox).unwrap_or_else(|| kept.clone());
                let id = ExecId(now.record.exec.clone());
                inside.room.signal(id.clone(), signal).await.ok();
                if tokio::time::timeout(GRACE, inside.room.wait(id)).await.is_ok() {
                    break;
                }
            }
        }
        // The follower records the end; without one it is done here.
        let ended = async {
            while self.kept(sandbox).is_some_and(|kept| kept.is_active())
                && self.is_followed(sandbox.key)
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(GRACE, ended).await.ok();
        let now = self.change(sandbox, |kept| {
            if kept.is_active() {
                kept.record.state = AgentState::Stopped;
                kept.record.pid = None;
                kept.record.ended = Some(HostClock.now());
            }
        });
        Ok(now.unwrap_or(kept).record)
    }

    /// Starts the last agent again, continuing its conversation.
    pub async fn resume(self: &Arc<Self>, sandbox: &SandboxRecord) -> Result<AgentRecord, Failure> {
        let kept = self.known(sandbox)?;
        let mut wish = AgentWish {
            resumed: true,
            task: None,
            tool: Some(kept.record.tool.clone()),
            ..kept.wish
        };
        if let (Some(spec), "loop") = (&mut wish.rounds, kept.record.mode.as_str()) {
            spec.rounds = spec
                .rounds
                .saturating_sub(kept.record.rounds.len().try_into().unwrap_or(u32::MAX))
                .max(1);
        }
        self.start(sandbox, wish).await
    }

    pub(crate) fn known(&self, sandbox: &SandboxRecord) -> Result<Kept, Failure> {
        self.kept(sandbox).ok_or_else(|| {
            Failure::new(FailureKind::NotFound, format!("`{}` has had no agent", sandbox.name))
                .hint(format!("start one with `hothouse agent start {}`", sandbox.name))
        })
    }

    /// Follows the agents that an earlier daemon started.
    pub async fn watch(self: Arc<Self>, mut stop: Stop) {
        if let Err(failure) = self.forget_gone() {
            tracing::warn!(?failure, "records of agents whose sandboxes are gone were not removed");
        }
        let mut wait = Duration::ZERO;
        while stop.pause(wait).await {
            wait = Duration::from_secs(5);
            let sandboxes = self.with.engine.sandboxes().unwrap_or_default();
            sandboxes.iter().for_each(|sandbox| self.follow_active(sandbox));
        }
        self.following.end().await;
    }

    /// Returns an agent's record, the raw output of its terminal, and the file with it.
    pub async fn log(
        &self,
        sandbox: &SandboxRecord,
    ) -> Result<(AgentRecord, Vec<u8>, Option<PathBuf>), Failure> {
        let kept = self.known(sandbox)?;
        let file = self.log_file(sandbox, &kept);
        let text =
            file.as_ref().and_then(|file| files::read_capped(file, output::LOG_LIMIT * 2).ok());
        Ok((kept.record, text.unwrap_or_default(), file))
    }

    /// Returns the file of an agent's output, among the artifacts of its run.
    pub(crate) fn log_file(&self, sandbox: &SandboxRecord, kept: &Kept) -> Option<PathBuf> {
        let run = kept.record.run.as_ref()?;
        let own = sandbox
            .room
            .as_ref()
            .filter(|room| room.run.id == *run)
            .map(|room| room.run.artifacts.clone());
        let folder =
            own.or_else(|| self.with.engine.run_by_id(run).ok().map(|run| run.artifacts))?;
        Some(folder.join("agents").join(format!("{}.log", kept.record.id)))
    }

    /// Returns the command that the project's config names.
    fn configured(&self, sandbox: &SandboxRecord) -> Option<String> {
        let config = self.with.engine.scenario_config(sandbox).ok()?;
        config.agent.command.map(|command| command.to_string())
    }

    /// Returns the tool's login that the wall provides. A login without a value is an error: the
    /// tool could do nothing.
    async fn login(&self, sandbox: &SandboxRecord, tool: &Tool) -> Result<Option<String>, Failure> {
        let Some(variables) = tool.login_variable() else { return Ok(None) };
        let Ok(runtime) = self.with.engine.running(sandbox) else { return Ok(None) };
        let wall = self.with.engine.wall_of(&runtime);
        let is_curated = |name: &&&str| {
            wall.environment.contains_key(**name) && !wall.placeholders.contains_key(**name)
        };
        if variables.iter().any(|name| is_curated(&name)) {
            return Ok(Some("wall".to_owned()));
        }
        let names: Vec<String> = variables
            .iter()
            .filter(|name| wall.placeholders.contains_key(**name))
            .map(|name| (*name).to_owned())
            .collect();
        if names.is_empty() {
            return Ok(None);
        }
        let (engine, of) = (self.with.engine.clone(), sandbox.clone());
        let has_value = move || names.iter().any(|name| engine.has_secret(&of, name));
        match tokio::task::spawn_blocking(has_value).await.unwrap_or(true) {
            true => Ok(Some("wall".to_owned())),
            false => {
                let message =
                    format!("the login of {} that rooms use has no value now", tool.name());
                Err(Failure::new(FailureKind::Conflict, message).hint(format!(
                    "`hothouse agent login {}` says why, such as that it expired",
                    tool.name()
                )))
            }
        }
    }
}
