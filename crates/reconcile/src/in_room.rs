//! Commands that Hothouse itself runs in a room, with their output, which is not trusted.

use std::{os::fd::OwnedFd, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use hothouse_backend::{
    CallError, RoomConnection,
    connection::{ExecId, ExecSpec, ExecStreams, Exit, RoomUser, Stdio, WindowSize},
};
use hothouse_engine::{COVERAGE_VARIABLES, Engine, environment};
use hothouse_host::random;
use hothouse_model::{
    Failure, FailureKind, SandboxRecord,
    id::hex,
    room::RoomWall,
    stack::{ServiceOrder, StackOrder},
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, unix::pipe},
    sync::watch,
};

use crate::Connections;

/// How much of the end of an output is kept in addition to its beginning.
const TAIL: usize = 64 << 10;

/// How long a command may take to exit after it was asked to.
const END: Duration = Duration::from_secs(5);

/// How long to wait for the last bytes of a command that has ended.
const LAST: Duration = Duration::from_millis(200);

/// How much a command may print before its output is closed.
const MOST: u64 = 4 << 30;

const KILL: i32 = 9;

/// Access to a running room, for running commands in it.
pub struct InRoom {
    pub sandbox: SandboxRecord,
    pub stack: StackOrder,
    pub room: Arc<dyn RoomConnection>,
    tools: Vec<PathBuf>,
    wall: RoomWall,
}

/// A command with its context and limits.
#[derive(Clone, Debug)]
pub struct RoomTask {
    /// The prefix of its id among the room's commands.
    pub label: &'static str,
    pub argv: Vec<String>,
    /// Relative to the worktree; by default that of the service, or the worktree itself.
    pub folder: Option<PathBuf>,
    /// The service whose environment it gets.
    pub service: Option<String>,
    pub env: Vec<(String, String)>,
    pub stdin: Vec<u8>,
    pub timeout: Duration,
    /// How much of the beginning of its standard output is kept.
    pub keep: usize,
}

impl RoomTask {
    /// Creates a task that runs a shell script.
    pub fn shell(script: impl Into<String>) -> Self {
        Self {
            label: "task",
            argv: vec!["/bin/sh".into(), "-c".into(), script.into()],
            folder: None,
            service: None,
            env: Vec::new(),
            stdin: Vec::new(),
            timeout: Duration::from_secs(60),
            keep: 1 << 20,
        }
    }

    /// Adds arguments, which a script gets as `$1` and so on.
    pub fn with_arguments<T: Into<String>>(
        mut self,
        arguments: impl IntoIterator<Item = T>,
    ) -> Self {
        self.argv.push("hothouse".into());
        self.argv.extend(arguments.into_iter().map(Into::into));
        self
    }

    pub fn of_service(mut self, service: &str) -> Self {
        self.service = Some(service.to_owned());
        self
    }
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    Exit(i32),
    Signal(i32),
    NotStarted(String),
    TimedOut(Duration),
}

impl std::fmt::Display for TaskEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit {code}"),
            Self::Signal(number) => write!(f, "signal {number}"),
            Self::NotStarted(why) => write!(f, "not started: {why}"),
            Self::TimedOut(after) => {
                write!(f, "no end within {}", hothouse_model::config::format_duration(*after))
            }
        }
    }
}

/// The output of a command, and how it ended.
#[derive(Clone, Debug)]
pub struct TaskOutput {
    pub end: TaskEnd,
    pub stdout: Printed,
    pub stderr: Printed,
}

impl TaskOutput {
    pub fn is_ok(&self) -> bool {
        self.end == TaskEnd::Exit(0)
    }

    /// Returns its last lines, of either output.
    pub fn last_lines(&self, most: usize) -> Vec<String> {
        let printed = match self.stderr.is_empty() {
            true => self.stdout.end(),
            false => self.stderr.end(),
        };
        let text = String::from_utf8_lossy(printed).into_owned();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let from = lines.len().saturating_sub(most);
        lines[from..].iter().map(|line| line.chars().take(400).collect()).collect()
    }
}

