//! Plans: every operation of several steps, recorded before it begins.
//!
//! The whole plan is recorded first. Then its steps are applied in order and marked as done one by one. After a crash
//! the next daemon finds the first step that is not marked: it may have happened completely, in part, or not at all. So
//! each step can be undone from any of these states, and applied again.
//!
//! ```text
//! fork:     begin -> [Exclude] -> [Freeze] -> AddWorktree -> [CopyTrees -> Thaw] -> done   a failure goes back
//! adopt:    begin -> done
//! delete:   begin -> [StopRoom] -> [KeepIndex] -> [RemoveTrees] -> SetAside -> RemoveWorktree or
//!           ReleaseWorktree -> done   a failure stays: the sandbox is still being deleted
//! undelete: begin -> BringBack -> [AddWorktree] -> done           a failure goes back: it is in the trash again
//! up:       begin -> [PrepareData] -> StartRoom -> RaiseWall -> [Supervise] -> done   a failure goes back
//! down:     begin -> StopRoom -> done                            a failure stays
//! snapshot: begin -> [Freeze] -> CopyTrees -> [Thaw] -> done     a failure goes back
//! restore:  begin -> StageTrees -> SwapTrees -> [Rewind] -> RemoveTrees -> done   back until RemoveTrees
//! pool:     begin -> [Exclude] -> MakePool -> done               a failure goes back
//! ```

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{
    aside::Aside,
    room::{RoomOrder, WallOrder},
    stack::{DataOrder, StackOrder},
    tree::{TreeCopy, TreeOrder, WorktreeOrder},
    words::word_type,
};

word_type! {
    /// What a plan is for; this decides which way it goes after a failure.
    PlanKind {
        Fork = "fork",
        Adopt = "adopt",
        Delete = "delete",
        Undelete = "undelete",
        Nuke = "nuke",
        Up = "up",
        Down = "down",
        Snapshot = "snapshot",
        Restore = "restore",
        Forget = "forget",
        Pool = "pool",
    }
}

/// Which way a failed plan goes. Either way it ends: a failed plan is never retried automatically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Undo in reverse, as if the plan had never been made.
    Back,
    /// Stay: going back would restore what the user discarded. The next operation on the same sandbox starts again.
    Stay,
}

impl PlanKind {
    /// Returns which way a plan of this kind goes when one of its steps fails.
    pub fn after_failure(self) -> Direction {
        match self {
            Self::Fork | Self::Adopt | Self::Undelete | Self::Up | Self::Snapshot | Self::Pool => {
                Direction::Back
            }
            Self::Delete | Self::Nuke | Self::Down | Self::Restore | Self::Forget => {
                Direction::Stay
            }
        }
    }

    /// Returns which way it goes when this step fails.
    pub fn after_failure_of(self, step: &Step) -> Direction {
        match step {
            // The trees to be replaced still exist.
            Step::StageTrees { .. } | Step::SwapTrees { .. } | Step::Rewind { .. } => {
                Direction::Back
            }
            _ => self.after_failure(),
        }
    }

    /// Returns a verb for "could not …".
    pub fn verb(self) -> &'static str {
        match self {
            Self::Fork => "fork",
            Self::Delete | Self::Nuke => "delete",
            Self::Undelete => "bring back",
            Self::Up => "start sandbox",
            Self::Down => "stop sandbox",
            Self::Adopt => "adopt",
            Self::Snapshot => "take a snapshot of",
            Self::Restore => "restore",
            Self::Forget => "remove the snapshot",
            Self::Pool => "make the pool",
        }
    }
}

/// Where a branch of a worktree comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BranchOrigin {
    /// The plan creates it, and removes it when it goes back.
    New,
    /// It already exists.
    Existing,
    /// It already exists, but is behind the base: it is fast-forwarded. That is not undone, since a fast-forward loses
    /// nothing.
    Behind,
}

