//! Rooms of this host's own kernel: namespaces, no engine, no root.

mod command;
mod services;

use std::{
    collections::BTreeMap,
    future::Future,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use hothouse_host::{
    files,
    relay::Pipes,
    room::{
        self, Access, Bind, ClientError, Fences, Limits, ROOM_FILE, RoomClient, RoomSpec, Started,
    },
};
use hothouse_model::{
    room::{RoomGitPlaces, RoomOrder, RoomReport, STOP_GRACE},
    stack::{ServiceAction, StackOrder, StackReport},
};

use crate::{RoomCommand, RoomError, RoomRun, Rooms};

/// Its presence in a runtime folder says that the room is suspended by signals, of which the kernel
/// keeps no trace.
const SUSPENDED: &str = "suspended";

/// Lists the tool folders of a room in its runtime folder, each closed by a NUL.
const TOOLS: &str = "tools";

/// How much longer than its own grace a room may take before it is killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// The native backend.
#[derive(Clone, Debug)]
pub struct NativeRooms {
    /// The base layers that all rooms share.
    pub base_layer: PathBuf,
}

/// A room as it is written down.
#[derive(Debug)]
struct RoomFile {
    started: Started,
    suspended: bool,
}

impl RoomFile {
    fn read(runtime: &Path) -> Option<Self> {
        let text = files::read_text(&runtime.join(ROOM_FILE)).ok()?;
        let suspended = files::exists(&runtime.join(SUSPENDED));
        Some(Self { started: serde_json::from_str(&text).ok()?, suspended })
    }

    /// Reads the room, if it lives.
    fn alive(runtime: &Path) -> Result<Self, RoomError> {
        let file = Self::read(runtime).filter(|file| file.started.identity.is_alive());
        file.ok_or_else(|| RoomError::Gone { runtime: runtime.to_owned() })
    }

    fn report(&self) -> RoomReport {
        let Started { mode, groups, fences, caveats, .. } = &self.started;
        let mode =
            serde_json::to_value(mode).ok().and_then(|word| word.as_str().map(str::to_owned));
        RoomReport {
            mode: mode.unwrap_or_default(),
            fences: shown_fences(fences),
            caveats: caveats
                .iter()
                .map(|caveat| (caveat.code.clone(), caveat.message.clone()))
                .collect(),
            frozen: self.suspended || groups.is_frozen(),
        }
    }
}

/// Names the fences as the API does: snake case, a plain `on` without details, one entry per limit.
fn shown_fences(fences: &Fences) -> BTreeMap<String, String> {
    let plain = |state: &str| match state.split_once(':') {
        Some(("on", _)) => "on".to_owned(),
        _ => state.to_owned(),
    };
    // Without these two a room does not start at all.
    let mut shown: BTreeMap<_, _> =
        ["user_ns", "net"].map(|name| (name.to_owned(), "on".to_owned())).into();
    for (name, state) in fences {
        if name == "cgroup" {
            shown.extend(["memory", "cpu", "pids"].map(|limit| (limit.to_owned(), plain(state))));
        } else {
            shown.insert(name.replace('-', "_"), plain(state));
        }
    }
    shown
        .insert("disk".into(), "off: this file system has no quota that hothouse could set".into());
    shown
}

impl Rooms for NativeRooms {
    fn start(&self, order: &RoomOrder) -> Result<RoomReport, RoomError> {
        files::make_private_folder(&order.runtime)?;
        files::make_private_folder(&order.storage)?;
        files::make_private_folder(&self.base_layer)?;
        files::remove_file(&order.runtime.join(SUSPENDED))?;
        let tools: String =
            order.tools.iter().map(|tool| format!("{}\0", tool.display())).collect();
        files::write_quick(&order.runtime.join(TOOLS), tools.as_bytes(), 0o600)?;
        Ok(RoomFile { started: room::start(&self.spec(order))?, suspended: false }.report())
    }

    fn stop(&self, runtime: &Path) -> Result<(), RoomError> {
        if let Ok(file) = RoomFile::alive(runtime) {
            thaw(&file, runtime)?;
            end_politely(&file, runtime);
        }
        self.kill(runtime)
    }

    fn kill(&self, runtime: &Path) -> Result<(), RoomError> {
        if let Some(file) = RoomFile::read(runtime) {
            room::stop(&file.started, runtime).map_err(RoomError::Stop)?;
        }
        Ok(files::remove_tree(runtime)?)
    }

    fn look(&self, runtime: &Path) -> Option<RoomReport> {
        RoomFile::alive(runtime).ok().map(|file| file.report())
    }

    fn tools(&self, runtime: &Path) -> Vec<PathBuf> {
        let text = files::read_text(&runtime.join(TOOLS)).unwrap_or_default();
        text.split_terminator('\0').map(PathBuf::from).collect()
    }

    fn freeze(&self, runtime: &Path) -> Result<(), RoomError> {
        let file = RoomFile::alive(runtime)?;
        if file.started.groups.freezer.is_some() {
            return file.started.groups.freeze().map_err(RoomError::Freeze);
        }
        files::write_quick(&runtime.join(SUSPENDED), b"", 0o600)?;
        talk(runtime, async |client: &RoomClient| client.suspend().await)
    }

    fn thaw(&self, runtime: &Path) -> Result<(), RoomError> {
        let file = RoomFile::alive(runtime)?;
        thaw(&file, runtime)?;
        Ok(files::remove_file(&runtime.join(SUSPENDED))?)
    }

    fn remove_storage(&self, storage: &Path) -> Result<(), RoomError> {
        room::remove_storage(storage, None).map_err(RoomError::Remove)
    }

    fn converse(&self, runtime: &Path, command: &RoomCommand) -> Result<Pipes, RoomError> {
        command::converse(runtime, command)
    }

    fn run(&self, runtime: &Path, command: &RoomCommand) -> Result<RoomRun, RoomError> {
        command::run(runtime, command)
    }

    fn supervise(&self, runtime: &Path, stack: &StackOrder) -> Result<(), RoomError> {
        services::supervise(runtime, stack)
    }

    fn stack(&self, runtime: &Path) -> Option<StackOrder> {
        services::stack(runtime)
    }

    fn services(
        &self,
        runtime: &Path,
        after: Option<u64>,
        patience: Duration,
    ) -> Result<StackReport, RoomError> {
        services::services(runtime, after, patience)
    }

    fn act(
        &self,
        runtime: &Path,
        service: Option<&str>,
        action: ServiceAction,
    ) -> Result<(), RoomError> {
        services::act(runtime, service, action)
    }
}

impl NativeRooms {
    fn spec(&self, order: &RoomOrder) -> RoomSpec {
        let mounts = order.mounts.iter().map(|mount| Bind {
            source: mount.source.clone(),
            target: mount.target.clone(),
            access: if mount.writable { Access::Write } else { Access::Read },
        });
        let (git_mounts, pointers) =
            order.git.as_ref().map(|git| git_binds(git, order)).unwrap_or_default();
        RoomSpec {
            id: order.id.clone(),
            hostname: order.hostname.clone(),
            names: order.names.clone(),
            worktree: order.worktree.clone(),
            aliases: order.aliases.clone(),
            storage: order.storage.clone(),
            base_layer: self.base_layer.clone(),
            runtime: order.runtime.clone(),
            tools: order.tools.clone(),
            mounts: mounts.chain(git_mounts).collect(),
            readonly_binds: pointers,
            masks: order.masks.clone(),
            limits: Limits { memory: order.memory, cpus: order.cpus, pids: order.pids },
            ephemeral: order.ephemeral,
            mode: None,
            shifted_base: RoomSpec::DEFAULT_SHIFTED_BASE,
        }
    }
}

/// Returns what shows a room its git: the folder at its own path, the shared objects, and the pointer on every alias of the worktree, where no later mount can be put over it.
fn git_binds(git: &RoomGitPlaces, order: &RoomOrder) -> (Vec<Bind>, Vec<Bind>) {
    let folder = &git.folder;
    let own = Bind { source: folder.clone(), target: folder.clone(), access: Access::Write };
    let objects = git.objects.iter().enumerate().map(|(number, folder)| Bind {
        source: folder.clone(),
        target: RoomGitPlaces::objects_inside(number),
        access: Access::ReadAsOwner,
    });
    let mounts = std::iter::once(own).chain(objects).collect();
    let views = std::iter::once(&order.worktree).chain(&order.aliases);
    let pointers = views.map(|view| Bind {
        source: git.pointer.clone(),
        target: view.join(".git"),
        access: Access::ReadAsOwner,
    });
    (mounts, pointers.collect())
}

fn thaw(file: &RoomFile, runtime: &Path) -> Result<(), RoomError> {
    if file.started.groups.freezer.is_some() {
        return file.started.groups.thaw().map_err(RoomError::Freeze);
    }
    if file.suspended {
        return talk(runtime, async |client: &RoomClient| client.resume().await);
    }
    Ok(())
}

/// Asks a room to end, and waits a while. Whoever does not end is killed next.
fn end_politely(file: &RoomFile, runtime: &Path) {
    let asked = talk(runtime, async |client: &RoomClient| client.shutdown(STOP_GRACE).await);
    if let Err(error) = asked {
        tracing::warn!(%error, "the room does not listen; it is killed");
        return;
    }
    let deadline = Instant::now() + services::grace(runtime) + STOP_GRACE + PATIENCE;
    while file.started.identity.is_alive() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Has a conversation with a room from a thread that may block.
fn talk<T>(
    runtime: &Path,
    ask: impl AsyncFnOnce(&RoomClient) -> Result<T, ClientError>,
) -> Result<T, RoomError> {
    let conversation = async {
        let client = RoomClient::connect(runtime).await?;
        ask(&client).await
    };
    block_on(conversation)?.map_err(RoomError::Talk)
}

fn block_on<F: Future>(future: F) -> Result<F::Output, RoomError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.map_err(RoomError::Runtime)?.block_on(future))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_are_named_as_the_api_names_them() {
        let of = |pairs: &[(&str, &str)]| {
            let fences =
                pairs.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned()));
            shown_fences(&fences.collect())
        };
        let shown = of(&[
            ("landlock", "on: ABI 7, signals"),
            ("no-new-privileges", "on"),
            ("cgroup", "v1"),
        ]);
        for (name, state) in [
            ("landlock", "on"),
            ("no_new_privileges", "on"),
            ("memory", "v1"),
            ("user_ns", "on"),
            ("net", "on"),
        ] {
            assert_eq!(shown.get(name).map(String::as_str), Some(state), "{name}");
        }
        assert!(of(&[("cgroup", "off: not delegated")])["memory"].starts_with("off: "));
        assert!(shown["disk"].starts_with("off: "));
    }
}
