//! `undelete`: restores a sandbox from the trash, with its files, branch, data, snapshots and runs.

use std::path::{Path, PathBuf};

use hothouse_host::{FileError, RunError, files};
use hothouse_model::{
    Explain, Failure, FailureKind, OperationId, PlanKind, SandboxId, SandboxName, SandboxRecord,
    Step,
    aside::Aside,
    plan::BranchOrigin,
    sandbox::RepositoryPlace,
    tree::{WorktreeOrder, WorktreeSource},
};
use hothouse_store::{NewPlan, NewSandbox, Revived, StoreError, Subject};
use hothouse_workspace::{Repository, tree::STORE_FOLDER};

use crate::{
    Engine, PlanFailure,
    record::{ElsewhereError, SelfRecord},
    trash::{self, DeletedSandbox, Entry, Note},
};

/// Which sandbox to restore, and as what.
#[derive(Clone, Debug)]
pub struct UndeleteSpec {
    /// `NAME`, `PROJECT/NAME`, or the id of one of several.
    pub which: String,
    /// The folder where the command was run.
    pub folder: PathBuf,
    /// Its new name, if not its own.
    pub name: Option<SandboxName>,
    /// Its new branch, if not its own.
    pub branch: Option<String>,
}

/// Failure to restore a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum UndeleteError {
    #[error("no sandbox `{wanted}` in the trash")]
    Unknown { wanted: String, known: Vec<String> },
    #[error("`{wanted}` is in the trash of several projects: {}", .known.join(", "))]
    Ambiguous { wanted: String, known: Vec<String> },
    #[error("there is a sandbox `{name}` again")]
    Taken { name: SandboxName },
    #[error("{} is in the way", .path.display())]
    InTheWay { path: PathBuf },
    #[error("branch `{branch}` is checked out in {}", .worktree.display())]
    BranchInUse { which: String, branch: String, worktree: PathBuf },
    #[error("branch `{branch}` already exists")]
    BranchTaken { branch: String },
    #[error("`{branch}` is not a valid name of a branch")]
    BranchName { branch: String },
    #[error("the repository is no longer at {}", .common_dir.display())]
    NoRepository { common_dir: PathBuf },
    #[error("branch `{branch}` is gone, and its last commit is not known")]
    NoCommit { branch: String },
    #[error("its worktree is no longer at {}", .path.display())]
    NoWorktree { path: PathBuf },
    #[error(transparent)]
    Elsewhere(#[from] ElsewhereError),
    #[error(transparent)]
    Git(#[from] RunError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Plan(#[from] PlanFailure),
    #[error("{}", .0.message)]
    Look(Failure),
}

hothouse_model::explain! {
    UndeleteError passes on Elsewhere, Git, File, Store, Plan;
    kind {
        Self::Unknown { .. } | Self::NoRepository { .. } => FailureKind::NotFound,
        Self::NoCommit { .. } | Self::NoWorktree { .. } => FailureKind::NotFound,
        Self::Ambiguous { .. } | Self::BranchName { .. } => FailureKind::Usage,
        Self::Taken { .. } | Self::InTheWay { .. } => FailureKind::Conflict,
        Self::BranchInUse { .. } | Self::BranchTaken { .. } => FailureKind::Conflict,
        Self::Look(failure) => failure.kind,
    }
    causes {
        Self::Look(failure) => failure.causes.clone(),
    }
    hints {
        Self::Unknown { known, .. } if known.is_empty() => {
            vec!["the trash is empty; a deleted sandbox is kept for a day".into()]
        }
        Self::Unknown { known, .. } => vec![format!("in the trash: {}", known.join(", "))],
        Self::Ambiguous { known, .. } => {
            vec![format!("name one, as in `hothouse undelete {}`", known[0])]
        }
        Self::Taken { name } => {
            vec![format!("bring it back under another name: `hothouse undelete {name} --as OTHER`")]
        }
        Self::InTheWay { path } => vec![
            format!("move {} away, or use another name: `--as OTHER`", path.display()),
        ],
        Self::BranchInUse { which, .. } => {
            vec![format!("give it a branch of its own: `hothouse undelete {which} --branch OTHER`")]
        }
        Self::BranchTaken { .. } => vec!["name another branch: `--branch OTHER`".into()],
        Self::BranchName { .. } => vec!["see `git help check-ref-format`".into()],
        Self::NoRepository { .. } => vec!["move it back".into()],
        Self::NoCommit { .. } => vec!["make a branch of that name first: `git branch NAME COMMIT`".into()],
        Self::NoWorktree { .. } => vec!["move it back; it was adopted, and never ours".into()],
        Self::Look(failure) => failure.hints.clone(),
    }
}

/// The branch of a restored sandbox.
#[derive(Debug, PartialEq, Eq)]
struct Branch {
    name: String,
    origin: BranchOrigin,
    commit: String,
}

impl Engine {
    /// Restores a sandbox from the trash. Its room is down.
    pub fn undelete(
        &self,
        spec: &UndeleteSpec,
        operation: OperationId,
    ) -> Result<SandboxRecord, Failure> {
        let _alone = self.trash_lock().map_err(|error| error.failure())?;
        self.try_undelete(spec, operation).map_err(|error| error.failure())
    }

    /// Returns the sandbox that an operation restored, for a repeated request.
    pub fn undeleted(&self, operation: &OperationId) -> Result<SandboxRecord, Failure> {
        let plan = self.operation(operation)?;
        let key = plan.and_then(|plan| plan.sandboxes.first().copied());
        let found = key.map(|key| self.sandbox(key)).transpose()?.flatten();
        found.ok_or_else(|| Failure::new(FailureKind::NotFound, "it was deleted again"))
    }

    /// Returns the sandbox in the trash that a user refers to. Of several with one name, the last
    /// deleted one.
    pub fn find_deleted(&self, which: &str, folder: &Path) -> Result<DeletedSandbox, Failure> {
        let here = self.repository_around(folder).ok().map(|found| found.place.common_dir);
        let all = self.deleted()?;
        let found = pick(&all, which, here.as_deref()).map_err(|error| error.failure())?;
        Ok(found.clone())
    }

    fn try_undelete(
        &self,
        spec: &UndeleteSpec,
        operation: OperationId,
    ) -> Result<SandboxRecord, UndeleteError> {
        let found = self.find_deleted(&spec.which, &spec.folder).map_err(UndeleteError::Look)?;
        let entries = self.entries().map_err(UndeleteError::Look)?;
        let entry = entries.into_iter().find(|entry| entry.folder == found.folder);
        let entry = entry.ok_or_else(|| unknown(&spec.which, &[]))?;
        let record = &entry.note.record;
        let name = spec.name.clone().unwrap_or_else(|| record.name.clone());
        let place =
            RepositoryPlace { common_dir: record.common_dir.clone(), root: record.root.clone() };
        if !files::exists(&place.common_dir) {
            return Err(UndeleteError::NoRepository { common_dir: place.common_dir });
        }
        if self.with.store.is_taken(&place, name.as_str())? {
            return Err(UndeleteError::Taken { name });
        }
        let aside = self.aside_as(&entry, &name);
        let worktree = match &aside.worktree {
            Some(tree) => tree.home.path.clone(),
            None => record.worktree.clone(),
        };
        self.check_elsewhere(&entry.sandboxes, &name, &worktree)?;
        let repository = Repository { place };
        let branch = match &aside.worktree {
            Some(_) if files::exists(&worktree) => {
                return Err(UndeleteError::InTheWay { path: worktree });
            }
            Some(_) => Some(find_branch(&repository, &entry.note, spec, &name)?),
            None if !files::exists(&worktree) => {
                return Err(UndeleteError::NoWorktree { path: worktree });
            }
            None => None,
        };
        let revived = revived(&entry, &name, &worktree, branch.as_ref());
        let plan = NewPlan {
            operation,
            kind: PlanKind::Undelete,
            subject: name.to_string(),
            steps: steps(&repository, &entry, aside, branch),
            begun: self.with.clock.now(),
        };
        let begun = self.with.journal.begin_plan(&plan, &Subject::Revives(&revived));
        let plan = begun.map_err(|error| match error {
            StoreError::Taken => UndeleteError::Taken { name: name.clone() },
            other => UndeleteError::Store(other),
        })?;
        self.run(&plan)?;
        // Only the note is left. If this fails, it is removed from the trash later.
        self.discard_left(&entry)?;
        let key = plan.sandboxes.first().copied().expect("one sandbox came back");
        let record = self.with.store.sandbox(key)?;
        record.ok_or(UndeleteError::Taken { name })
    }

    /// Returns the targets of all parts for the sandbox's new name.
    fn aside_as(&self, entry: &Entry, name: &SandboxName) -> Aside {
        let record = &entry.note.record;
        let store = entry.sandboxes.join(STORE_FOLDER);
        let mut aside = entry.note.aside.renamed(&store, record.name.as_str(), name.as_str());
        if *name != record.name {
            // Logs are located by the sandbox's id, which has changed.
            aside.moves.retain(|part| part.home.starts_with(&store));
        }
        aside
    }

    fn discard_left(&self, entry: &Entry) -> Result<(), FileError> {
        let store = hothouse_workspace::TreeStore::open(&entry.sandboxes)?;
        hothouse_workspace::tree::set_aside(&entry.folder, &store.trash())
    }
}

fn unknown(wanted: &str, known: &[String]) -> UndeleteError {
    UndeleteError::Unknown { wanted: wanted.to_owned(), known: known.to_owned() }
}

/// Selects the sandbox that a user refers to: in a repository one of its own, elsewhere the only
/// one with that name. Newest first.
fn pick<'a>(
    all: &'a [DeletedSandbox],
    wanted: &str,
    here: Option<&Path>,
) -> Result<&'a DeletedSandbox, UndeleteError> {
    let (project, name) = match wanted.split_once('/') {
        Some((project, name)) => (Some(project), name),
        None => (None, wanted),
    };
    let named = |one: &&DeletedSandbox| {
        (one.name == name || one.id == name) && project.is_none_or(|project| one.project == project)
    };
    let found: Vec<_> = all.iter().filter(named).collect();
    let own = found.iter().find(|one| here == Some(one.repository.common_dir.as_path()));
    if let (Some(own), None) = (own, project) {
        return Ok(own);
    }
    let shown = |one: &&DeletedSandbox| format!("{}/{}", one.project, one.name);
    let Some(first) = found.first() else {
        let mut known: Vec<_> = all.iter().map(|one| shown(&one)).collect();
        known.dedup();
        return Err(unknown(wanted, &known));
    };
    if found.iter().any(|one| one.repository.common_dir != first.repository.common_dir) {
        let mut known: Vec<_> = found.iter().map(shown).collect();
        known.dedup();
        return Err(UndeleteError::Ambiguous { wanted: wanted.to_owned(), known });
    }
    Ok(first)
}

