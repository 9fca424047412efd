//! Sandboxes: their records, and how users refer to them.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    Explain, FailureKind, NameError, ProjectName, SandboxId, SandboxName,
    config::rules::{among, nearest},
    id::SandboxKey,
    room::{RoomRecord, RoomReport, RoomWish},
    tree::TreeMaker,
};

/// The state of a sandbox as users see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxState {
    Created,
    Starting,
    Ready,
    Degraded,
    Paused,
    Stopped,
    Failed,
    Deleting,
}

impl SandboxState {
    /// Returns its word in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Degraded => "degraded",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Deleting => "deleting",
        }
    }
}

/// A repository, identified by its git common dir.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryPlace {
    /// The canonical path of the shared git directory: two worktrees with the same one belong to
    /// the same project.
    pub common_dir: PathBuf,
    /// The main checkout, or the folder of a bare repository.
    pub root: PathBuf,
}

/// A sandbox as recorded in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxRecord {
    pub key: SandboxKey,
    pub id: SandboxId,
    pub name: SandboxName,
    pub project: ProjectName,
    /// The project's label in URLs: its name, with a number if another project has the same name.
    pub label: String,
    pub repository: RepositoryPlace,
    pub worktree: PathBuf,
    /// The folder of sandboxes; trees, layers and data are beside it.
    pub sandboxes: PathBuf,
    pub branch: String,
    pub base: String,
    pub base_commit: String,
    pub tree_driver: TreeMaker,
    pub task: Option<String>,
    pub created: Timestamp,
    /// The `hothouse.toml` that the user had committed at the base. Only its grants count.
    pub pinned_config: Option<String>,
    /// The last imported tip of the agent.
    pub imported: Option<String>,
    /// The branch with the agent's tip, since the user moved the sandbox's own branch.
    pub agent_branch: Option<String>,
    /// Whether its deletion was acknowledged.
    pub deleting: bool,
    /// Its room, if it was ever up.
    pub room: Option<RoomRecord>,
    /// The stack chosen by `fork --stack`.
    pub stack: Option<String>,
    /// Where its files were in the sandboxes that it was forked from, most recent first.
    pub former_paths: Vec<PathBuf>,
}

impl SandboxRecord {
    /// Returns whether Hothouse did not create the worktree, and so must not remove it.
    pub fn is_adopted(&self) -> bool {
        self.tree_driver == TreeMaker::Foreign
    }

    /// Returns the agent's tip as known to the user's repository.
    pub fn known_tip(&self) -> &str {
        self.imported.as_deref().unwrap_or(&self.base_commit)
    }

    /// Returns its state, given the room that was found running.
    pub fn state(&self, found: Option<&RoomReport>) -> SandboxState {
        match (&self.room, found) {
            _ if self.deleting => SandboxState::Deleting,
            (None, _) => SandboxState::Created,
            (Some(RoomRecord { wish: RoomWish::Starting, .. }), _) => SandboxState::Starting,
            (Some(RoomRecord { wish: RoomWish::Stopped, .. }), _) => SandboxState::Stopped,
            (Some(_), Some(report)) if report.frozen => SandboxState::Paused,
            (Some(_), Some(_)) => SandboxState::Ready,
            (Some(_), None) => SandboxState::Failed,
        }
    }
}

/// A user's name for a sandbox: `NAME`, or `PROJECT/NAME` for another project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxRef {
    pub project: Option<ProjectName>,
    pub name: SandboxName,
}

impl FromStr for SandboxRef {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.split_once('/') {
            Some((project, name)) => {
                Ok(Self { project: Some(project.parse()?), name: name.parse()? })
            }
            None => Ok(Self { project: None, name: text.parse()? }),
        }
    }
}

/// Why no sandbox could be picked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PickError {
    #[error("no sandbox `{wanted}`")]
    Unknown { wanted: String, known: Vec<String> },
    #[error("no sandboxes yet")]
    None,
    #[error("which sandbox? available: {}", .known.join(", "))]
    Ambiguous { known: Vec<String> },
}

impl Explain for PickError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Unknown { .. } | Self::None => FailureKind::NotFound,
            Self::Ambiguous { .. } => FailureKind::Usage,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Unknown { wanted, known } if !known.is_empty() => {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                // Names may have a project prefix, which users need not type.
                let plain = known.iter().map(|name| name.rsplit('/').next().unwrap_or(name));
                let meant = nearest(wanted, plain).filter(|_| !wanted.contains('/'));
                match meant {
                    Some(meant) => {
                        let all = format!("available: {}", known.join(", "));
                        vec![format!("did you mean `{meant}`?"), all]
                    }
                    None => among(wanted, &known),
                }
            }
            Self::Unknown { .. } | Self::None => vec!["make one with `hothouse fork NAME`".into()],
            Self::Ambiguous { known } => vec![format!("name one, as in `-w {}`", known[0])],
        }
    }
}

