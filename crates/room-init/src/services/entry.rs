//! One service: its processes, streams and last probe results.

use super::keeper::{self, Kept};
use super::output::{LineWatch, Log, Source as Pipe};
use super::probe::{self, Asking, Step};
use super::{BadService, Source, notify, tree};
use crate::boot::Adopted;
use crate::spawn::{self, Program, Streams};
use crate::{exec, sys, terminal};
use hothouse_room_wire::{RoomUser, WindowSize};
use hothouse_service::{AS_ROOT, Exit, Found, ProbeAnswer, ProbeSpec, Question, ServiceSpec};
use hothouse_supervise::{Kind, Phase, ProbeRules, Rules};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use std::collections::VecDeque;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// How many results of a probe are kept.
const ANSWERS: usize = 3;

/// The pipe size, large enough for bursts so that a service need not wait for us.
const PIPE_BYTES: usize = 256 << 10;

const WINDOW: WindowSize = WindowSize { rows: 24, cols: 120 };

/// What is known about a service in addition to its state.
pub(super) struct Entry {
    pub(super) spec: ServiceSpec,
    pub(super) log: Log,
    /// Whether it was removed, and is kept only until its processes have exited.
    pub(super) hidden: bool,
    pub(super) kept: Option<Kept>,
    pub(super) source: Option<Pipe>,
    pub(super) asking: Option<(u64, Asking)>,
    pub(super) line_watch: Option<LineWatch>,
    pub(super) exit: Option<Exit>,
    pub(super) answers: VecDeque<ProbeAnswer>,
    pub(super) wanted: Option<u64>,
    /// The log line at which the first process of the last requested start begins.
    pub(super) first_line: Option<u64>,
    /// Whether it is up without a process: something outside the room serves its port.
    is_served: bool,
    main_lives: bool,
    pattern: Option<regex_lite::Regex>,
    notify: Option<OwnedFd>,
}

impl Entry {
    pub(super) fn new(spec: ServiceSpec, log: Log) -> Result<Self, BadService> {
        let pattern = pattern(&spec)?;
        Ok(Self {
            spec,
            log,
            hidden: false,
            kept: None,
            source: None,
            asking: None,
            line_watch: None,
            exit: None,
            answers: VecDeque::new(),
            wanted: None,
            first_line: None,
            is_served: false,
            main_lives: false,
            pattern,
            notify: None,
        })
    }

    /// Takes a new declaration, effective at the next start.
    pub(super) fn change(&mut self, spec: ServiceSpec) -> Result<(), BadService> {
        self.pattern = pattern(&spec)?;
        self.notify = None;
        self.spec = spec;
        Ok(())
    }

    /// Records that a start was requested: earlier output belongs to a previous start.
    pub(super) fn note_wanted(&mut self, now: u64) {
        self.wanted = Some(now);
        self.first_line = Some(self.log.next_line());
    }

    /// Ends an incomplete last line, and records the line at which the next process begins, unless
    /// that process is a restart or the second phase of a start.
    pub(super) fn begin_output(&mut self, phase: Phase, is_first: bool) {
        self.log.end_line();
        if is_first && (phase == Phase::Build || self.spec.build.is_none()) {
            self.first_line = Some(self.log.next_line());
        }
    }

    /// Starts the first process of a phase. On failure returns false and writes the reason to the log.
    pub(super) fn spawn(&mut self, phase: Phase, boot: &Adopted) -> bool {
        self.exit = None;
        self.answers.clear();
        match self.try_spawn(phase, boot) {
            Ok(()) => true,
            Err(error) => {
                let message = format!("cannot start: {error}");
                self.log.append(format!("[hothouse] {message}\n").as_bytes());
                self.exit = Some(Exit::NotStarted { code: 126, message });
                false
            }
        }
    }

    fn try_spawn(&mut self, phase: Phase, boot: &Adopted) -> io::Result<()> {
        if self.spec.run.is_empty() {
            self.is_served = true;
            return Ok(());
        }
        let (argv, env) = (self.words(phase), self.environment()?);
        let user = self.user(phase);
        if user == RoomUser::Root && !boot.has_root {
            let why = "an image needs the room's root, and this room has a single uid: add ranges for your user to /etc/subuid and /etc/subgid";
            return Err(io::Error::other(why));
        }
        let program = Program::new(argv, env, self.folder(), user)
            .ok_or_else(|| io::Error::other("the command is empty or contains NUL bytes"))?;
        let (streams, pipe) = streams(self.spec.pty, boot.has_root)?;
        let kept = keeper::spawn(boot, &program, streams)?;
        self.main_lives = true;
        self.kept = Some(kept);
        self.source = Some(Pipe { pipe });
        self.line_watch = match phase {
            Phase::Run => self.pattern.as_ref().map(LineWatch::new),
            Phase::Build => None,
        };
        Ok(())
    }

