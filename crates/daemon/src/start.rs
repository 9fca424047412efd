//! Starting and stopping: one lock, one socket, recovery first, a graceful drain last.
//!
//! The daemon's standard output is a pipe to the process that started it. It carries one line, then is closed: `ready`,
//! `ready: ` and a notice for the user, or the failure as JSON.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hothouse_api::{Build, exec::EXEC_SOCKET};
use hothouse_backend::{NativeRooms, Rooms};
use hothouse_engine::{Collaborators, Engine, WallSources};
use hothouse_host::{
    Clock, FileError, Folders, Lock, LockError,
    clock::HostClock,
    keyring::HostKeyring,
    login,
    newest::NewestDaemon,
    process,
    shares::Shares,
    socket::{self, SocketError},
};
use hothouse_model::FailureKind;
use hothouse_reconcile::{Keepers, LateWalls, Stop, Tasks, Urls, Walls};
use hothouse_store::{SetAside, Store, StoreError};
use tokio::{
    net::UnixListener,
    signal::unix::{SignalKind, signal},
    sync::{broadcast, watch},
};

use crate::{
    About, Daemon,
    dashboard::{Dashboard, Site},
    exec,
    listener::OwnUser,
    log,
    room_api::InRooms,
    routes,
};

/// How long the daemon waits for running operations when it stops. Plans survive the stop.
const DRAIN: Duration = Duration::from_secs(20);

/// How long recovery may delay the first answer.
const RECOVERY_FIRST: Duration = Duration::from_secs(5);

/// How long loops may take to end.
const JOIN: Duration = Duration::from_secs(1);

/// How often the daemon checks whether its socket is still its own.
const SOCKET_CHECK: Duration = Duration::from_secs(5);

/// The parameters of a daemon.
pub struct DaemonSpec {
    pub folders: Folders,
    pub build: Build,
    /// The log filter, in the syntax of `RUST_LOG`.
    pub log_filter: Option<String>,
    /// The file to which `ready` is written.
    pub announce: File,
    /// The environment that the daemon was started with.
    pub environment: BTreeMap<String, String>,
}