/// Picks the sandbox that a command refers to.
///
/// In a repository a name refers to one of its own sandboxes, and `project/NAME` to any; elsewhere
/// a name refers to the only sandbox that has it. Without a name it is the sandbox whose worktree
/// contains the current folder; otherwise the only one of the project; outside of repositories the
/// only one that exists.
pub fn pick<'a>(
    all: &'a [SandboxRecord],
    wanted: Option<&SandboxRef>,
    current: &CurrentPlace,
) -> Result<&'a SandboxRecord, PickError> {
    let here = |s: &&SandboxRecord| current.common_dir.as_ref() == Some(&s.repository.common_dir);
    let Some(wanted) = wanted else {
        let holding = all.iter().filter(|s| current.folder.starts_with(&s.worktree));
        if let Some(found) = holding.max_by_key(|s| s.worktree.as_os_str().len()) {
            return Ok(found);
        }
        let of_project: Vec<_> = all.iter().filter(here).collect();
        let candidates =
            if current.common_dir.is_some() { of_project } else { all.iter().collect() };
        return match candidates[..] {
            [] => Err(PickError::None),
            [only] => Ok(only),
            _ => Err(PickError::Ambiguous { known: names(&candidates, current) }),
        };
    };
    let named: Vec<_> = all
        .iter()
        .filter(|s| {
            s.name == wanted.name && wanted.project.as_ref().is_none_or(|p| *p == s.project)
        })
        .collect();
    let within = current.common_dir.is_some() && wanted.project.is_none();
    let named: Vec<_> = named.into_iter().filter(|s| !within || here(s)).collect();
    match named[..] {
        [] => {
            let wanted = match &wanted.project {
                Some(project) => format!("{project}/{}", wanted.name),
                None => wanted.name.to_string(),
            };
            Err(PickError::Unknown {
                wanted,
                known: names(&all.iter().collect::<Vec<_>>(), current),
            })
        }
        [only] => Ok(only),
        _ => Err(PickError::Ambiguous { known: names(&named, current) }),
    }
}

impl SandboxRecord {
    /// Returns whether a folder is in the sandbox's repository or worktree.
    pub fn is_around(&self, folder: &Path) -> bool {
        folder.starts_with(&self.repository.root) || folder.starts_with(&self.worktree)
    }
}

/// Where a command was run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CurrentPlace {
    pub folder: PathBuf,
    /// The git common dir of the enclosing repository, if any.
    pub common_dir: Option<PathBuf>,
}

fn names(sandboxes: &[&SandboxRecord], current: &CurrentPlace) -> Vec<String> {
    let name =
        |s: &&SandboxRecord| match current.common_dir.as_ref() == Some(&s.repository.common_dir) {
            true => s.name.to_string(),
            false => format!("{}/{}", s.project, s.name),
        };
    sandboxes.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sandbox(project: &str, name: &str) -> SandboxRecord {
        SandboxRecord {
            key: SandboxKey(0),
            id: format!("{project}-{name}-0000").into(),
            name: name.parse().unwrap(),
            project: project.parse().unwrap(),
            label: project.into(),
            repository: RepositoryPlace {
                common_dir: format!("/{project}/.git").into(),
                root: format!("/{project}").into(),
            },
            worktree: format!("/{project}-sandboxes/{name}").into(),
            branch: name.into(),
            base: "main".into(),
            base_commit: "c0ffee".into(),
            tree_driver: TreeMaker::Foreign,
            task: None,
            created: Timestamp::UNIX_EPOCH,
            sandboxes: "/s".into(),
            imported: None,
            agent_branch: None,
            pinned_config: None,
            deleting: false,
            room: None,
            stack: None,
            former_paths: Vec::new(),
        }
    }

    fn check(wanted: &str, folder: &str, expected: &str) {
        let all = [
            sandbox("acme", "a"),
            sandbox("acme", "b"),
            sandbox("other", "a"),
            sandbox("lone", "only"),
        ];
        let project =
            ["acme", "other", "lone"].into_iter().find(|p| folder.starts_with(&format!("/{p}")));
        let current = CurrentPlace {
            folder: folder.into(),
            common_dir: project.map(|p| format!("/{p}/.git").into()),
        };
        let wanted = (!wanted.is_empty()).then(|| wanted.parse().unwrap());
        let answer = match pick(&all, wanted.as_ref(), &current) {
            Ok(found) => found.id.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(answer, expected, "{wanted:?} in {folder}");
    }

    #[test]
    fn the_state_is_what_was_wished_and_what_was_found() {
        let room = |wish| {
            let run = crate::room::RunRecord {
                id: "run_1".into(),
                artifacts: "/a".into(),
                started: Timestamp::UNIX_EPOCH,
            };
            SandboxRecord {
                room: Some(RoomRecord { wish, run, ends: None, slept: None, restricted: false }),
                ..sandbox("acme", "a")
            }
        };
        let alive = RoomReport::default();
        let frozen = RoomReport { frozen: true, ..RoomReport::default() };
        assert_eq!(sandbox("acme", "a").state(None), SandboxState::Created);
        assert_eq!(room(RoomWish::Starting).state(None), SandboxState::Starting);
        assert_eq!(room(RoomWish::Up).state(Some(&alive)), SandboxState::Ready);
        assert_eq!(room(RoomWish::Up).state(Some(&frozen)), SandboxState::Paused);
        assert_eq!(room(RoomWish::Up).state(None), SandboxState::Failed);
        assert_eq!(room(RoomWish::Stopped).state(None), SandboxState::Stopped);
        let deleting = SandboxRecord { deleting: true, ..room(RoomWish::Up) };
        assert_eq!(deleting.state(Some(&alive)), SandboxState::Deleting);
    }

    #[test]
    fn the_sandbox_meant_is_the_one_picked() {
        check("a", "/acme", "acme-a-0000");
        check("a", "/other/src", "other-a-0000");
        check("a", "/tmp", "which sandbox? available: acme/a, other/a");
        check("other/a", "/acme", "other-a-0000");
        check("only", "/tmp", "lone-only-0000");
        check("only", "/acme", "no sandbox `only`");
        check("lone/only", "/acme", "lone-only-0000");
        check("", "/acme-sandboxes/b/src", "acme-b-0000");
        check("", "/acme", "which sandbox? available: a, b");
        check("", "/lone", "lone-only-0000");
        check("", "/tmp", "which sandbox? available: acme/a, acme/b, other/a, lone/only");
        check("zz", "/acme", "no sandbox `zz`");
        check("acme/zz", "/acme", "no sandbox `acme/zz`");
    }
}
