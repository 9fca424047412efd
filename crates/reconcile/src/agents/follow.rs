//! Follows one agent from its start to its end: output, waiting, exit.

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use hothouse_backend::{
    CallError,
    connection::{Attached, ExecId, Exit},
};
use hothouse_engine::Notice;
use hothouse_host::{Clock, clock::HostClock, files};
use hothouse_model::{SandboxRecord, agent::AgentState, ask::AskState};
use tokio::{io::AsyncReadExt, net::unix::pipe, time::MissedTickBehavior};

use super::{
    Agents, Kept,
    output::{self, Listener, Told},
    rounds,
};
use crate::in_room::InRoom;

/// How long a terminal must be quiet after a bell for its agent to count as waiting.
const QUIET: Duration = Duration::from_secs(2);

/// The maximum pause within the replay of a terminal.
const REPLAY: Duration = Duration::from_millis(150);

/// The delay before a room that did not answer is queried again.
const RETRY: Duration = Duration::from_millis(500);

/// How a command ended.
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) told: Told,
    /// Why there is no exit status.
    pub(super) gone: Option<String>,
    /// Whether the time limit was reached.
    pub(super) late: bool,
}

impl Agents {
    /// Starts the task that follows a sandbox's agent.
    pub(super) fn follow(self: &Arc<Self>, sandbox: SandboxRecord) {
        let Some(kept) = self.kept(&sandbox) else { return };
        {
            let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
            if followed.contains_key(&sandbox.key) {
                return;
            }
            followed.insert(sandbox.key, kept.record.id.clone());
        }
        let all = self.clone();
        self.following.start(async move {
            // The sandbox counts as in use while its agent is working.
            let _held = all.with.activities.of(sandbox.key).enter();
            tokio::select! {
                () = all.to_the_end(&sandbox) => {}
                () = all.watch_programs(&sandbox) => {}
            }
            all.followed.lock().unwrap_or_else(PoisonError::into_inner).remove(&sandbox.key);
        });
    }

    /// Follows every round.
    async fn to_the_end(self: &Arc<Self>, sandbox: &SandboxRecord) {
        loop {
            let Some(kept) = self.kept(sandbox) else { return };
            let round = kept.record.round;
            let ended = self.in_time(sandbox, &kept).await;
            let (engine, of) = (self.with.engine.clone(), sandbox.clone());
            tokio::task::spawn_blocking(move || engine.import_if_possible(&of)).await.ok();
            let Some(kept) = self.kept(sandbox) else { return };
            let next = match (&kept.wish.rounds, &ended.gone, kept.stopped) {
                (Some(spec), None, false) => {
                    rounds::after(self, sandbox, &kept, spec, &ended).await
                }
                _ => rounds::Next::End(None),
            };
            match next {
                rounds::Next::End(reason) => {
                    return self.finish(sandbox, round, &ended, reason).await;
                }
                rounds::Next::Round { wait, trace } => {
                    self.pause(sandbox, wait).await;
                    if let Err(reason) = self.next_round(sandbox, &trace).await {
                        return self.finish(sandbox, round, &ended, Some(reason)).await;
                    }
                }
            }
        }
    }

    /// Follows a command, which is stopped at its time limit.
    async fn in_time(&self, sandbox: &SandboxRecord, kept: &Kept) -> Ended {
        let seconds = kept.wish.seconds.or(kept.wish.rounds.as_ref().and_then(|spec| spec.seconds));
        let Some(seconds) = seconds else { return self.one(sandbox, kept).await };
        let used = HostClock.now().duration_since(kept.record.started);
        let used = u64::try_from(used.as_secs()).unwrap_or_default();
        let left = Duration::from_secs(seconds.saturating_sub(used));
        let follow = self.one(sandbox, kept);
        tokio::pin!(follow);
        tokio::select! {
            ended = &mut follow => return ended,
            () = tokio::time::sleep(left) => {}
        }
        let inside = InRoom::of(&self.with.engine, &self.with.connections, sandbox).await;
        if let Ok(inside) = inside {
            for signal in [super::TERMINATE, super::KILL] {
                inside.room.signal(ExecId(kept.record.exec.clone()), signal).await.ok();
                if let Ok(ended) = tokio::time::timeout(super::GRACE, &mut follow).await {
                    return Ended { late: true, ..ended };
                }
            }
        }
        let ended = gone(Told::default(), "it did not end when its time was up".to_owned());
        Ended { late: true, ..ended }
    }

    /// Waits before the next round, unless the agent is stopped.
    async fn pause(&self, sandbox: &SandboxRecord, wait: Duration) {
        let until = Instant::now() + wait;
        while Instant::now() < until && self.kept(sandbox).is_some_and(|kept| !kept.stopped) {
            tokio::time::sleep(RETRY.min(wait)).await;
        }
    }