/// Failure to start the daemon.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the daemon is already running ({holder})")]
    Running { holder: String },
    #[error("take the daemon's lock")]
    Lock(#[source] LockError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("start the daemon's threads")]
    Runtime(#[source] std::io::Error),
}

hothouse_model::explain! {
    StartError passes on Store;
    kind {
        Self::Running { .. } => FailureKind::Conflict,
        _ => FailureKind::Host,
    }
    hints {
        Self::Running { .. } => {
            vec![
                "a daemon that serves this state folder is starting or stopping; try again"
                    .into(),
            ]
        }
        Self::File(error) | Self::Socket(SocketError::File(error)) => error.hints(),
        Self::Lock(LockError::File(error)) => error.hints(),
        Self::Socket(SocketError::Foreign { .. }) => {
            vec!["set XDG_STATE_HOME to a folder of your own".into()]
        }
        Self::Socket(SocketError::Open { path }) => {
            vec![format!("`chmod 700 {}`", path.display())]
        }
    }
}

/// Runs the daemon until it is told to stop.
pub fn run(mut spec: DaemonSpec) -> Result<(), StartError> {
    // Values of secrets pass through this process, so it must not dump core.
    process::forbid_core_dumps();
    process::call_it("hothouse");
    process::keep_the_heap_small();
    spec.folders.make()?;
    socket::check_private(&spec.folders.runtime)?;
    let log_file = spec.folders.logs().join("daemon.log");
    let mut lock = take_lock(&spec.folders)?;
    lock.describe(&format!("pid {}, {}", std::process::id(), spec.folders.socket().display()))?;
    log::begin(&log_file, spec.log_filter.as_deref())?;
    note_build(&spec);
    // Before anything is started: child processes inherit the group.
    let _stay = login::leave_session_group().unwrap_or_else(|error| {
        tracing::warn!(%error, "stayed in the group of the login session: rooms have no limits");
        None
    });
    let shares = Shares::new(hothouse_host::descriptors::raise_limit());

    let (store, damaged) = Store::open_or_set_aside(&spec.folders.database(), HostClock.now())?;
    let notice = damaged.map(|SetAside { to, why }| {
        format!(
            "the state database was damaged ({why}); it was moved to {} and a new one was rebuilt from the \
             sandboxes' own records",
            to.display()
        )
    });
    if let Some(notice) = &notice {
        tracing::error!(notice, "the database was damaged");
    }
    let store = Arc::new(store);
    let (event_tx, _) = broadcast::channel(1024);
    let clock = Arc::new(HostClock);
    let walls: Arc<LateWalls> = Arc::default();
    let rooms: Arc<dyn Rooms> = Arc::new(NativeRooms::new(spec.folders.cache.join("base")));
    let engine = Arc::new(Engine::new(Collaborators {
        store: store.clone(),
        journal: store,
        clock: clock.clone(),
        events: {
            let event_tx = event_tx.clone();
            Arc::new(move |event| {
                tracing::info!(?event, "event");
                // There may be no subscriber, which is fine.
                event_tx.send(event).ok();
            })
        },
        locks: spec.folders.locks(),
        user_config: spec.folders.user_config(),
        rooms: rooms.clone(),
        walls: walls.clone(),
        runtime: spec.folders.runtime.join("rooms"),
        folders: spec.folders.state.join("sandbox-folders"),
        runs: spec.folders.state.join("runs"),
        repositories: spec.folders.state.join("repositories"),
        logs: spec.folders.logs(),
        home: spec.folders.home.clone(),
        wall: WallSources {
            authorities: spec.folders.state.join("authorities"),
            secrets: spec.folders.state.join("secrets"),
            agent_env: spec.folders.config.join("env"),
            keyring: Arc::new(HostKeyring),
            environment: spec.environment,
        },
    }));
    let about = Arc::new(About {
        build: spec.build,
        socket: spec.folders.socket(),
        state: spec.folders.state.clone(),
        log: log_file,
        started: clock.now(),
    });
    let keepers = Keepers::new(
        engine.clone(),
        rooms.clone(),
        walls,
        event_tx.clone(),
        spec.folders.state.clone(),
        shares,
    );
    let daemon = Daemon {
        engine,
        event_tx,
        stop_tx: watch::Sender::new(false),
        about,
        keepers,
        dashboard: Arc::default(),
    };

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        // Hundreds of threads may have been needed at once; each has a stack.
        .thread_keep_alive(Duration::from_secs(1))
        .enable_all()
        .build()
        .map_err(StartError::Runtime)?;
    let former = spec.folders.former_runtime.iter().chain([&spec.folders.runtime]);
    let former: Vec<_> = former.map(|folder| folder.join("rooms")).collect();
    if let Err(failure) = daemon.engine.find_former_rooms(&former) {
        tracing::error!(?failure, "rooms of an earlier release could not be looked for");
    }
    let places = (spec.folders.user_config(), spec.folders.home.clone());
    let serving = serve(daemon, rooms, places, notice.as_deref(), &mut spec.announce);
    let served = runtime.block_on(serving);
    runtime.shutdown_timeout(Duration::from_secs(1));
    tracing::info!("ended");
    served
}

/// Records that this build has run, unless a newer one has whose program still exists.
fn note_build(spec: &DaemonSpec) {
    let state = &spec.folders.state;
    let newer = NewestDaemon::read(state).is_some_and(|noted| {
        noted.build.parse::<Build>().is_ok_and(|build| {
            build > spec.build && process::stamp_of(&noted.program) == Some(build.stamp)
        })
    });
    let Some(program) = process::executable().filter(|_| !newer) else { return };
    let newest = NewestDaemon { build: spec.build.to_string(), program };
    if let Err(error) = newest.write(state) {
        tracing::warn!(%error, "an older daemon may replace this one");
    }
}

fn take_lock(folders: &Folders) -> Result<Lock, StartError> {
    Lock::try_take(&folders.daemon_lock()).map_err(|error| match error {
        LockError::Held { holder, .. } => StartError::Running { holder },
        other => StartError::Lock(other),
    })
}

async fn serve(
    daemon: Daemon,
    rooms: Arc<dyn Rooms>,
    (user_config, home): (PathBuf, PathBuf),
    notice: Option<&str>,
    announce: &mut File,
) -> Result<(), StartError> {
    let path = daemon.about.socket.clone();
    let listener = listen(&path)?;
    let identity = socket_identity(&path);
    let exec_listener = listen(&path.with_file_name(EXEC_SOCKET))?;

    let state = &daemon.about.state;
    let shared = (daemon.keepers.shares.clone(), &daemon.keepers);
    let walls = Walls::new(daemon.engine.clone(), rooms, user_config, home, state, shared);
    daemon.keepers.walls.set(&walls);
    daemon.keepers.room_api.set(Arc::new(InRooms::new(daemon.clone()))).ok();
    // Rooms that outlived the last daemon come first: they have no network until then.
    walls.refresh().await;
    recover(&daemon).await;
    open_urls(&daemon).await;
    tracing::info!(socket = %path.display(), build = %daemon.about.build, "ready");
    let notice = notice.map(|notice| format!(": {notice}")).unwrap_or_default();
    writeln!(announce, "ready{notice}").ok();

    let mut tasks = Tasks::default();
    tasks.start("signals", |stop| watch_signals(daemon.stop_tx.clone(), stop));
    tasks.start("socket", |stop| watch_socket(daemon.clone(), identity, stop));
    tasks.start("exec", |stop| exec::serve(daemon.clone(), exec_listener, stop));
    daemon.keepers.start(&mut tasks);
    let mut stop_rx = daemon.stop_tx.subscribe();
    let server =
        axum::serve(listener, routes::all(daemon.clone())).with_graceful_shutdown(async move {
            stop_rx.wait_for(|stop| *stop).await.map(|_| ()).unwrap_or(())
        });
    let mut stop_rx = daemon.stop_tx.subscribe();
    tokio::select! {
        result = server.into_future() => result.map_err(StartError::Runtime)?,
        () = async {
            stop_rx.wait_for(|stop| *stop).await.ok();
            tokio::time::sleep(DRAIN).await;
        } => tracing::warn!(busy = daemon.engine.busy(), "not every task stopped in time"),
    }
    for name in tasks.end(JOIN).await {
        tracing::warn!(name, "did not end in time, or broke");
    }
    // Last, so that the end of the loops is recorded too.
    let timelines = daemon.keepers.timelines.clone();
    tokio::task::spawn_blocking(move || timelines.close()).await.ok();
    if socket_identity(&path) == identity {
        hothouse_host::files::remove_file(&path)?;
    }
    Ok(())
}

fn listen(path: &Path) -> Result<OwnUser, StartError> {
    let listener = socket::bind(path)?;
    let listener = listener.set_nonblocking(true).and_then(|()| UnixListener::from_std(listener));
    listener.map(OwnUser).map_err(StartError::Runtime)
}

/// Starts the router, with the routes of running sandboxes.
async fn open_urls(daemon: &Daemon) {
    let dashboard = Arc::new(Dashboard::new(daemon.clone()));
    let urls = Urls::open(&daemon.keepers, Arc::new(Site(dashboard.clone())));
    if let Some(port) = urls.port() {
        dashboard.set_port(port);
    }
    daemon.dashboard.set(dashboard).ok();
    daemon.keepers.urls.set(urls).ok();
    daemon.keepers.refresh_urls().await;
}

/// Completes what an earlier daemon left unfinished: at first in the foreground, then in the background.
async fn recover(daemon: &Daemon) {
    let engine = daemon.engine.clone();
    let recovery = tokio::task::spawn_blocking(move || {
        match engine.rebuild_own() {
            Ok(names) if names.is_empty() => {}
            Ok(names) => tracing::warn!(?names, "sandboxes that the database had lost"),
            Err(failure) => tracing::error!(?failure, "sandboxes could not be looked for"),
        }
        if let Err(failure) = engine.end_temporary_rooms() {
            tracing::error!(?failure, "rooms of single commands could not be ended");
        }
        // Worktrees that are mounts are restored first: unfinished steps may need them.
        if let Err(failure) = engine.restore_trees() {
            tracing::error!(?failure, "trees could not be brought back");
        }
        if let Err(failure) = engine.describe_all() {
            tracing::warn!(?failure, "not every sandbox describes itself");
        }
        match engine.recover() {
            Ok(plans) => plans.iter().for_each(|plan| tracing::info!(?plan, "recovered")),
            Err(failure) => tracing::error!(?failure, "recovery failed"),
        }
    });
    tokio::time::timeout(RECOVERY_FIRST, recovery).await.ok();
}

async fn watch_signals(stop_tx: watch::Sender<bool>, mut stop: Stop) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = stop.told() => return,
    }
    stop_tx.send_replace(true);
}

/// Stops the daemon when its socket is gone or replaced: no client could reach it.
async fn watch_socket(daemon: Daemon, identity: Option<(u64, u64)>, mut stop: Stop) {
    while stop.pause(SOCKET_CHECK).await {
        if socket_identity(&daemon.about.socket) != identity {
            tracing::warn!("the socket is gone");
            daemon.stop_tx.send_replace(true);
            return;
        }
    }
}

fn socket_identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}
