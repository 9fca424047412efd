//! Plans: every operation of several steps, written down before it begins.
//!
//! A plan is recorded whole, then its steps are applied in order and ticked off one by one. After
//! a crash the next daemon finds the first step without a tick: it may have happened wholly, in
//! part, or not at all. So each step can be undone from any of these, and applied again.
//!
//! ```text
//! fork:   begin -> [Exclude] -> [MakeFolder] -> AddWorktree -> done        a failure goes back, in reverse
//! delete: begin -> [StopRoom] -> RemoveWorktree -> ... -> done   a failure stays, to be tried again
//! up:     begin -> StartRoom -> done                           a failure goes back
//! down:   begin -> StopRoom -> done                            a failure stays
//! ```

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::room::RoomOrder;

/// Where the tree of a worktree came from, as `status` shows it.
pub const GIT_TREE_DRIVER: &str = "git";

/// What a plan is for, and which way it goes after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanKind {
    Fork,
    Delete,
    Nuke,
    Up,
    Down,
}

/// Which way an interrupted or failed plan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Undo in reverse: the world is as if the plan had never been made.
    Back,
    /// Try again until it holds: going back would resurrect what the user threw away.
    Forward,
}

impl PlanKind {
    /// Returns which way a plan of this kind goes when one of its steps fails.
    pub fn after_failure(self) -> Direction {
        match self {
            Self::Fork | Self::Up => Direction::Back,
            Self::Delete | Self::Nuke | Self::Down => Direction::Forward,
        }
    }

    /// Reads the word that [`as_str`](Self::as_str) wrote.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Fork, Self::Delete, Self::Nuke, Self::Up, Self::Down]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }

    /// Returns the word for it in messages and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fork => "fork",
            Self::Delete => "delete",
            Self::Nuke => "nuke",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// Where a branch of a worktree comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BranchOrigin {
    /// The plan makes it, and takes it away again when it goes back.
    New,
    /// It was there before.
    Existing,
}

/// One idempotent step. It carries all that `apply` and `undo` need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum Step {
    /// Makes a folder that was not there when the plan was made. Undone by removing it when empty.
    MakeFolder { path: PathBuf },
    /// Tells git to ignore a folder of the checkout. Undone by taking the line away again.
    Exclude { common_dir: PathBuf, pattern: String },
    /// Adds a git worktree. Undone by removing it, and its branch if the plan made that.
    AddWorktree {
        common_dir: PathBuf,
        path: PathBuf,
        branch: String,
        origin: BranchOrigin,
        commit: String,
    },
    /// Removes a git worktree; the branch stays. Whether that loses work was settled before.
    RemoveWorktree { common_dir: PathBuf, path: PathBuf },
    /// Starts a room. Undone by ending it.
    StartRoom { order: Box<RoomOrder> },
    /// Ends a room; one that is gone already is fine.
    StopRoom { runtime: PathBuf },
    /// Removes the layers and the home of a room.
    RemoveStorage { path: PathBuf },
    /// Removes a folder if nothing is left in it.
    RemoveEmptyFolder { path: PathBuf },
}

impl Step {
    /// Says what the step does, for progress and for messages.
    pub fn title(&self) -> String {
        match self {
            Self::MakeFolder { path } => format!("make the folder {}", path.display()),
            Self::Exclude { pattern, .. } => format!("let git ignore {pattern}"),
            Self::AddWorktree { path, .. } => format!("add the worktree {}", path.display()),
            Self::RemoveWorktree { path, .. } => format!("remove the worktree {}", path.display()),
            Self::StartRoom { order } => format!("start the room {}", order.id),
            Self::StopRoom { .. } => "end the room".to_owned(),
            Self::RemoveStorage { path } => format!("remove the layers in {}", path.display()),
            Self::RemoveEmptyFolder { path } => {
                format!("remove the folder {} if it is empty", path.display())
            }
        }
    }
}

