//! Why a room could not be started or changed.

use std::path::PathBuf;

use hothouse_backend::RoomError;
use hothouse_host::FileError;
use hothouse_model::{FailureKind, SandboxName, SandboxState};
use hothouse_store::StoreError;
use hothouse_workspace::WorktreeError;

use crate::{
    CommitError, EgressError, PortError,
    data::DataError,
    project::ProjectError,
    run::{PlanFailure, StepError},
    services::ServicesError,
    stacks::RoomStackError,
    wall::WallError,
};

/// Failure to start or change a room.
#[derive(Debug, thiserror::Error)]
pub enum RoomRequestError {
    #[error("sandbox `{name}` is being deleted")]
    Deleting { name: SandboxName },
    #[error("sandbox `{name}` is not running: it is {}", .state.as_str())]
    NotUp { name: SandboxName, state: SandboxState },
    #[error("a restore of `{name}` was interrupted while it replaced files")]
    HalfRestored { name: SandboxName },
    #[error("the worktree {} no longer exists", .path.display())]
    NoWorktree { path: PathBuf },
    #[error("the files of `{name}` exist only in its room, which {cannot}")]
    Hidden { name: SandboxName, cannot: &'static str },
    #[error("backend `{backend}` cannot be used on this host")]
    Backend { backend: &'static str },
    #[error("sandbox `{name}` is up with profile `{profile}`")]
    OtherProfile { name: SandboxName, profile: String },
    #[error(transparent)]
    Stack(#[from] RoomStackError),
    #[error(transparent)]
    Services(#[from] ServicesError),
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error(transparent)]
    Wall(#[from] WallError),
    #[error(transparent)]
    Port(#[from] PortError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Room(#[from] RoomError),
    #[error(transparent)]
    Step(#[from] StepError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Plan(#[from] PlanFailure),
}

hothouse_model::explain! {
    RoomRequestError passes on Stack, Services, Egress, Wall, Port, Data, Project, Worktree, File, Room, Step,
        Commit, Store, Plan;
    kind {
        Self::Deleting { .. }
        | Self::NotUp { .. }
        | Self::HalfRestored { .. }
        | Self::OtherProfile { .. }
 => FailureKind::Conflict,
        Self::NoWorktree { .. } => FailureKind::NotFound,
        Self::Hidden { .. } => FailureKind::Conflict,
        Self::Backend { .. } => FailureKind::Host,
    }
    hints {
        Self::Deleting { name } => {
            vec![format!("wait for it, or run `hothouse delete {name}` again")]
        }
        Self::NotUp { name, state: SandboxState::Paused } => {
            vec![format!("resume it with `hothouse resume -w {name}`")]
        }
        Self::NotUp { name, .. } => vec![format!("start it with `hothouse up -w {name}`")],
        Self::HalfRestored { name } => {
            vec![format!("run `hothouse restore LABEL -w {name}` again")]
        }
        Self::NoWorktree { .. } => {
            vec!["`hothouse doctor --fix` removes the sandbox from the list".into()]
        }
        Self::Hidden { name, .. } => vec![
            format!("run `hothouse down -w {name}` first, or use the running room"),
            "or fork it with another tree: `--tree copy`".into(),
        ],
        Self::OtherProfile { name, .. } => vec![format!(
            "run `hothouse down -w {name}` first, or pass `--reuse` to keep it as it is"
        )],
        Self::Backend { .. } => vec!["set `backend = \"native\"` under `[room]`".into()],
    }
}