/// Determines the branch: its own if it is not checked out, even if it was removed meanwhile; with
/// another name for the sandbox, a branch of that name.
fn find_branch(
    repository: &Repository,
    note: &Note,
    spec: &UndeleteSpec,
    name: &SandboxName,
) -> Result<Branch, UndeleteError> {
    let own = &note.record.branch;
    let in_use = repository.checkout_of(own)?;
    let wanted = match (&spec.branch, &in_use) {
        (Some(branch), _) => branch.clone(),
        (None, Some(_)) if *name != note.record.name => name.to_string(),
        (None, Some(worktree)) => {
            return Err(UndeleteError::BranchInUse {
                which: spec.which.clone(),
                branch: own.clone(),
                worktree: worktree.clone(),
            });
        }
        (None, None) => own.clone(),
    };
    if !repository.is_branch_name(&wanted)? {
        return Err(UndeleteError::BranchName { branch: wanted });
    }
    if let Some(commit) = repository.branch_tip(&wanted)? {
        if wanted != *own {
            return Err(UndeleteError::BranchTaken { branch: wanted });
        }
        return Ok(Branch { name: wanted, origin: BranchOrigin::Existing, commit });
    }
    let known = note.tip.clone().or_else(|| note.record.imported.clone());
    let known = known.unwrap_or_else(|| note.record.base_commit.clone());
    match repository.commit(&known)? {
        Some(commit) => Ok(Branch { name: wanted, origin: BranchOrigin::New, commit }),
        None => Err(UndeleteError::NoCommit { branch: wanted }),
    }
}