    fn words(&self, phase: Phase) -> Vec<Vec<u8>> {
        match (phase, &self.spec.build) {
            (Phase::Build, Some(build)) => bytes(build),
            _ => {
                let is_marked = self.user(phase) == RoomUser::Root;
                bytes(&self.spec.run[usize::from(is_marked)..])
            }
        }
    }

    /// Returns the user to run as: `agent`, or the room's root for commands that the daemon marks.
    fn user(&self, phase: Phase) -> RoomUser {
        let is_marked = self.spec.run.first().is_some_and(|word| word == AS_ROOT);
        match phase {
            Phase::Run if is_marked => RoomUser::Root,
            Phase::Run | Phase::Build => RoomUser::Agent,
        }
    }

    fn folder(&self) -> Vec<u8> {
        self.spec.folder.as_os_str().as_bytes().to_vec()
    }

    fn variables(&self) -> Vec<Vec<u8>> {
        let pair = |(name, value): (&String, &String)| format!("{name}={value}").into_bytes();
        self.spec.env.iter().map(pair).collect()
    }

    fn environment(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let mut env = self.variables();
        if matches!(&self.spec.probe, Some(ProbeSpec { question: Question::Notify, .. })) {
            let (socket, name) = notify::open(&self.spec.name)?;
            self.notify = Some(socket);
            env.push(format!("NOTIFY_SOCKET=@{name}").into_bytes());
        }
        Ok(env)
    }

    /// Ends a service that is up without a process; returns true if this was one.
    pub(super) fn stop_serving(&mut self) -> bool {
        std::mem::replace(&mut self.is_served, false)
    }

    /// Starts its probe.
    pub(super) fn ask(&self, boot: &Adopted) -> Step {
        if let Some(Question::Tcp { port }) = self.spec.probe.as_ref().map(|probe| &probe.question)
            && self.is_served
        {
            return probe::ask_served(*port);
        }
        let keeper = self.kept.as_ref().map(|kept| kept.keeper);
        match self.spec.probe.as_ref().map(|probe| &probe.question) {
            Some(Question::Http { port, path }) => {
                let request = probe::request(path, &format!("localhost:{port}"));
                probe::ask_port(*port, Some(request), keeper)
            }
            Some(Question::HttpAs { port, path, host }) => {
                probe::ask_port(*port, Some(probe::request(path, host)), keeper)
            }
            Some(Question::Tcp { port }) => probe::ask_port(*port, None, keeper),
            Some(Question::Exec { words }) => {
                let (env, folder) = (self.variables(), self.folder());
                match Program::new(bytes(words), env, folder, RoomUser::Agent) {
                    Some(program) => probe::ask_command(boot, &program),
                    None => unasked("the probe's command is empty"),
                }
            }
            Some(Question::Log { .. } | Question::Notify) | None => unasked("no probe"),
        }
    }

    pub(super) fn is_asked_by(&self, pid: i32) -> bool {
        matches!(&self.asking, Some((_, Asking::Running { pid: own, .. })) if *own == pid)
    }

    /// Reads notifications; returns whether one of its own processes reported that it is ready.
    pub(super) fn hears_ready(&self) -> bool {
        let Some(socket) = &self.notify else { return false };
        let own = self.kept.as_ref().map(|kept| tree::below(kept.keeper)).unwrap_or_default();
        notify::hears_ready(socket, &own)
    }

    /// Records a result; returns true if it differs from the last one.
    pub(super) fn remember(&mut self, answer: ProbeAnswer) -> bool {
        if self.answers.back() == Some(&answer) {
            return false;
        }
        if self.answers.len() == ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back(answer);
        true
    }

    /// Records the exit of its first process; returns whether it succeeded.
    pub(super) fn main_ended(&mut self) -> Option<bool> {
        let kept = self.kept.as_ref().filter(|_| self.main_lives)?;
        let status = kept.ended()?;
        self.main_lives = false;
        let failure = rustix::io::fcntl_dupfd_cloexec(&kept.failure, 3).ok();
        let exit = failure.and_then(spawn::failure_of).unwrap_or_else(|| exec::exit_of(status));
        if let Exit::NotStarted { message, .. } = &exit {
            self.log.append(format!("[hothouse] {message}\n").as_bytes());
        }
        let success = exit == Exit::Code(0);
        self.exit = Some(exit);
        Some(success)
    }

