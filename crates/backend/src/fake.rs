//! Rooms in memory, for tests of the engine. Their commands and ports are the host's own.

mod commands;
mod connection;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use hothouse_host::{Program, command::Talker, relay::Pipes};
use hothouse_model::{
    config::Backend,
    room::{Capabilities, Capability, DiskUse, RoomOrder, RoomReport, RoomUsage, RoomWall},
    stack::{
        ServiceAction, ServiceReport, StackOrder, StackReport,
        service::{ServiceState, ServiceStatus},
    },
};

use self::{commands::Commands, connection::FakeConnection};
use crate::{
    CallError, Pending, RoomCommand, RoomConnection, RoomError, RoomInstance, RoomRun, Rooms,
};

/// Keeps real state, and can be told to fail.
#[derive(Debug, Default)]
pub struct FakeRooms {
    state: Shared,
}

type Shared = Arc<Mutex<State>>;

const KILL: i32 = 9;
const CONTINUE: i32 = 18;
const STOP: i32 = 19;

/// A running room.
#[derive(Debug)]
struct Living {
    number: u64,
    report: RoomReport,
    commands: Commands,
    /// The connection that has taken over outgoing traffic, while it is held.
    egress: Option<Weak<()>>,
}

#[derive(Debug, Default)]
struct State {
    /// How many rooms were started.
    count: u64,
    alive: BTreeMap<PathBuf, Living>,
    storage: BTreeSet<PathBuf>,
    orders: Vec<RoomOrder>,
    refuses: bool,
    disk: BTreeMap<PathBuf, DiskUse>,
    talkers: Vec<Talker>,
    stacks: BTreeMap<PathBuf, StackOrder>,
}

fn told(error: impl std::fmt::Display) -> RoomError {
    RoomError::Told(error.to_string())
}

impl FakeRooms {
    /// Makes every later start fail.
    pub fn refuse(&self) {
        self.state().refuses = true;
    }

    /// Removes a room without notice.
    pub fn lose(&self, runtime: &Path) {
        self.state().alive.remove(runtime);
    }

    /// Sets the disk usage of a room.
    pub fn fill(&self, runtime: &Path, use_: DiskUse) {
        self.state().disk.insert(runtime.to_owned(), use_);
    }

    /// Returns the storage folders that exist.
    pub fn storage(&self) -> Vec<PathBuf> {
        self.state().storage.iter().cloned().collect()
    }

    /// Returns every order that was received.
    pub fn orders(&self) -> Vec<RoomOrder> {
        self.state().orders.clone()
    }

    /// Returns the number of running rooms.
    pub fn count(&self) -> usize {
        self.state().alive.len()
    }

    /// Whether a wall has taken over a room's outgoing traffic.
    pub fn is_egress_taken(&self, runtime: &Path) -> bool {
        let state = self.state();
        let holder = state.alive.get(runtime).and_then(|room| room.egress.as_ref());
        holder.is_some_and(|holder| holder.strong_count() > 0)
    }