/// Returns where the files of a restored sandbox were before; with another name they are at another path.
fn former_paths(record: &SelfRecord, worktree: &Path) -> Vec<PathBuf> {
    let moved = (record.worktree != worktree).then(|| record.worktree.clone());
    moved.into_iter().chain(record.former_paths.iter().cloned()).collect()
}

/// Returns the rows of a restored sandbox.
fn revived(entry: &Entry, name: &SandboxName, worktree: &Path, branch: Option<&Branch>) -> Revived {
    let Note { record, remains, .. } = &entry.note;
    let branch = branch.map_or(&record.branch, |branch| &branch.name);
    let is_same = *name == record.name && *branch == record.branch;
    let id = match is_same {
        true => record.id.clone(),
        false => SandboxId::derive(&record.project, name, &record.common_dir, worktree, branch),
    };
    Revived {
        new: NewSandbox {
            id,
            name: name.clone(),
            worktree: worktree.to_string_lossy().into_owned(),
            branch: branch.clone(),
            former_paths: former_paths(record, worktree),
            ..record.new_sandbox(&entry.sandboxes)
        },
        imported: record.imported.clone(),
        // Another branch already contains the agent's commits.
        agent_branch: record.agent_branch.clone().filter(|_| is_same),
        remains: remains.clone(),
    }
}