/// One output of a command: its beginning and its end.
#[derive(Clone, Debug, Default)]
pub struct Printed {
    pub head: Vec<u8>,
    tail: Vec<u8>,
    /// The total number of bytes.
    pub total: u64,
}

impl Printed {
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Whether there was more than `head`.
    pub fn is_cut(&self) -> bool {
        self.total > self.head.len() as u64
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.head).into_owned()
    }

    /// Returns the end of the output.
    pub fn end(&self) -> &[u8] {
        if self.is_cut() { &self.tail } else { &self.head }
    }

    fn add(&mut self, bytes: &[u8], keep: usize) {
        self.total += bytes.len() as u64;
        let room = keep.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.tail.extend_from_slice(bytes);
        if self.tail.len() > 2 * TAIL {
            self.tail.drain(..self.tail.len() - TAIL);
        }
    }
}

/// What happens to a file that is already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    Replace,
    Keep,
}

impl InRoom {
    /// Writes a file of the worktree, as the agent, and returns its path. `folder` is relative to the worktree.
    pub async fn put(
        &self,
        folder: &str,
        name: &str,
        bytes: Vec<u8>,
        existing: Existing,
    ) -> Result<String, Failure> {
        const SCRIPT: &str = r#"mkdir -p -- "$1" || exit
            if test "$3" = keep && { test -e "$1/$2" || test -L "$1/$2"; }; then echo "it is there already" >&2; exit 1; fi
            cat >"$1/.$2.new" && mv -f -- "$1/.$2.new" "$1/$2""#;
        let existing = if existing == Existing::Keep { "keep" } else { "replace" };
        let task = RoomTask::shell(SCRIPT).with_arguments([folder, name, existing]);
        let ran = self.run(RoomTask { label: "record", stdin: bytes, ..task }).await?;
        if ran.is_ok() {
            return Ok(format!("{folder}/{name}"));
        }
        let why = ran.last_lines(1).pop().unwrap_or_else(|| ran.end.to_string());
        let message = format!("`{folder}/{name}` cannot be written: {why}");
        Err(Failure::new(FailureKind::Host, message))
    }

    /// Returns access to the room of a running sandbox.
    pub async fn of(
        engine: &Arc<Engine>,
        connections: &Connections,
        sandbox: &SandboxRecord,
    ) -> Result<Self, Failure> {
        let (engine, own) = (engine.clone(), sandbox.clone());
        let found = tokio::task::spawn_blocking(move || {
            let runtime = engine.running(&own)?;
            engine.settle(&own)?;
            let stack = engine.stack_of(&own).unwrap_or_default();
            let (tools, wall) = (engine.tools_of(&runtime), engine.wall_of(&runtime));
            Ok::<_, Failure>((runtime, stack, tools, wall))
        });
        let found = found.await.map_err(|error| Failure::of(FailureKind::Internal, &error))?;
        let (runtime, stack, tools, wall) = found?;
        let room = connections.of(&runtime).await.map_err(|error| lost(&error))?;
        Ok(Self { sandbox: sandbox.clone(), stack, room, tools, wall })
    }

    /// Returns a service of the stack.
    pub fn service(&self, name: &str) -> Option<&ServiceOrder> {
        self.stack.services.iter().find(|service| service.name() == name)
    }