/// One idempotent step, with everything that `apply` and `undo` need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum Step {
    /// Tells git to ignore a path of the checkout. Undone by removing the line again.
    Exclude { common_dir: PathBuf, pattern: String },
    /// Adds a worktree and fills it. Undone by removing it, and its branch if the plan created it.
    AddWorktree { order: Box<WorktreeOrder> },
    /// Writes the user's uncommitted config.
    WriteConfig { worktree: PathBuf, text: String },
    /// Writes the file with the agent's task.
    WriteTask { worktree: PathBuf, text: String },
    /// Moves everything that is kept of a sandbox into one folder, with `note` as its description. Without a note,
    /// discards it there. Never undone: what has moved stays, and the rest follows.
    SetAside { aside: Box<Aside>, note: Option<String> },
    /// Moves everything except the worktree back. Undone by setting it aside again.
    BringBack { aside: Box<Aside> },
    /// Removes a worktree; the branch stays. Whether that loses work was checked before.
    RemoveWorktree { common_dir: PathBuf, tree: TreeOrder },
    /// Returns the files of a worktree that stays to the user, and its index to the user's git.
    ReleaseWorktree { common_dir: PathBuf, worktree: PathBuf },
    /// Copies trees as they are now. Undone by deleting the copies.
    CopyTrees { copies: Vec<TreeCopy> },
    /// Copies trees next to their destinations. Undone by deleting the copies.
    StageTrees { copies: Vec<TreeCopy> },
    /// Replaces trees with their staged copies, while no room uses them. Undone by putting the replaced trees back.
    #[serde(alias = "replace-trees")]
    SwapTrees {
        copies: Vec<TreeCopy>,
        #[serde(default)]
        claim: Option<PathBuf>,
    },
    /// Removes trees that belong to no repository.
    RemoveTrees { trees: Vec<TreeOrder> },
    /// Moves a worktree's branch and the host's index back to an earlier state. Undone by moving the branch to where it
    /// was.
    Rewind {
        common_dir: PathBuf,
        worktree: PathBuf,
        branch: String,
        commit: String,
        #[serde(default)]
        former: Option<String>,
        index: PathBuf,
    },
    /// Copies the host's index of a worktree into a snapshot. Undone by removing it.
    KeepIndex { common_dir: PathBuf, worktree: PathBuf, to: PathBuf },
    /// Freezes every process of a room. Undone by resuming them.
    Freeze { runtime: PathBuf },
    /// Lets the processes of a room continue.
    Thaw { runtime: PathBuf },
    /// Gives a service its initial data; existing data stays, even when the plan goes back.
    PrepareData { data: DataOrder },
    /// Copies the worktree as it is now, without the user's secrets. Undone by removing the copy.
    FreezeTree {
        from: PathBuf,
        to: PathBuf,
        #[serde(default)]
        without: Vec<PathBuf>,
    },
    /// Sends a room its services, and starts them. They end with the room.
    Supervise { runtime: PathBuf, stack: Box<StackOrder> },
    /// Starts a room. Undone by stopping it.
    StartRoom { order: Box<RoomOrder> },
    /// Starts the wall of a room, before anything runs in the room. It ends with the room.
    RaiseWall { wall: WallOrder },
    /// Stops a room; fine if it has ended already. Without its runtime folder it is found by its claim.
    StopRoom {
        runtime: PathBuf,
        #[serde(default)]
        claim: Option<PathBuf>,
    },
    /// Removes the layers and the home of a room.
    RemoveStorage { path: PathBuf },
    /// Removes one of our files or folders with everything in it.
    Remove { path: PathBuf },
    /// Removes the golden trees and the trash beside sandboxes, and the folder itself if it is then empty.
    RemoveStore { sandboxes: PathBuf },
    /// Creates a pool for a folder of sandboxes. Undone by removing it.
    MakePool { folder: PathBuf, bytes: u64 },
    /// Sets a quota on a tree in a pool.
    LimitTree { pool: PathBuf, tree: PathBuf, bytes: u64 },
    /// Removes a pool without sandboxes.
    RemovePool { folder: PathBuf },
}

impl Step {
    /// Returns whether the step's effect outlives the daemon. A step without a lasting effect is never marked as done:
    /// whoever continues the plan applies it again.
    pub fn outlives_daemon(&self) -> bool {
        !matches!(self, Self::RaiseWall { .. })
    }