    fn find(&self, runtime: &Path) -> Option<FakeConnection> {
        let number = self.state().alive.get(runtime)?.number;
        let (rooms, runtime) = (self.state.clone(), runtime.to_owned());
        Some(FakeConnection { rooms, runtime, number, held: Arc::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// Returns the program for a command, on the host's files: a fake room has none of its own.
    fn program(&self, runtime: &Path, command: &RoomCommand) -> Result<Program, RoomError> {
        let alive = self.state().alive.get(runtime).is_some_and(|room| !room.report.frozen);
        let (Some((name, arguments)), true) = (command.words.split_first(), alive) else {
            return Err(RoomError::Gone { runtime: runtime.to_owned() });
        };
        let git = self.orders().into_iter().rfind(|order| order.runtime == runtime);
        let objects = git.and_then(|order| order.git).map(|git| git.objects).unwrap_or_default();
        let objects: Vec<_> = objects.iter().map(|path| path.display().to_string()).collect();
        let program = Program::new(name).args(arguments).folder(&command.folder);
        Ok(program.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects.join(":")))
    }

    fn set_frozen(&self, runtime: &Path, frozen: bool) -> Result<(), RoomError> {
        let mut state = self.state();
        let Some(room) = state.alive.get_mut(runtime) else {
            return Err(RoomError::Gone { runtime: runtime.to_owned() });
        };
        room.report.frozen = frozen;
        room.commands.signal_all(if frozen { STOP } else { CONTINUE });
        Ok(())
    }
}

impl Rooms for FakeRooms {
    fn capabilities(&self) -> Capabilities {
        // It has no network of its own: a wall that takes over traffic is recorded, and receives none.
        use Capability::{Adoption, Dial, Freeze, Listen, Services};
        let offered = [Adoption, Dial, Freeze, Listen, Services].into();
        // The backend that it simulates.
        Capabilities { backend: Backend::Native, offered }
    }

    fn connect<'a>(&'a self, runtime: &'a Path) -> Pending<'a, Arc<dyn RoomConnection>> {
        let found = self.find(runtime).map(|room| Arc::new(room) as Arc<dyn RoomConnection>);
        let found = found.ok_or_else(|| CallError::Lost("there is no room".into()));
        Box::pin(std::future::ready(found))
    }

    fn instance(&self, runtime: &Path) -> Option<Arc<dyn RoomInstance>> {
        self.find(runtime).map(|room| Arc::new(room) as Arc<dyn RoomInstance>)
    }

    fn start(&self, order: &RoomOrder) -> Result<RoomReport, RoomError> {
        let mut state = self.state();
        state.storage.insert(order.storage.clone());
        state.orders.push(order.clone());
        if state.refuses {
            return Err(RoomError::Told("start the room".into()));
        }
        let report = RoomReport::default();
        state.count += 1;
        let room = Living {
            number: state.count,
            report: report.clone(),
            commands: Commands::default(),
            egress: None,
        };
        state.alive.insert(order.runtime.clone(), room);
        Ok(report)
    }

    fn stop(&self, runtime: &Path, _claim: Option<&Path>) -> Result<(), RoomError> {
        let mut state = self.state();
        if let Some(room) = state.alive.remove(runtime) {
            room.commands.signal_all(KILL);
        }
        state.stacks.remove(runtime);
        Ok(())
    }

    fn kill(&self, runtime: &Path) -> Result<(), RoomError> {
        self.stop(runtime, None)
    }

    fn list(&self, folder: &Path) -> Result<Vec<PathBuf>, RoomError> {
        let state = self.state();
        Ok(state.alive.keys().filter(|path| path.starts_with(folder)).cloned().collect())
    }

    fn group_ids(&self) -> Vec<String> {
        Vec::new()
    }

    fn clear_groups(&self, _id: &str) -> Result<(), RoomError> {
        Ok(())
    }

    fn claim(&self, claim: &Path) -> Result<Box<dyn Send>, RoomError> {
        let state = self.state();
        let holds = |order: &&RoomOrder| {
            order.claim.as_deref() == Some(claim) && state.alive.contains_key(&order.runtime)
        };
        match state.orders.iter().find(holds) {
            Some(order) => {
                Err(RoomError::InUse { pid: None, runtime: Some(order.runtime.clone()) })
            }
            None => Ok(Box::new(())),
        }
    }

    fn look(&self, runtime: &Path) -> Option<RoomReport> {
        self.state().alive.get(runtime).map(|room| room.report.clone())
    }

    fn usage(&self, runtimes: &[PathBuf]) -> Vec<Option<RoomUsage>> {
        let state = self.state();
        let of = |runtime: &PathBuf| {
            state.alive.get(runtime).map(|_| RoomUsage { processes: 1, ..RoomUsage::default() })
        };
        runtimes.iter().map(of).collect()
    }

    fn tools(&self, runtime: &Path) -> Vec<PathBuf> {
        let orders = self.orders();
        orders
            .iter()
            .rfind(|order| order.runtime == runtime)
            .map(|order| order.tools.clone())
            .unwrap_or_default()
    }

    fn storage(&self, runtime: &Path) -> Option<PathBuf> {
        let orders = self.orders();
        orders.iter().rfind(|order| order.runtime == runtime).map(|order| order.storage.clone())
    }

    fn wall(&self, runtime: &Path) -> RoomWall {
        let orders = self.orders();
        let own = orders.iter().rfind(|order| order.runtime == runtime);
        own.map(|order| order.wall.clone()).unwrap_or_default()
    }

    fn freeze(&self, runtime: &Path) -> Result<(), RoomError> {
        self.set_frozen(runtime, true)
    }

    fn thaw(&self, runtime: &Path) -> Result<(), RoomError> {
        self.set_frozen(runtime, false)
    }

    fn pause_if_full(&self, runtime: &Path) -> Result<Option<DiskUse>, RoomError> {
        let used = self.state().disk.get(runtime).copied();
        let full = used.filter(|used| used.is_too_much(None));
        if full.is_some() {
            self.freeze(runtime)?;
        }
        Ok(full)
    }

    fn tidy(&self) -> Result<(), RoomError> {
        Ok(())
    }

    fn remove_shared(&self) -> Result<(), RoomError> {
        Ok(())
    }

    fn move_storage(&self, from: &Path, to: &Path) -> Result<(), RoomError> {
        let mut state = self.state();
        if state.storage.remove(from) {
            state.storage.insert(to.to_owned());
        }
        Ok(())
    }

    fn remove_storage(&self, storage: &Path) -> Result<(), RoomError> {
        self.state().storage.remove(storage);
        Ok(())
    }

    fn converse(&self, runtime: &Path, command: &RoomCommand) -> Result<Pipes, RoomError> {
        let (talker, pipes) = self.program(runtime, command)?.converse().map_err(told)?;
        self.state().talkers.push(talker);
        Ok(pipes)
    }

    fn run(&self, runtime: &Path, command: &RoomCommand) -> Result<RoomRun, RoomError> {
        let run = self.program(runtime, command)?.run().map_err(told)?;
        Ok(RoomRun { code: run.status.code(), stdout: run.stdout })
    }

    fn supervise(&self, runtime: &Path, stack: &StackOrder) -> Result<(), RoomError> {
        let mut state = self.state();
        if !state.alive.contains_key(runtime) {
            return Err(RoomError::Gone { runtime: runtime.to_owned() });
        }
        state.stacks.insert(runtime.to_owned(), stack.clone());
        Ok(())
    }

    fn stack(&self, runtime: &Path) -> Option<StackOrder> {
        self.state().stacks.get(runtime).cloned()
    }

    fn services(
        &self,
        runtime: &Path,
        _after: Option<u64>,
        _patience: Duration,
    ) -> Result<StackReport, RoomError> {
        Ok(report_of(self.stack(runtime)))
    }

    fn act(
        &self,
        runtime: &Path,
        service: Option<&str>,
        _action: ServiceAction,
    ) -> Result<(), RoomError> {
        let stack = self.stack(runtime).unwrap_or_default();
        let known = |name: &str| stack.services.iter().any(|service| service.name() == name);
        match service {
            Some(name) if !known(name) => Err(RoomError::NoService { service: name.to_owned() }),
            _ => Ok(()),
        }
    }
}

/// Reports every service of a stack as ready.
fn report_of(stack: Option<StackOrder>) -> StackReport {
    let ready = stack.unwrap_or_default().services.into_iter().map(|service| ServiceReport {
        status: ServiceStatus {
            name: service.spec.name,
            state: ServiceState::Ready,
            ..ServiceStatus::default()
        },
        host_pid: None,
    });
    StackReport { version: 1, services: ready.collect() }
}