    /// Returns its first process or, if that has exited, the oldest that is left.
    pub(super) fn pid(&self) -> Option<i32> {
        let kept = self.kept.as_ref()?;
        match self.main_lives {
            true => Some(kept.main),
            false => tree::below(kept.keeper).first().copied(),
        }
    }

    /// Kills what a killed keeper left behind; returns true if there was something.
    pub(super) fn abandon(&mut self) -> bool {
        if !self.main_lives {
            return false;
        }
        if let Some(Kept { main, .. }) = self.kept {
            tree::kill_below(main);
            // Only the session of the first process still identifies its children.
            let _ = sys::kill(-main, libc::SIGKILL);
            let _ = sys::kill(main, libc::SIGKILL);
        }
        self.main_lives = false;
        self.exit = Some(Exit::Signal(libc::SIGKILL));
        true
    }

    /// Records that none of its processes is left.
    pub(super) fn gone(&mut self) {
        self.kept = None;
        self.source = None;
        self.line_watch = None;
        self.notify = None;
    }

    /// Sends its stop signal to the group of its first process or, if that is gone, to the
    /// remaining processes.
    pub(super) fn signal(&self, signal: i32) {
        let Some(kept) = &self.kept else { return };
        let grouped = self.main_lives && sys::kill(-kept.main, signal).is_ok();
        if !grouped {
            for pid in tree::below(kept.keeper) {
                // It may have exited in the meantime.
                let _ = sys::kill(pid, signal);
            }
        }
    }

    pub(super) fn kill(&self) {
        if let Some(kept) = &self.kept {
            tree::kill_below(kept.keeper);
        }
    }

    pub(super) fn interest<'a>(
        &'a self,
        mut add: impl FnMut(BorrowedFd<'a>, PollFlags, fn(usize) -> Source),
    ) {
        if let Some(kept) = self.kept.as_ref().filter(|_| self.main_lives) {
            add(kept.report.as_fd(), PollFlags::IN, Source::Report);
        }
        if let Some(source) = &self.source {
            add(source.pipe.as_fd(), PollFlags::IN, Source::Output);
        }
        if let Some((fd, flags)) = self.asking.as_ref().and_then(|(_, asking)| asking.interest()) {
            add(fd, flags, Source::Probe);
        }
        if let Some(socket) = &self.notify {
            add(socket.as_fd(), PollFlags::IN, Source::Notify);
        }
    }
}

fn unasked(text: &str) -> Step {
    Step::Answered(ProbeAnswer::bad(Found::Problem(text.into())))
}

fn bytes(words: &[String]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.clone().into_bytes()).collect()
}

/// Opens the streams of a service: no input, and one pipe or terminal for both outputs, so that its
/// lines keep their order.
fn streams(pty: bool, has_root: bool) -> io::Result<(Streams, OwnedFd)> {
    if pty {
        let (terminal, slave) = terminal::open(WINDOW, has_root.then_some(spawn::AGENT))?;
        return Ok((Streams::Terminal(slave), terminal.output()?));
    }
    let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    // Best effort: the user may have reached the limit for pipe memory.
    let _ = rustix::pipe::fcntl_setpipe_size(&ours, PIPE_BYTES);
    let input = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let second = rustix::io::fcntl_dupfd_cloexec(&theirs, 3)?;
    Ok((Streams::Three(input, theirs, second), ours))
}

fn pattern(spec: &ServiceSpec) -> Result<Option<regex_lite::Regex>, BadService> {
    let Some(ProbeSpec { question: Question::Log { pattern }, .. }) = &spec.probe else {
        return Ok(None);
    };
    match regex_lite::RegexBuilder::new(pattern).size_limit(1 << 20).build() {
        Ok(pattern) => Ok(Some(pattern)),
        Err(error) => {
            Err(BadService(format!("the log pattern of `{}` cannot be used: {error}", spec.name)))
        }
    }
}

/// Returns the settings of a service for the machine.
pub(super) fn rules(spec: &ServiceSpec) -> Rules {
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Rules {
        name: spec.name.clone(),
        kind: if spec.task { Kind::Task } else { Kind::Service },
        needs: spec.needs.clone(),
        builds: spec.build.is_some(),
        policy: spec.restart.policy,
        restarts: spec.restart.max,
        stop_signal: spec.stop_signal,
        grace: milliseconds(spec.stop_grace),
        probe: spec.probe.as_ref().map(|probe| ProbeRules {
            passive: matches!(probe.question, Question::Log { .. } | Question::Notify),
            light: matches!(probe.question, Question::Tcp { .. }),
            interval: milliseconds(probe.interval).max(1),
            timeout: milliseconds(probe.timeout).max(1),
            retries: probe.retries,
        }),
    }
}