/// What a fork is made of, found out before the plan.
#[derive(Clone, Debug)]
pub struct ForkFacts {
    pub common_dir: PathBuf,
    pub worktree: PathBuf,
    pub parent_exists: bool,
    /// A pattern that git must be told to ignore first.
    pub exclude: Option<String>,
    pub branch: String,
    pub origin: BranchOrigin,
    pub commit: String,
}

/// Plans the steps of `fork`.
pub fn plan_fork(facts: &ForkFacts) -> Vec<Step> {
    let mut steps = Vec::new();
    if let Some(pattern) = &facts.exclude {
        steps
            .push(Step::Exclude { common_dir: facts.common_dir.clone(), pattern: pattern.clone() });
    }
    if let (false, Some(parent)) = (facts.parent_exists, facts.worktree.parent()) {
        steps.push(Step::MakeFolder { path: parent.to_owned() });
    }
    steps.push(Step::AddWorktree {
        common_dir: facts.common_dir.clone(),
        path: facts.worktree.clone(),
        branch: facts.branch.clone(),
        origin: facts.origin,
        commit: facts.commit.clone(),
    });
    steps
}

/// What a deletion takes away.
#[derive(Clone, Debug)]
pub struct DeleteFacts {
    pub common_dir: PathBuf,
    pub worktree: PathBuf,
    /// Where the room's control socket would be.
    pub runtime: PathBuf,
    /// Where the room's layers would be.
    pub storage: PathBuf,
    /// Whether the sandbox was ever up.
    pub had_room: bool,
}

/// Plans the steps of `delete` for one worktree that we made.
pub fn plan_delete(facts: &DeleteFacts) -> Vec<Step> {
    let DeleteFacts { common_dir, worktree, runtime, storage, had_room } = facts;
    let mut steps = Vec::new();
    if *had_room {
        steps.push(Step::StopRoom { runtime: runtime.clone() });
    }
    steps.push(Step::RemoveWorktree { common_dir: common_dir.clone(), path: worktree.clone() });
    if *had_room {
        steps.push(Step::RemoveStorage { path: storage.clone() });
        // The folders around it go with the last sandbox.
        let around = storage.ancestors().skip(1).take(2);
        steps.extend(around.map(|path| Step::RemoveEmptyFolder { path: path.to_owned() }));
    }
    if let Some(parent) = worktree.parent() {
        steps.push(Step::RemoveEmptyFolder { path: parent.to_owned() });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(parent_exists: bool) -> ForkFacts {
        ForkFacts {
            common_dir: "/r/.git".into(),
            worktree: "/r-sandboxes/a".into(),
            parent_exists,
            exclude: None,
            branch: "a".into(),
            origin: BranchOrigin::New,
            commit: "c0ffee".into(),
        }
    }

    #[test]
    fn a_fork_makes_the_parent_folder_only_when_it_is_missing() {
        let titles = |exists| plan_fork(&facts(exists)).iter().map(Step::title).collect::<Vec<_>>();
        assert_eq!(titles(true), ["add the worktree /r-sandboxes/a"]);
        assert_eq!(
            titles(false),
            ["make the folder /r-sandboxes", "add the worktree /r-sandboxes/a"]
        );
    }

    #[test]
    fn a_fork_goes_back_and_a_deletion_goes_on() {
        assert_eq!(PlanKind::Fork.after_failure(), Direction::Back);
        assert_eq!(PlanKind::Delete.after_failure(), Direction::Forward);
        assert_eq!(PlanKind::Nuke.after_failure(), Direction::Forward);
        assert_eq!(PlanKind::Up.after_failure(), Direction::Back);
        assert_eq!(PlanKind::Down.after_failure(), Direction::Forward);
    }

    #[test]
    fn a_step_survives_being_written_down() {
        for step in plan_fork(&facts(false)) {
            let text = serde_json::to_string(&step).unwrap();
            assert_eq!(serde_json::from_str::<Step>(&text).unwrap(), step);
        }
    }
}