    /// Runs a command to its end. One that exceeds its time limit is killed.
    pub async fn run(&self, task: RoomTask) -> Result<TaskOutput, Failure> {
        let id = ExecId(format!("{}-{}", task.label, hex(&random::bytes::<8>())));
        let spec = self.spec(&task, id.clone());
        let streams = match self.room.exec(spec).await {
            Ok(streams) => streams,
            Err(CallError::Refused(refusal)) => {
                let end = TaskEnd::NotStarted(refusal.message);
                return Ok(TaskOutput {
                    end,
                    stdout: Printed::default(),
                    stderr: Printed::default(),
                });
            }
            Err(error) => return Err(lost(&error)),
        };
        let ExecStreams::Pipes { stdin, stdout, stderr } = streams else {
            return Err(Failure::new(FailureKind::Internal, "the command has no pipes"));
        };
        let (ended_tx, ended_rx) = watch::channel(false);
        let wait = async {
            let exit = self.room.wait(id.clone()).await;
            ended_tx.send(true).ok();
            exit
        };
        let ended = async {
            let (_, stdout, stderr, exit) = tokio::join!(
                feed(stdin, &task.stdin, ended_rx.clone()),
                read(stdout, task.keep, ended_rx.clone()),
                read(stderr, 0, ended_rx.clone()),
                wait,
            );
            (stdout, stderr, exit)
        };
        tokio::pin!(ended);
        let (stdout, stderr, exit, late) =
            match tokio::time::timeout(task.timeout, &mut ended).await {
                Ok((stdout, stderr, exit)) => (stdout, stderr, exit, false),
                Err(_) => {
                    self.room.signal(id.clone(), KILL).await.ok();
                    match tokio::time::timeout(END, &mut ended).await {
                        Ok((stdout, stderr, exit)) => (stdout, stderr, exit, true),
                        Err(_) => {
                            (Printed::default(), Printed::default(), Ok(Exit::Signal(KILL)), true)
                        }
                    }
                }
            };
        let end = match exit.map_err(|error| lost(&error))? {
            _ if late => TaskEnd::TimedOut(task.timeout),
            Exit::Code(code) => TaskEnd::Exit(code),
            Exit::Signal(number) => TaskEnd::Signal(number),
            Exit::NotStarted { message, .. } => TaskEnd::NotStarted(message),
        };
        Ok(TaskOutput { end, stdout, stderr })
    }

    /// Whether the project or the wall sets a variable for commands.
    pub fn has_variable(&self, name: &str) -> bool {
        self.wall.environment.contains_key(name)
    }

    /// Returns the placeholder of a secret.
    pub fn placeholder(&self, name: &str) -> Option<&str> {
        self.wall.placeholders.get(name).map(String::as_str)
    }

    /// Starts a command on its own terminal, which room-init keeps.
    pub async fn start_on_terminal(
        &self,
        task: &RoomTask,
        id: ExecId,
        size: WindowSize,
    ) -> Result<ExecStreams, CallError> {
        let spec = self.spec(task, id);
        self.room.exec(ExecSpec { stdio: Stdio::Pty(size), ..spec }).await
    }

    /// Sends an HTTP request to a port of the room; returns the status and the text. The error is a
    /// sentence.
    pub async fn get(
        &self,
        port: u16,
        path: &str,
        client: &str,
        most: usize,
        patience: Duration,
    ) -> Result<(u16, String), String> {
        let asked = async {
            let stream = self.room.dial(port).await.map_err(|error| error.to_string())?;
            stream.set_nonblocking(true).map_err(|error| error.to_string())?;
            let stream = TcpStream::from_std(stream).map_err(|error| error.to_string())?;
            let request = Request::get(path)
                .header(header::HOST, format!("127.0.0.1:{port}"))
                .header(header::USER_AGENT, client)
                .body(Full::new(Bytes::new()))
                .map_err(|error| error.to_string())?;
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
            let served = tokio::spawn(connection);
            let answer = sender.send_request(request).await.map_err(|error| error.to_string());
            let read = match answer {
                Ok(answer) => {
                    let status = answer.status().as_u16();
                    let body = Limited::new(answer.into_body(), most).collect().await;
                    let body = body.map_err(|error| error.to_string());
                    body.map(|body| {
                        (status, String::from_utf8_lossy(&body.to_bytes()).into_owned())
                    })
                }
                Err(error) => Err(error),
            };
            served.abort();
            read
        };
        let late =
            || format!("no answer within {}", hothouse_model::config::format_duration(patience));
        tokio::time::timeout(patience, asked).await.unwrap_or_else(|_| Err(late()))
    }

    /// Ends the commands with a label that an earlier daemon left running.
    pub async fn end_left(&self, label: &str) -> Result<(), Failure> {
        let all = self.room.execs().await.map_err(|error| lost(&error))?;
        let is_own = |id: &str| id.strip_prefix(label).is_some_and(|rest| rest.starts_with('-'));
        for left in all.into_iter().filter(|one| one.exit.is_none() && is_own(&one.id.0)) {
            self.room.signal(left.id.clone(), KILL).await.ok();
            tokio::time::timeout(END, self.room.wait(left.id)).await.ok();
        }
        Ok(())
    }