    async fn next_round(
        &self,
        sandbox: &SandboxRecord,
        trace: &(String, String),
    ) -> Result<(), String> {
        let said = |failure: hothouse_model::Failure| failure.message;
        let now =
            self.with.engine.sandbox(sandbox.key).ok().flatten().unwrap_or_else(|| sandbox.clone());
        let changed = self.change(&now, |kept| {
            kept.record.round += 1;
            kept.record.exec = format!(
                "agent-{}-{}",
                kept.record.id.trim_start_matches("agent_"),
                kept.record.round
            );
            kept.traces.push(trace.clone());
            let most = kept.traces.len().saturating_sub(rounds::ALIKE);
            kept.traces.drain(..most);
        });
        let Some(mut kept) = changed.filter(|kept| !kept.stopped) else {
            return Err("stopped".to_owned());
        };
        let inside =
            InRoom::of(&self.with.engine, &self.with.connections, &now).await.map_err(said)?;
        self.launch(&inside, &mut kept).await.map_err(said)
    }

    /// Follows the command of one round.
    async fn one(&self, sandbox: &SandboxRecord, kept: &Kept) -> Ended {
        let exec = ExecId(kept.record.exec.clone());
        let file = self.log_file(sandbox, kept);
        let mut listener = Listener::default();
        loop {
            let inside = match InRoom::of(&self.with.engine, &self.with.connections, sandbox).await
            {
                Ok(inside) => inside,
                // A room that is busy or paused has not ended, and neither has its agent.
                Err(_) if self.is_paused(sandbox) || self.with.engine.running(sandbox).is_ok() => {
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
                Err(failure) => return gone(listener.told, failure.message),
            };
            match inside.room.attach(exec.clone()).await {
                Ok(attached) => {
                    let exit =
                        self.listen(&inside, &exec, attached, file.as_ref(), &mut listener).await;
                    match exit {
                        Ok(exit) => return ended(exit, listener.told),
                        Err(CallError::Refused(refusal)) => {
                            return gone(listener.told, refusal.message);
                        }
                        Err(CallError::Lost(_)) => tokio::time::sleep(RETRY).await,
                    }
                }
                Err(CallError::Refused(refusal)) => return gone(listener.told, refusal.message),
                Err(CallError::Lost(_)) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    pub(super) fn is_paused(&self, sandbox: &SandboxRecord) -> bool {
        let engine = &self.with.engine;
        let now = engine.sandbox(sandbox.key).ok().flatten();
        now.is_some_and(|now| {
            let state = now.state(engine.room_of(&now).as_ref());
            matches!(
                state,
                hothouse_model::SandboxState::Paused | hothouse_model::SandboxState::Starting
            )
        })
    }

    /// Reads the terminal until the command has ended.
    async fn listen(
        &self,
        inside: &InRoom,
        exec: &ExecId,
        attached: Attached,
        file: Option<&PathBuf>,
        listener: &mut Listener,
    ) -> Result<Exit, CallError> {
        let Attached::Terminal { output, input } = attached else {
            return inside.room.wait(exec.clone()).await;
        };
        drop(input);
        let Ok(mut output) = pipe::Receiver::from_owned_fd(output) else {
            return inside.room.wait(exec.clone()).await;
        };
        let mut buffer = vec![0; 64 << 10];
        let wait = inside.room.wait(exec.clone());
        tokio::pin!(wait);
        self.replay(&mut output, &mut buffer, file, listener).await;
        let (mut exit, mut open, mut heard) = (None, true, Instant::now());
        // By time, not by silence: a tool that animates a spinner while it waits is never silent.
        let mut look = tokio::time::interval(QUIET);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while exit.is_none() {
            tokio::select! {
                biased;
                _ = look.tick() => self.note_waiting(inside, listener, heard.elapsed()),
                count = output.read(&mut buffer), if open => match count {
                    Ok(count @ 1..) => {
                        heard = Instant::now();
                        take(&buffer[..count], file, listener);
                    }
                    _ => open = false,
                },
                ended = &mut wait => exit = Some(ended?),
            }
        }
        // Its last output is already in the pipe.
        while open {
            match tokio::time::timeout(REPLAY, output.read(&mut buffer)).await {
                Ok(Ok(count @ 1..)) => take(&buffer[..count], file, listener),
                _ => open = false,
            }
        }
        listener.hear(b"\n");
        exit.ok_or_else(|| CallError::Lost("the room does not answer".into()))
    }

    /// Reads the replay of the terminal; the log of an earlier daemon may already contain it.
    async fn replay(
        &self,
        output: &mut pipe::Receiver,
        buffer: &mut [u8],
        file: Option<&PathBuf>,
        listener: &mut Listener,
    ) {
        let (mut all, begun) = (Vec::new(), Instant::now());
        // The backlog arrives at once; a tool that draws continuously would never be silent.
        while all.len() < 2 << 20 && begun.elapsed() < QUIET {
            match tokio::time::timeout(REPLAY, output.read(buffer)).await {
                Ok(Ok(count @ 1..)) => all.extend_from_slice(&buffer[..count]),
                _ => break,
            }
        }
        let known = file
            .and_then(|file| files::read_capped(file, output::LOG_LIMIT * 2).ok())
            .unwrap_or_default();
        listener.hear(&all);
        if let Some(file) = file {
            output::append(file, output::unseen(&known, &all));
        }
    }

    /// Records whether an agent waits for a human, and its cost so far.
    fn note_waiting(&self, inside: &InRoom, listener: &Listener, quiet: Duration) {
        let asks = self.with.engine.asks(Some(inside.sandbox.key)).unwrap_or_default();
        let asks = asks.iter().any(|ask| ask.state == AskState::Open);
        self.set_waiting(&inside.sandbox, waits_for(asks, listener.told.rang, quiet));
        if let (Some(cost), Some(kept)) = (listener.told.cost, self.kept(&inside.sandbox))
            && kept.costs.get(&kept.record.round).is_none_or(|known| *known < cost)
        {
            self.change(&inside.sandbox, |kept| kept.count_cost(kept.record.round, Some(cost)));
        }
    }

    fn set_waiting(&self, sandbox: &SandboxRecord, reason: Option<&str>) {
        let Some(kept) = self.kept(sandbox).filter(Kept::is_active) else { return };
        let waits = kept.record.state == AgentState::Waiting;
        if waits == reason.is_some() {
            return;
        }
        self.change(sandbox, |kept| {
            kept.record.state =
                if reason.is_some() { AgentState::Waiting } else { AgentState::Running };
            kept.record.reason = reason.map(str::to_owned);
        });
        if let Some(reason) = reason {
            let (name, tool) = (sandbox.name.to_string(), kept.record.tool);
            tracing::info!(sandbox = name, tool, reason, "an agent waits for its user");
            let text = format!("{tool} waits: {reason}");
            self.with.engine.tell_user(&Notice { sandbox: name, text, id: tool });
        }
    }

    /// Records how the agent ended, with its audit.
    async fn finish(
        self: &Arc<Self>,
        sandbox: &SandboxRecord,
        round: u32,
        ended: &Ended,
        reason: Option<String>,
    ) {
        let (code, told, gone, late) =
            (ended.code, ended.told.clone(), ended.gone.clone(), ended.late);
        let changed = self.change(sandbox, |kept| {
            let is_done =
                kept.wish.rounds.is_some() && reason.as_deref().is_some_and(rounds::is_success);
            let state = match (&gone, code) {
                _ if kept.stopped => AgentState::Stopped,
                (Some(_), _) => AgentState::Failed,
                _ if late => AgentState::Failed,
                _ if is_done => AgentState::Exited,
                _ if kept.wish.rounds.is_some() => AgentState::Failed,
                (None, 0) => AgentState::Exited,
                _ => AgentState::Failed,
            };
            kept.record.state = state;
            kept.record.pid = None;
            kept.record.ended = Some(HostClock.now());
            kept.record.exit = gone.is_none().then_some(code);
            kept.count_cost(round, told.cost);
            kept.record.model = told.model.clone().or_else(|| kept.record.model.clone());
            let failed = (state == AgentState::Failed).then(|| match (&gone, code) {
                _ if late => "its time was up".to_owned(),
                (Some(gone), _) => gone.clone(),
                (None, 126 | 127) => format!("exit {code}: the command could not be run"),
                (None, code) => format!("exit {code}"),
            });
            kept.record.reason = reason.or(failed);
        });
        if let (Some(run), Some(kept)) =
            (sandbox.room.as_ref().map(|room| room.run.clone()), changed)
            && kept.record.run.as_ref() == Some(&run.id)
        {
            if let Ok(inside) = InRoom::of(&self.with.engine, &self.with.connections, sandbox).await
            {
                let (id, since) = (&kept.record.id, kept.record.started);
                super::transcript::collect(&inside, &run.artifacts, id, since).await;
            }
            let (engine, timelines, of) =
                (self.with.engine.clone(), self.with.timelines.clone(), sandbox.clone());
            tokio::task::spawn_blocking(move || {
                super::audit::write(&engine, &timelines, &of).err()
            })
            .await
            .ok();
        }
    }
}

fn take(bytes: &[u8], file: Option<&PathBuf>, listener: &mut Listener) {
    listener.hear(bytes);
    if let Some(file) = file {
        output::append(file, bytes);
    }
}

/// Decides whether an agent waits for a human, and for what. Pure.
fn waits_for(asks: bool, rang: bool, quiet: Duration) -> Option<&'static str> {
    match (asks, rang) {
        (true, _) => Some("it asks for something: `hothouse asks`"),
        (false, true) if quiet >= QUIET => Some("it rang the bell and is quiet since"),
        _ => None,
    }
}

/// Marks an agent whose room has ended.
pub(super) fn room_gone(kept: &mut Kept) {
    kept.record.state = if kept.stopped { AgentState::Stopped } else { AgentState::Failed };
    kept.record.pid = None;
    kept.record.ended = Some(HostClock.now());
    kept.record.reason = Some("its room ended".to_owned());
}

fn ended(exit: Exit, told: Told) -> Ended {
    match exit {
        Exit::Code(code) => Ended { code, told, gone: None, late: false },
        Exit::Signal(number) => Ended { code: 128 + number, told, gone: None, late: false },
        Exit::NotStarted { message, .. } => gone(told, message),
    }
}

fn gone(told: Told, why: String) -> Ended {
    Ended { code: -1, told, gone: Some(why), late: false }
}
