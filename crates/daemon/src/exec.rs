//! The second socket: commands in rooms, whose pipe ends are passed to the client.

mod note;
pub(crate) mod shell;

use std::{
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::serve::Listener;
use hothouse_api::{
    Build,
    exec::{ARGUMENT_LIMIT, Ask, DatabaseAsk, Ended, Hello, RunAsk, Say, Target},
};
use hothouse_backend::{
    CallError, RoomConnection,
    connection::{
        Attached, CallRefusalKind, ExecId, ExecSpec, ExecStreams, Exit, RoomUser, Stdio, WindowSize,
    },
};
use hothouse_engine::environment;
use hothouse_host::{framed::Framed, random};
use hothouse_model::{
    Failure, FailureKind, SandboxRecord, SandboxRef,
    config::rules::among,
    id::hex,
    room::RoomWall,
    stack::{ServiceOrder, StackOrder},
};
use hothouse_reconcile::{Stop, sleep};
use tokio::task::JoinSet;

use self::note::ExecNote;
use crate::{Daemon, listener::OwnUser};

/// SIGHUP, for a command whose terminal is gone.
const HANGUP: i32 = 1;

/// Serves the second socket until the daemon stops. Then connections are closed, but a command that is being started is
/// first passed to its client, which has its input; clients reconnect.
pub(crate) async fn serve(daemon: Daemon, mut listener: OwnUser, mut stop: Stop) {
    let mut conversations = JoinSet::new();
    loop {
        let (stream, _) = tokio::select! {
            () = stop.told() => break,
            Some(_) = conversations.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let (daemon, mut stop) = (daemon.clone(), stop.clone());
        conversations.spawn(async move {
            let mut framed = Framed::new(stream);
            let asked = tokio::select! {
                () = stop.told() => return,
                asked = question(&daemon, &mut framed) => asked,
            };
            let conversed = match asked {
                Ok(Some(ask)) => converse(&daemon, &mut framed, ask, stop).await,
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            // A client that disconnects in the middle of a message needs no answer.
            if let Err(error) = conversed {
                tracing::debug!(%error, "the connection of a command failed");
            }
        });
    }
    while conversations.join_next().await.is_some() {}
}

/// Returns a client's request; `None` if it disconnected, or is newer than this daemon.
async fn question(daemon: &Daemon, framed: &mut Framed) -> std::io::Result<Option<Ask>> {
    let Some((Hello { build }, _)) = framed.receive().await? else { return Ok(None) };
    if build.parse::<Build>().is_ok_and(|client| client > daemon.about.build) {
        framed.send(&Say::Outdated, &[]).await?;
        return Ok(None);
    }
    Ok(framed.receive::<Ask>().await?.map(|(ask, _)| ask))
}

async fn converse(
    daemon: &Daemon,
    framed: &mut Framed,
    ask: Ask,
    stop: Stop,
) -> std::io::Result<()> {
    match begin(daemon, ask).await {
        Ok(mut running) => {
            let fresh = running.fresh.clone();
            // The sandbox counts as in use while the command runs.
            let _held = daemon.keepers.activities.of(running.sandbox.key).enter();
            let followed = follow(framed, &mut running, stop).await;
            // The next daemon tells the client how it ended.
            if matches!(followed, Ok(Followed::Stopped)) {
                return Ok(());
            }
            match (running.note.take(), &followed) {
                (Some(note), Ok(Followed::Ended(ended))) => {
                    daemon.keepers.timelines.append(&running.sandbox, note.ended(ended));
                }
                (Some(note), _) if fresh.is_none() => tell_end(daemon, &running, note),
                _ => {}
            }
            match fresh {
                Some(runtime) => end_fresh(daemon, &running.sandbox, runtime).await,
                None => import(daemon, &running.sandbox).await,
            }
            match followed? {
                Followed::Ended(ended) => framed.send(&Say::Exited(ended), &[]).await,
                Followed::Left | Followed::Stopped => Ok(()),
            }
        }
        Err(failure) => framed.send(&Say::Refused(failure), &[]).await,
    }
}

/// Records how a command ends whose client has disconnected: the command outlives it.
fn tell_end(daemon: &Daemon, running: &Running, note: ExecNote) {
    let timelines = daemon.keepers.timelines.clone();
    let (room, exec) = (running.room.clone(), running.exec.clone());
    let sandbox = running.sandbox.clone();
    tokio::spawn(async move {
        let exit = room.wait(exec).await;
        timelines.append(&sandbox, note.ended(&ended(exit)));
    });
}

/// How long the exit of a command waits for the import of its commits: an agent can make one slow.
const IMPORT_PATIENCE: Duration = Duration::from_secs(30);

/// Imports a command's commits before its exit is reported. A slow import continues in the background.
async fn import(daemon: &Daemon, sandbox: &SandboxRecord) {
    let (engine, sandbox) = (daemon.engine.clone(), sandbox.clone());
    let import = tokio::task::spawn_blocking(move || engine.import_if_possible(&sandbox));
    tokio::time::timeout(IMPORT_PATIENCE, import).await.ok();
}

/// Imports what was committed in a fresh room, and stops it.
async fn end_fresh(daemon: &Daemon, sandbox: &SandboxRecord, runtime: PathBuf) {
    let engine = daemon.engine.clone();
    daemon.keepers.connections.forget(&runtime).await;
    let ended = tokio::task::spawn_blocking(move || engine.end_fresh(&runtime));
    // In parallel: its commits are in the sandbox's git directory and are imported through its own room.
    let ((), ended) = tokio::join!(import(daemon, sandbox), ended);
    if let Ok(Err(failure)) = ended {
        tracing::warn!(?failure, "a fresh room could not be stopped");
    }
}

/// Returns a connection to a room. A fresh room uses the connection of its wall.
async fn connection(
    daemon: &Daemon,
    runtime: &Path,
    is_fresh: bool,
) -> Result<Arc<dyn RoomConnection>, CallError> {
    let wall = match daemon.keepers.walls.get().filter(|_| is_fresh) {
        Some(walls) => walls.connection_of(runtime).await,
        None => None,
    };
    match wall {
        Some(room) => Ok(room),
        None => daemon.keepers.connections.of(runtime).await,
    }
}

/// A running command.
struct Running {
    sandbox: SandboxRecord,
    room: Arc<dyn RoomConnection>,
    exec: ExecId,
    streams: Streams,
    terminal: bool,
    joined: bool,
    /// The runtime folder of a room that ends with the command.
    fresh: Option<PathBuf>,
    /// The note on the timeline, if the command was started here.
    note: Option<ExecNote>,
}

/// The pipe ends for the client, in the order in which they are sent.
struct Streams(Vec<OwnedFd>);

async fn begin(daemon: &Daemon, ask: Ask) -> Result<Running, Failure> {
    match ask {
        Ask::Run(run) => start(daemon, run).await,
        Ask::Attach(target) => {
            let (sandbox, room, exec) = known(daemon, &target).await?;
            let attached =
                room.attach(exec.clone()).await.map_err(|error| refusal(&error, &exec))?;
            let (streams, terminal) = match attached {
                Attached::Pipes { stdout, stderr } => (vec![stdout, stderr], false),
                Attached::Terminal { input, output } => (vec![input, output], true),
                Attached::Nothing => (Vec::new(), false),
            };
            Ok(Running {
                sandbox,
                room,
                exec,
                streams: Streams(streams),
                terminal,
                joined: true,
                fresh: None,
                note: None,
            })
        }
        Ask::Rejoin(target) => {
            let (sandbox, room, exec) = known(daemon, &target).await?;
            Ok(Running {
                sandbox,
                room,
                exec,
                streams: Streams(Vec::new()),
                terminal: false,
                joined: true,
                fresh: None,
                note: None,
            })
        }
        Ask::Resize { .. } | Ask::Signal { .. } | Ask::Close { .. } | Ask::Leave => {
            Err(Failure::new(FailureKind::Usage, "the command has not started yet"))
        }
    }
}

async fn start(daemon: &Daemon, run: RunAsk) -> Result<Running, Failure> {
    let size: usize = run.words.iter().map(|word| word.len() + 1).sum();
    if run.words.is_empty() && run.database.is_none() || size > ARGUMENT_LIMIT {
        return Err(Failure::new(
            FailureKind::Usage,
            format!("the command line has {size} bytes, which is too long"),
        )
        .hint(format!(
            "the limit is {ARGUMENT_LIMIT} bytes; pass more through a file or standard input"
        )));
    }
    let service = service(daemon, &run).await?;
    let Place { sandbox, runtime, fresh } = place(daemon, &run.target, run.fresh).await?;
    let exec = ExecId(run.target.exec.clone());
    let started = match connection(daemon, &runtime, fresh.is_some()).await {
        Ok(room) => {
            let tools = daemon.engine.tools_of(&runtime);
            let mut wall = daemon.engine.wall_of(&runtime);
            let own = daemon.engine.agent_variables()?;
            // A variable of the project overrides the user's own for all agents.
            own.into_iter().for_each(|(name, value)| {
                wall.environment.entry(name).or_insert(value);
            });
            let spec = spec(&sandbox, &run, exec.clone(), &tools, &wall);
            let spec = match service {
                Some(service) => for_service(spec, &service, &run)?,
                None => spec,
            };
            room.exec(spec).await.map(|streams| (room, streams))
        }
        Err(error) => Err(error),
    };
    let (room, streams) = match started {
        Ok(started) => started,
        Err(error) => {
            if let Some(runtime) = fresh {
                let engine = daemon.engine.clone();
                tokio::task::spawn_blocking(move || engine.end_fresh(&runtime)).await.ok();
            }
            return Err(refusal(&error, &exec));
        }
    };
    let (streams, terminal) = match streams {
        ExecStreams::Pipes { stdin, stdout, stderr } => (vec![stdin, stdout, stderr], false),
        ExecStreams::Terminal { input, output } => (vec![input, output], true),
        ExecStreams::Detached => (Vec::new(), false),
    };
    let note = ExecNote::new(&run);
    daemon.keepers.timelines.append(&sandbox, note.begun());
    let (streams, note) = (Streams(streams), Some(note));
    Ok(Running { sandbox, room, exec, streams, terminal, joined: false, fresh, note })
}

fn spec(
    sandbox: &SandboxRecord,
    run: &RunAsk,
    exec: ExecId,
    tools: &[PathBuf],
    wall: &RoomWall,
) -> ExecSpec {
    let user = if run.root { RoomUser::Root } else { RoomUser::Agent };
    let stdio = match &run.terminal {
        Some(terminal) => Stdio::Pty(WindowSize { rows: terminal.rows, cols: terminal.columns }),
        None => Stdio::Pipes,
    };
    ExecSpec {
        id: exec,
        argv: run.words.clone(),
        env: environment::of(
            sandbox,
            user,
            run.terminal.as_ref().map(|t| t.kind.as_str()),
            tools,
            wall,
        ),
        cwd: folder_of(sandbox, run).as_os_str().as_encoded_bytes().to_vec(),
        user,
        stdio,
        service: None,
    }
}

/// Returns the folder in the room where a command runs.
fn folder_of(sandbox: &SandboxRecord, run: &RunAsk) -> PathBuf {
    sandbox.worktree.join(run.folder.as_deref().unwrap_or_default())
}

/// Finds the service that a command is for.
async fn service(daemon: &Daemon, run: &RunAsk) -> Result<Option<ServiceOrder>, Failure> {
    if run.service.is_none() && run.database.is_none() {
        return Ok(None);
    }
    let sandbox = find_awake(daemon, &run.target).await?;
    let engine = daemon.engine.clone();
    let stack = tokio::task::spawn_blocking(move || {
        engine.running(&sandbox)?;
        Ok(engine.stack_of(&sandbox))
    });
    let stack =
        stack.await.unwrap_or_else(|error| Err(Failure::of(FailureKind::Internal, &error)))?;
    service_of(stack, run.service.as_deref()).map(Some)
}

/// Finds a service by its name, or the default database.
pub(crate) fn service_of(
    stack: Option<StackOrder>,
    wanted: Option<&str>,
) -> Result<ServiceOrder, Failure> {
    let services = stack.map(|stack| stack.services).unwrap_or_default();
    let names: Vec<_> = services.iter().map(|service| service.name().to_owned()).collect();
    let found = match wanted {
        Some(name) => services.into_iter().find(|service| service.name() == name),
        None => first_database(services),
    };
    found.ok_or_else(|| {
        let what = wanted.map_or("this sandbox has no database".to_owned(), |name| {
            format!("no service `{name}`")
        });
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        let hints = match (wanted, names.is_empty()) {
            (_, true) => vec!["this sandbox has no services; declare them in hothouse.toml".into()],
            (Some(wanted), false) => among(wanted, &known),
            (None, false) => vec![
                "declare one in hothouse.toml, such as `[service.db]` with `recipe = \"postgres\"`"
                    .into(),
            ],
        };
        hints.into_iter().fold(Failure::new(FailureKind::NotFound, what), Failure::hint)
    })
}

/// Returns the argv of a service's database client; `None` if none was requested.
pub(crate) fn database_argv(
    service: &ServiceOrder,
    ask: Option<DatabaseAsk>,
) -> Result<Vec<String>, Failure> {
    let Some(ask) = ask else { return Ok(Vec::new()) };
    let Some(database) = &service.database else {
        let message = format!("service `{}` is not a database", service.name());
        return Err(Failure::new(FailureKind::Usage, message)
            .hint("`hothouse exec SERVICE -- COMMAND` runs anything in its environment"));
    };
    Ok(match ask {
        DatabaseAsk::Shell => database.shell.clone(),
        DatabaseAsk::Tables => database.tables.clone(),
    })
}

/// Returns the default database: the first one, preferring databases with tables over caches.
fn first_database(services: Vec<ServiceOrder>) -> Option<ServiceOrder> {
    let is_cache = |service: &ServiceOrder| {
        service.url.as_deref().is_some_and(|url| url.starts_with("redis://"))
    };
    services.into_iter().filter(|service| service.database.is_some()).min_by_key(is_cache)
}

/// Gives a command the folder and environment of a service, and a database its own argv.
fn for_service(spec: ExecSpec, service: &ServiceOrder, run: &RunAsk) -> Result<ExecSpec, Failure> {
    let before = database_argv(service, run.database)?;
    let argv = before.into_iter().map(String::into_bytes).chain(spec.argv).collect();
    let mut env: Vec<Vec<u8>> = service
        .spec
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}").into_bytes())
        .collect();
    let own = |entry: &Vec<u8>| entry.starts_with(b"TERM=");
    env.extend(spec.env.into_iter().filter(own));
    let cwd = match run.folder {
        Some(_) => spec.cwd.clone(),
        None => service.spec.folder.as_os_str().as_encoded_bytes().to_vec(),
    };
    Ok(ExecSpec { argv, env, cwd, service: Some(service.name().to_owned()), ..spec })
}

/// Parses the sandbox's name, if given.
fn wanted(target: &Target) -> Result<Option<SandboxRef>, Failure> {
    let wanted = target.sandbox.as_deref().map(str::parse).transpose();
    wanted.map_err(|error: hothouse_model::NameError| Failure::of(FailureKind::Usage, &error))
}

/// Where a command runs.
struct Place {
    sandbox: SandboxRecord,
    runtime: PathBuf,
    /// The runtime folder of a room created for this command.
    fresh: Option<PathBuf>,
}

/// Finds the room of a sandbox, or creates a fresh one.
async fn place(daemon: &Daemon, target: &Target, fresh: bool) -> Result<Place, Failure> {
    let sandbox = find_awake(daemon, target).await?;
    let engine = daemon.engine.clone();
    let place = tokio::task::spawn_blocking(move || {
        if !fresh {
            let runtime = engine.running(&sandbox)?;
            engine.settle(&sandbox)?;
            if let Err(failure) = engine.bring(&sandbox) {
                tracing::warn!(?failure, "the user's commits could not be copied into the room");
            }
            return Ok(Place { sandbox, runtime, fresh: None });
        }
        let runtime = engine.start_fresh(&sandbox, &hex(&random::bytes::<4>()))?;
        Ok(Place { sandbox, runtime: runtime.clone(), fresh: Some(runtime) })
    });
    place.await.unwrap_or_else(|error| Err(Failure::of(FailureKind::Internal, &error)))
}

/// Finds the sandbox, wakes it if it is asleep, and waits for it if it is starting.
async fn find_awake(daemon: &Daemon, target: &Target) -> Result<SandboxRecord, Failure> {
    let wanted = wanted(target)?;
    let (engine, folder) = (daemon.engine.clone(), PathBuf::from(&target.folder));
    let found = tokio::task::spawn_blocking(move || engine.find(wanted.as_ref(), &folder)).await;
    let found = found.map_err(|error| Failure::of(FailureKind::Internal, &error))??;
    match sleep::is_away(&daemon.keepers, &found) {
        true => sleep::awake(&daemon.keepers, found.key).await,
        false => Ok(found),
    }
}

async fn known(
    daemon: &Daemon,
    target: &Target,
) -> Result<(SandboxRecord, Arc<dyn RoomConnection>, ExecId), Failure> {
    let Place { sandbox, runtime, .. } = place(daemon, target, false).await?;
    let exec = ExecId(target.exec.clone());
    let room =
        daemon.keepers.connections.of(&runtime).await.map_err(|error| refusal(&error, &exec))?;
    Ok((sandbox, room, exec))
}

/// Why a command is no longer followed.
enum Followed {
    Ended(Ended),
    /// Its client disconnected.
    Left,
    /// This daemon is stopping; the command is still running, or its end was not reported.
    Stopped,
}

/// Passes the streams to the client, then relays messages until the command ends, the client disconnects or the daemon
/// stops.
async fn follow(
    framed: &mut Framed,
    running: &mut Running,
    mut stop: Stop,
) -> std::io::Result<Followed> {
    let Running { room, exec, streams, terminal, joined, .. } = running;
    // Ours are closed as soon as the client has its own: a copy kept here would keep a command
    // from seeing the end of its input.
    let streams = std::mem::take(&mut streams.0);
    let descriptors: Vec<_> = streams.iter().map(AsFd::as_fd).collect();
    framed.send(&Say::Started { terminal: *terminal, joined: *joined }, &descriptors).await?;
    drop(streams);
    let wait = room.wait(exec.clone());
    tokio::pin!(wait);
    loop {
        tokio::select! {
            // First: a stopping daemon loses its connections to rooms, which looks like the end of the room.
            biased;
            () = stop.told() => return Ok(Followed::Stopped),
            exit = &mut wait => return Ok(Followed::Ended(ended(exit))),
            word = framed.receive::<Ask>() => match word {
                Ok(Some((Ask::Resize { rows, columns }, _))) => {
                    room.resize(exec.clone(), WindowSize { rows, cols: columns }).await.ok();
                }
                Ok(Some((Ask::Signal { number }, _))) => {
                    room.signal(exec.clone(), number).await.ok();
                }
                Ok(Some((Ask::Close { output }, _))) => {
                    room.close_output(exec.clone(), output).await.ok();
                }
                Ok(Some((Ask::Leave, _))) => return Ok(Followed::Left),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => {
                    // A command outlives its client, unless its terminal is gone. A client that attached only has a
                    // view of the terminal.
                    if *terminal && !*joined {
                        room.signal(exec.clone(), HANGUP).await.ok();
                    }
                    return Ok(Followed::Left);
                }
            }
        }
    }
}

fn ended(exit: Result<Exit, CallError>) -> Ended {
    match exit {
        Ok(Exit::Code(code)) => Ended::Code(code),
        Ok(Exit::Signal(number)) => Ended::Signal(number),
        Ok(Exit::NotStarted { code, message }) => Ended::NotStarted { code, message },
        // The room is gone, and everything in it was killed.
        Err(_) => Ended::Signal(9),
    }
}

fn refusal(error: &CallError, exec: &ExecId) -> Failure {
    let kind = match error {
        CallError::Refused(refusal) => match refusal.kind {
            CallRefusalKind::NoRoot => FailureKind::Host,
            CallRefusalKind::UnknownExec => FailureKind::NotFound,
            CallRefusalKind::BadExec => FailureKind::Usage,
            _ => FailureKind::Backend,
        },
        _ => FailureKind::Backend,
    };
    let failure = Failure::of(kind, error);
    match kind {
        FailureKind::Host => failure.hint(
            "give this user a range in /etc/subuid and /etc/subgid; `hothouse doctor` shows how",
        ),
        FailureKind::NotFound => {
            failure.hint(format!("no such command as `{}`, or it has ended", exec.0))
        }
        _ => failure.hint("`hothouse status` shows the state of the room"),
    }
}