    /// Returns what the step does, for progress and for messages.
    pub fn title(&self) -> String {
        let trees =
            |trees: usize| if trees == 1 { "1 tree".into() } else { format!("{trees} trees") };
        match self {
            Self::Exclude { pattern, .. } => format!("let git ignore {pattern}"),
            Self::AddWorktree { order } => {
                format!("add the worktree {}", order.tree.path.display())
            }
            Self::WriteConfig { .. } => "copy the uncommitted config".to_owned(),
            Self::WriteTask { .. } => "write the task".to_owned(),
            Self::SetAside { note: Some(_), .. } => "move it to the trash".to_owned(),
            Self::SetAside { note: None, .. } => "move its files away".to_owned(),
            Self::BringBack { .. } => "bring its files back".to_owned(),
            Self::ReleaseWorktree { .. } => "give the worktree back".to_owned(),
            Self::RemoveWorktree { tree, .. } => {
                format!("remove the worktree {}", tree.path.display())
            }
            Self::CopyTrees { copies } => format!("copy {}", trees(copies.len())),
            Self::StageTrees { copies } => format!("copy {} aside", trees(copies.len())),
            Self::SwapTrees { copies, .. } => format!("replace {}", trees(copies.len())),
            Self::RemoveTrees { trees: all } => format!("remove {}", trees(all.len())),
            Self::Rewind { branch, .. } => format!("move branch {branch} back"),
            Self::KeepIndex { .. } => "save the index".to_owned(),
            Self::Freeze { .. } => "freeze the room".to_owned(),
            Self::Thaw { .. } => "resume the room".to_owned(),
            Self::PrepareData { data } => format!("prepare the data of `{}`", data.service),
            Self::FreezeTree { .. } => "freeze the worktree".to_owned(),
            Self::Supervise { .. } => "start the services".to_owned(),
            Self::StartRoom { order } => format!("start the room {}", order.id),
            Self::RaiseWall { .. } => "start the wall of the room".to_owned(),
            Self::StopRoom { .. } => "stop the room".to_owned(),
            Self::RemoveStorage { path } => format!("remove the layers in {}", path.display()),
            Self::Remove { path } => format!("remove {}", path.display()),
            Self::RemoveStore { sandboxes } => {
                format!("remove the golden trees in {}", sandboxes.display())
            }
            Self::LimitTree { .. } => "limit the worktree's disk".to_owned(),
            Self::MakePool { folder, .. } => format!("make the pool of {}", folder.display()),
            Self::RemovePool { folder } => format!("remove the pool of {}", folder.display()),
        }
    }
}

/// The inputs of a fork, collected before planning.
#[derive(Clone, Debug)]
pub struct ForkFacts {
    /// Patterns that git must ignore first.
    pub excludes: Vec<String>,
    pub worktree: WorktreeOrder,
    /// Trees to copy from another sandbox.
    pub copies: Vec<TreeCopy>,
    /// The runtime folder of a room to freeze during the copy.
    pub freeze: Option<PathBuf>,
    /// The user's own config, if the commit has none.
    pub config: Option<String>,
    /// The agent's task.
    pub task: Option<String>,
}

/// Plans the steps of `fork`.
pub fn plan_fork(facts: &ForkFacts) -> Vec<Step> {
    let ForkFacts { excludes, worktree, copies, freeze, config, task } = facts;
    let mut steps = Vec::new();
    for pattern in excludes {
        let common_dir = worktree.common_dir.clone();
        steps.push(Step::Exclude { common_dir, pattern: pattern.clone() });
    }
    steps.extend(freeze.clone().map(|runtime| Step::Freeze { runtime }));
    steps.push(Step::AddWorktree { order: Box::new(worktree.clone()) });
    if !copies.is_empty() {
        steps.push(Step::CopyTrees { copies: copies.clone() });
    }
    steps.extend(freeze.clone().map(|runtime| Step::Thaw { runtime }));
    let worktree = &worktree.tree.path;
    steps.extend(config.clone().map(|text| Step::WriteConfig { worktree: worktree.clone(), text }));
    steps.extend(task.clone().map(|text| Step::WriteTask { worktree: worktree.clone(), text }));
    steps
}