    fn spec(&self, task: &RoomTask, id: ExecId) -> ExecSpec {
        let service = task.service.as_deref().and_then(|name| self.service(name));
        let base: Vec<Vec<u8>> = match service {
            Some(service) => {
                service.spec.env.iter().map(|(name, value)| pair(name, value)).collect()
            }
            None => environment::of(&self.sandbox, RoomUser::Agent, None, &self.tools, &self.wall),
        };
        let own: Vec<Vec<u8>> = task.env.iter().map(|(name, value)| pair(name, value)).collect();
        // Commands of Hothouse itself are not part of a scenario.
        let counts =
            |entry: &[u8]| COVERAGE_VARIABLES.iter().any(|name| name_of(entry) == name.as_bytes());
        let is_new = |entry: &Vec<u8>| {
            own.iter().all(|one| name_of(one) != name_of(entry)) && !counts(entry)
        };
        let env = base.into_iter().filter(is_new).chain(own.clone()).collect();
        let folder = match (&task.folder, service) {
            (Some(folder), _) => self.sandbox.worktree.join(folder),
            (None, Some(service)) => service.spec.folder.clone(),
            (None, None) => self.sandbox.worktree.clone(),
        };
        ExecSpec {
            id,
            argv: task.argv.iter().map(|word| word.clone().into_bytes()).collect(),
            env,
            cwd: folder.as_os_str().as_encoded_bytes().to_vec(),
            user: RoomUser::Agent,
            stdio: Stdio::Pipes,
            service: service.map(|service| service.name().to_owned()),
        }
    }
}

fn pair(name: &str, value: &str) -> Vec<u8> {
    format!("{name}={value}").into_bytes()
}

fn name_of(entry: &[u8]) -> &[u8] {
    entry.split(|byte| *byte == b'=').next().unwrap_or_default()
}

/// Returns the failure for a room that does not answer.
pub(crate) fn lost(error: &CallError) -> Failure {
    let failure = Failure::of(FailureKind::Backend, error);
    failure.hint("`hothouse status` shows the state of the room")
}

/// Writes the input of a command, which may ignore it.
async fn feed(pipe: OwnedFd, bytes: &[u8], mut ended_rx: watch::Receiver<bool>) {
    let Ok(mut pipe) = pipe::Sender::from_owned_fd(pipe) else { return };
    tokio::select! {
        _ = pipe.write_all(bytes) => {}
        () = ended(&mut ended_rx) => {}
    }
}

async fn ended(ended_rx: &mut watch::Receiver<bool>) {
    ended_rx.wait_for(|ended| *ended).await.ok();
}

/// Reads an output to its end. Background processes may keep the pipe open; once the command has
/// ended, all of its own output is in the pipe.
async fn read(pipe: OwnedFd, keep: usize, mut ended_rx: watch::Receiver<bool>) -> Printed {
    let mut printed = Printed::default();
    let Ok(mut pipe) = pipe::Receiver::from_owned_fd(pipe) else { return printed };
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = tokio::select! {
            biased;
            count = pipe.read(&mut buffer) => count.unwrap_or(0),
            () = ended(&mut ended_rx) => {
                let last = tokio::time::timeout(LAST, pipe.read(&mut buffer)).await;
                last.ok().and_then(Result::ok).unwrap_or(0)
            }
        };
        if count == 0 || printed.total > MOST {
            return printed;
        }
        printed.add(&buffer[..count], keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_much_output_the_beginning_and_the_end_are_kept() {
        let mut printed = Printed::default();
        for number in 0..100_000 {
            printed.add(format!("line {number}\n").as_bytes(), 1000);
        }
        assert_eq!(printed.head.len(), 1000);
        assert!(printed.is_cut() && printed.end().len() <= 2 * TAIL);
        let output =
            TaskOutput { end: TaskEnd::Exit(1), stdout: printed, stderr: Printed::default() };
        assert_eq!(output.last_lines(2), ["line 99998", "line 99999"]);
    }
}
