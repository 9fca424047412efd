//! A backend in its own folder, and helpers that all cases share.

use std::{
    fs::File,
    io::Read,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use hothouse_backend::{
    NativeRooms, RoomConnection, RoomError, Rooms,
    connection::{ExecId, ExecSpec, ExecStreams, Exit, RoomUser, Stdio},
    fake::FakeRooms,
};
use hothouse_host::{files, hands, owners::Give};
use hothouse_model::room::{Capability, RoomOrder, RoomWall};
use tokio::runtime::Runtime;

/// The time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// Rooms of one backend; all started rooms end with it.
pub(crate) struct Ground {
    folder: tempfile::TempDir,
    pub(crate) rooms: Arc<dyn Rooms>,
    /// The same rooms, as the next daemon finds them.
    pub(crate) found_again: Arc<dyn Rooms>,
    runtime: Runtime,
}

impl Drop for Ground {
    fn drop(&mut self) {
        for runtime in self.rooms.list(&self.folder.path().join("run")).unwrap_or_default() {
            self.rooms.kill(&runtime).ok();
        }
        for storage in files::list(&self.folder.path().join("layers")).unwrap_or_default() {
            self.rooms.remove_storage(&storage).ok();
        }
    }
}

impl Ground {
    pub(crate) fn fake() -> Self {
        let rooms: Arc<dyn Rooms> = Arc::new(FakeRooms::default());
        Self::with(tempfile::tempdir().unwrap(), rooms.clone(), rooms)
    }

    /// Returns native rooms, or why this host cannot have them.
    pub(crate) fn native() -> Result<Self, String> {
        let folder = private_folder();
        let rooms = || Arc::new(NativeRooms::new(shared_base()));
        let (rooms, found_again) = (rooms(), rooms());
        let ground = Self::with(folder, rooms, found_again);
        let trial = ground.order("trial");
        match ground.rooms.start(&trial) {
            Ok(_) => ground.rooms.kill(&trial.runtime).unwrap(),
            Err(RoomError::Start(error)) => return Err(format!("what a room needs ({error:?})")),
            Err(error) => panic!("{error:?}"),
        }
        Ok(ground)
    }

    fn with(folder: tempfile::TempDir, rooms: Arc<dyn Rooms>, found_again: Arc<dyn Rooms>) -> Self {
        for place in ["run", "layers", "logs"] {
            files::make_private_folder(&folder.path().join(place)).unwrap();
        }
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        Self { folder, rooms, found_again, runtime }
    }

    pub(crate) fn has(&self, capability: Capability) -> bool {
        self.rooms.capabilities().has(capability)
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.folder.path().join("logs")
    }

    pub(crate) fn runs(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Returns an order for a room with its own worktree.
    pub(crate) fn order(&self, name: &str) -> RoomOrder {
        let folder = self.folder.path();
        let worktree = folder.join("trees").join(name);
        files::make_folder(&worktree).unwrap();
        hands::give_tree(&worktree, &Give::whole()).unwrap();
        RoomOrder {
            id: format!("conformance-{}-{name}", std::process::id()),
            sandbox: None,
            hostname: name.into(),
            names: Vec::new(),
            worktree,
            aliases: Vec::new(),
            storage: folder.join("layers").join(name),
            runtime: folder.join("run").join(name),
            tools: Vec::new(),
            mounts: Vec::new(),
            masks: Vec::new(),
            git: None,
            memory: None,
            cpus: None,
            pids: None,
            disk: None,
            ephemeral: false,
            wall: RoomWall::default(),
            claim: Some(folder.join(format!("{name}.claim"))),
            layers: None,
        }
    }

    /// Starts a room and connects to it.
    pub(crate) fn room(&self, name: &str) -> Room<'_> {
        let order = self.order(name);
        self.rooms.start(&order).unwrap();
        let connection = self.connect(&order.runtime);
        Room { ground: self, order, connection }
    }

    pub(crate) fn connect(&self, runtime: &Path) -> Arc<dyn RoomConnection> {
        self.wait(self.rooms.connect(runtime)).unwrap()
    }

    /// Waits for an answer, with a time limit.
    pub(crate) fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        let answer = async { tokio::time::timeout(PATIENCE, answer).await };
        self.runtime.block_on(answer).expect("an answer in time")
    }
}

/// A running room.
pub(crate) struct Room<'a> {
    pub(crate) ground: &'a Ground,
    pub(crate) order: RoomOrder,
    pub(crate) connection: Arc<dyn RoomConnection>,
}

/// The pipe ends of a command.
pub(crate) struct Pipes {
    pub(crate) stdin: File,
    pub(crate) stdout: File,
    pub(crate) stderr: File,
}

impl Room<'_> {
    pub(crate) fn runtime(&self) -> &Path {
        &self.order.runtime
    }

    /// Describes a command as the agent, with pipes.
    pub(crate) fn spec(&self, id: &str, words: &[&str]) -> ExecSpec {
        ExecSpec {
            id: ExecId(id.into()),
            argv: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
            env: vec![b"PATH=/usr/bin:/bin".to_vec(), b"GREETING=hello".to_vec()],
            cwd: self.order.worktree.as_os_str().as_encoded_bytes().to_vec(),
            user: RoomUser::Agent,
            stdio: Stdio::Pipes,
            service: None,
        }
    }

    /// Starts a shell command.
    pub(crate) fn shell(&self, id: &str, script: &str) -> Pipes {
        let started = self.connection.exec(self.spec(id, &["sh", "-c", script]));
        pipes(self.ground.wait(started).unwrap())
    }

    /// Runs a shell command to its end; returns its output and how it ended.
    pub(crate) fn say(&self, id: &str, script: &str) -> (String, Exit) {
        let Pipes { stdin, mut stdout, stderr: _stderr } = self.shell(id, script);
        drop(stdin);
        let mut said = String::new();
        stdout.read_to_string(&mut said).unwrap();
        (said, self.end_of(id))
    }

    pub(crate) fn end_of(&self, id: &str) -> Exit {
        self.ground.wait(self.connection.wait(ExecId(id.into()))).unwrap()
    }
}

pub(crate) fn pipes(streams: ExecStreams) -> Pipes {
    let ExecStreams::Pipes { stdin, stdout, stderr } = streams else {
        panic!("pipes were asked for: {streams:?}");
    };
    Pipes { stdin: stdin.into(), stdout: stdout.into(), stderr: stderr.into() }
}

/// Waits until a condition holds.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Creates a folder that root may share with rooms: nobody else can reach what they leave there.
fn private_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).unwrap();
    folder
}

/// Returns the folder of base layers that all cases share: creating one takes seconds.
fn shared_base() -> PathBuf {
    let own = std::fs::metadata("/proc/self").unwrap().uid();
    let base = std::env::temp_dir().join(format!("hothouse-test-cache-conformance-{own}"));
    files::make_private_folder(&base).unwrap();
    base
}