/// The inputs of a deletion.
#[derive(Clone, Debug)]
pub struct DeleteFacts {
    pub common_dir: PathBuf,
    pub worktree: DeletedWorktree,
    /// The room's git directory, data and snapshots.
    pub trees: Vec<TreeOrder>,
    /// Staged copies that an interrupted restore left behind.
    pub staged: Vec<TreeOrder>,
    /// Files and folders on another file system, which never go to the trash.
    pub far: Vec<PathBuf>,
    /// Files and folders that hold nothing else.
    pub rest: Vec<PathBuf>,
    /// Where the room's control socket would be.
    pub runtime: PathBuf,
    /// The lock with which the room would hold the sandbox's files.
    pub claim: Option<PathBuf>,
    /// Where the room's layers would be.
    pub storage: PathBuf,
    /// Whether the sandbox was ever up.
    pub had_room: bool,
}

/// What happens to a worktree when its sandbox is deleted.
#[derive(Clone, Debug)]
pub enum DeletedWorktree {
    Goes(TreeOrder),
    /// It is not ours to remove.
    Stays(PathBuf),
    /// Not ours, and cannot be released either: a room of another state folder uses it.
    InUse,
}

/// What a deletion does with a sandbox's files.
#[derive(Clone, Debug)]
pub enum Removal {
    /// Keeps them in the trash, with a note of what they were, and git's index if git knows the worktree.
    Kept { aside: Aside, note: String, index: Option<PathBuf> },
    /// Moves them away, and removes them in the background.
    Discarded { aside: Aside },
    /// Removes them in place: a full disk may have no space for another folder.
    InPlace,
}

/// Plans the steps of `delete` for one sandbox.
pub fn plan_delete(facts: &DeleteFacts, removal: &Removal) -> Vec<Step> {
    let mut steps = Vec::new();
    if facts.had_room {
        let (runtime, claim) = (facts.runtime.clone(), facts.claim.clone());
        steps.push(Step::StopRoom { runtime, claim });
    }
    match removal {
        Removal::Kept { aside, note, index } => {
            steps.extend(index.clone().and_then(|to| keep_index(facts, to)));
            steps.extend(remove_trees(&facts.staged));
            let (aside, note) = (Box::new(aside.clone()), Some(note.clone()));
            steps.push(Step::SetAside { aside, note });
            steps.extend(detach(facts));
            steps.extend(facts.far.iter().map(|path| Step::Remove { path: path.clone() }));
        }
        Removal::Discarded { aside } => {
            steps.extend(remove_trees(&facts.staged));
            steps.push(Step::SetAside { aside: Box::new(aside.clone()), note: None });
            steps.extend(detach(facts));
            steps.extend(facts.far.iter().map(|path| Step::Remove { path: path.clone() }));
        }
        Removal::InPlace => {
            steps.extend(detach(facts));
            steps.extend(remove_trees(&[facts.trees.clone(), facts.staged.clone()].concat()));
            let storage = facts.had_room.then(|| facts.storage.clone());
            steps.extend(storage.map(|path| Step::RemoveStorage { path }));
            steps.extend(facts.rest.iter().map(|path| Step::Remove { path: path.clone() }));
        }
    }
    steps
}

fn keep_index(facts: &DeleteFacts, to: PathBuf) -> Option<Step> {
    let DeletedWorktree::Goes(tree) = &facts.worktree else { return None };
    let (common_dir, worktree) = (facts.common_dir.clone(), tree.path.clone());
    Some(Step::KeepIndex { common_dir, worktree, to })
}

fn remove_trees(trees: &[TreeOrder]) -> Option<Step> {
    (!trees.is_empty()).then(|| Step::RemoveTrees { trees: trees.to_owned() })
}