fn steps(
    repository: &Repository,
    entry: &Entry,
    mut aside: Aside,
    branch: Option<Branch>,
) -> Vec<Step> {
    let worktree = aside.worktree.take();
    let mut steps = Vec::new();
    if branch.as_ref().is_some_and(|branch| branch.name != entry.note.record.branch) {
        // The room's git is on a branch that now belongs to another sandbox; its commits were
        // imported, and it gets a new one.
        aside.moves.retain(|part| !part.aside.ends_with("git") && !part.aside.ends_with("pointer"));
        aside.trees.retain(|tree| !tree.at.path.ends_with("git"));
    }
    steps.push(Step::BringBack { aside: Box::new(aside) });
    if let (Some(tree), Some(branch)) = (worktree, branch) {
        let order = WorktreeOrder {
            common_dir: repository.place.common_dir.clone(),
            root: repository.place.root.clone(),
            tree: tree.home,
            branch: branch.name,
            origin: branch.origin,
            commit: branch.commit,
            source: WorktreeSource::Aside {
                from: tree.at,
                index: entry.folder.join(trash::INDEX_FILE),
            },
        };
        steps.push(Step::AddWorktree { order: Box::new(order) });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(project: &str, name: &str, at: i64) -> DeletedSandbox {
        let when = jiff::Timestamp::from_second(at).unwrap();
        DeletedSandbox {
            id: format!("{name}.{at:x}"),
            name: name.into(),
            project: project.into(),
            branch: name.into(),
            tip: None,
            tree_driver: hothouse_model::tree::TreeMaker::Foreign,
            deleted: when,
            expires: when,
            folder: PathBuf::new(),
            sandboxes: PathBuf::new(),
            repository: RepositoryPlace {
                common_dir: format!("/{project}").into(),
                root: PathBuf::new(),
            },
            runs: Vec::new(),
        }
    }

    #[test]
    fn the_newest_of_the_current_project_is_meant() {
        let all =
            [one("acme", "a", 9), one("acme", "a", 5), one("shop", "a", 4), one("shop", "b", 3)];
        let answer =
            |wanted: &str, here: Option<&str>| match pick(&all, wanted, here.map(Path::new)) {
                Ok(found) => format!("{}/{}", found.project, found.id),
                Err(error) => error.to_string(),
            };
        assert_eq!(answer("a", Some("/acme")), "acme/a.9");
        assert_eq!(answer("a.5", Some("/acme")), "acme/a.5");
        assert_eq!(answer("a", Some("/shop")), "shop/a.4");
        assert_eq!(answer("acme/a", Some("/shop")), "acme/a.9");
        assert_eq!(answer("b", None), "shop/b.3");
        assert_eq!(answer("a", None), "`a` is in the trash of several projects: acme/a, shop/a");
        assert_eq!(answer("zz", None), "no sandbox `zz` in the trash");
    }
}