/// Takes the worktree from git, or returns it to the user.
fn detach(facts: &DeleteFacts) -> Option<Step> {
    let common_dir = facts.common_dir.clone();
    match facts.worktree.clone() {
        DeletedWorktree::Goes(tree) => Some(Step::RemoveWorktree { common_dir, tree }),
        DeletedWorktree::Stays(worktree) => Some(Step::ReleaseWorktree { common_dir, worktree }),
        DeletedWorktree::InUse => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{DriverName, WorktreeSource};

    fn tree(name: &str) -> TreeOrder {
        TreeOrder {
            sandboxes: "/r-sandboxes".into(),
            name: name.into(),
            path: format!("/r-sandboxes/{name}").into(),
            driver: DriverName::Copy.into(),
        }
    }

    fn facts(freeze: Option<PathBuf>) -> ForkFacts {
        ForkFacts {
            excludes: vec!["/.worktrees/".into()],
            worktree: WorktreeOrder {
                common_dir: "/r/.git".into(),
                root: "/r".into(),
                tree: tree("a"),
                branch: "a".into(),
                origin: BranchOrigin::New,
                commit: "c0ffee".into(),
                source: WorktreeSource::Commit { dependencies: Vec::new(), setup: None },
            },
            copies: vec![TreeCopy { from: tree("b"), to: tree("a.data") }],
            freeze,
            config: None,
            task: Some("make it blue".into()),
        }
    }

    #[test]
    fn a_live_source_holds_still_while_its_trees_are_copied() {
        let titles = |freeze: Option<&str>| {
            let steps = plan_fork(&facts(freeze.map(PathBuf::from)));
            steps.iter().map(Step::title).collect::<Vec<_>>()
        };
        let still = [
            "let git ignore /.worktrees/",
            "add the worktree /r-sandboxes/a",
            "copy 1 tree",
            "write the task",
        ];
        assert_eq!(titles(None), still);
        let live = titles(Some("/run/b"));
        assert_eq!((live[1].as_str(), live[4].as_str()), ("freeze the room", "resume the room"));
    }

    #[test]
    fn a_deletion_keeps_discards_or_removes_on_the_spot() {
        let facts = DeleteFacts {
            common_dir: "/r/.git".into(),
            worktree: DeletedWorktree::Goes(tree("a")),
            trees: vec![tree("a.git")],
            staged: vec![tree("a~")],
            far: Vec::new(),
            rest: vec!["/r-sandboxes/.hothouse/sandboxes/a".into()],
            runtime: "/run/a".into(),
            claim: None,
            storage: "/r-sandboxes/.hothouse/rooms/a".into(),
            had_room: true,
        };
        let parts = crate::aside::HomeParts {
            worktree: Some(tree("a")),
            trees: Vec::new(),
            named: Vec::new(),
            storage: facts.storage.clone(),
        };
        let aside = Aside::of(std::path::Path::new("/t"), &parts);
        let titles = |removal: &Removal| -> Vec<_> {
            plan_delete(&facts, removal).iter().map(Step::title).collect()
        };
        let index = Some("/t/index".into());
        let kept = Removal::Kept { aside: aside.clone(), note: "{}".into(), index };
        assert_eq!(
            titles(&kept),
            [
                "stop the room",
                "save the index",
                "remove 1 tree",
                "move it to the trash",
                "remove the worktree /r-sandboxes/a"
            ]
        );
        assert_eq!(titles(&Removal::Discarded { aside })[2], "move its files away");
        assert_eq!(
            titles(&Removal::InPlace).last().unwrap(),
            "remove /r-sandboxes/.hothouse/sandboxes/a"
        );
    }

    #[test]
    fn a_fork_is_undone_and_a_deletion_is_not() {
        assert_eq!(PlanKind::Fork.after_failure(), Direction::Back);
        assert_eq!(PlanKind::Delete.after_failure(), Direction::Stay);
        assert_eq!(PlanKind::Nuke.after_failure(), Direction::Stay);
        assert_eq!(PlanKind::Up.after_failure(), Direction::Back);
        assert_eq!(PlanKind::Down.after_failure(), Direction::Stay);
    }

    #[test]
    fn a_step_survives_being_written_down() {
        for step in plan_fork(&facts(Some("/run/b".into()))) {
            let text = serde_json::to_string(&step).unwrap();
            assert_eq!(serde_json::from_str::<Step>(&text).unwrap(), step);
        }
    }
}
