//! `clean`: what can be removed, what is kept, and why.

use std::sync::atomic::{AtomicUsize, Ordering};

use hothouse_host::{
    files,
    usage::{Blocks, usage},
};
use hothouse_model::{Explain, Failure, OperationId, SandboxRecord};
use hothouse_store::RunLine;
use hothouse_workspace::{Repository, places};

use crate::{DeletedSandbox, Engine, Losses, trash};

/// How many sandboxes are checked in parallel.
const LOOKERS: usize = 4;

/// What to clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanWish {
    /// Every sandbox without unsaved work.
    All,
    /// Those whose branch is merged into its base.
    Merged,
    /// The artifacts of ended runs.
    Runs,
    /// The trash.
    Trash,
}

/// Whether to remove, or only report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    Now,
    /// Only reported.
    Dry,
}

/// The result for one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleaned {
    /// A sandbox as `PROJECT/NAME`, or a run.
    pub what: String,
    pub goes: bool,
    pub reason: String,
    /// Its disk usage, if measured.
    pub bytes: Option<u64>,
}

impl Engine {
    /// Removes what can be removed, or reports it. Removed items bypass the trash, which is
    /// emptied.
    pub fn clean(
        &self,
        wish: CleanWish,
        doing: Doing,
        operation: &OperationId,
    ) -> Result<Vec<Cleaned>, Failure> {
        match wish {
            CleanWish::Runs => self.clean_runs(doing),
            CleanWish::Trash => self.clean_trash(doing),
            CleanWish::All | CleanWish::Merged => {
                let mut looked_at = self.clean_sandboxes(wish, doing, operation)?;
                looked_at.extend(self.clean_trash(doing)?);
                if wish == CleanWish::All {
                    self.note_waiting(operation, "remove golden trees that no sandbox uses");
                    looked_at.extend(self.clean_shared(doing)?);
                }
                Ok(looked_at)
            }
        }
    }

    /// Checks every sandbox, several in parallel: most of the time is spent waiting for git.
    fn clean_sandboxes(
        &self,
        wish: CleanWish,
        doing: Doing,
        operation: &OperationId,
    ) -> Result<Vec<Cleaned>, Failure> {
        let (all, next) = (self.sandboxes()?, AtomicUsize::new(0));
        let look = || -> Result<Vec<(usize, Cleaned)>, Failure> {
            let mut own = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(sandbox) = all.get(at) else { return Ok(own) };
                let title = format!("look at {}/{}", sandbox.project, sandbox.name);
                self.note_waiting(operation, &title);
                own.push((at, self.clean_sandbox(sandbox, wish, doing)?));
            }
        };
        let found = std::thread::scope(|scope| {
            let others: Vec<_> = (1..LOOKERS).map(|_| scope.spawn(look)).collect();
            let mut found = look()?;
            for other in others {
                found.extend(other.join().expect("a look does not panic")?);
            }
            Ok::<_, Failure>(found)
        });
        let mut found = found?;
        found.sort_by_key(|(at, _)| *at);
        Ok(found.into_iter().map(|(_, cleaned)| cleaned).collect())
    }

    fn clean_sandbox(
        &self,
        sandbox: &SandboxRecord,
        wish: CleanWish,
        doing: Doing,
    ) -> Result<Cleaned, Failure> {
        let what = format!("{}/{}", sandbox.project, sandbox.name);
        let stays =
            |reason: String| Cleaned { what: what.clone(), goes: false, reason, bytes: None };
        if self.room_of(sandbox).is_some() {
            return Ok(stays("its room is up".into()));
        }
        let (branch, base) = (&sandbox.branch, &sandbox.base);
        if wish == CleanWish::Merged {
            match merge_state(sandbox)? {
                MergeState::Merged => {}
                MergeState::NoCommits => {
                    return Ok(stays(format!("{branch} has no commits of its own yet")));
                }
                MergeState::NotMerged => {
                    return Ok(stays(format!("{branch} is not merged into {base}")));
                }
                MergeState::NoBranch => {
                    return Ok(stays(format!("{branch} or {base} no longer exists")));
                }
            }
        }
        if let Err(failure) = self.check_losses(sandbox) {
            return Ok(stays(failure.message));
        }
        let reason = match wish {
            CleanWish::Merged => format!("{branch} is merged into {base}"),
            _ => "everything in it is committed".into(),
        };
        if doing == Doing::Now {
            self.delete_now(sandbox, Losses::Refused, trash::another())?;
        }
        Ok(Cleaned { what, goes: true, reason, bytes: None })
    }

    /// Empties the trash.
    fn clean_trash(&self, doing: Doing) -> Result<Vec<Cleaned>, Failure> {
        let all = self.deleted()?;
        let cleaned = |deleted: &DeletedSandbox| Cleaned {
            what: format!("{}/{}", deleted.project, deleted.name),
            goes: true,
            reason: "it is in the trash".into(),
            bytes: self.bytes_of_deleted(deleted),
        };
        let looked_at = all.iter().map(cleaned).collect();
        if doing == Doing::Now {
            self.discard_deleted(&all)?;
        }
        Ok(looked_at)
    }

    /// Removes golden data in folders without sandboxes.
    fn clean_shared(&self, doing: Doing) -> Result<Vec<Cleaned>, Failure> {
        let mut looked_at = Vec::new();
        for folder in self.known_folders()? {
            let names = self.with.store.names_in(&folder).map_err(|error| error.failure())?;
            let unused = names.is_empty();
            if doing == Doing::Now && unused {
                let removed = places::remove_store(&folder, self.with.clock.now());
                removed.map_err(|error| error.failure())?;
            }
            let reason = match unused {
                true => "golden trees and data that no sandbox uses",
                false => "its sandboxes use golden trees and data",
            };
            let what = folder.display().to_string();
            looked_at.push(Cleaned { what, goes: unused, reason: reason.into(), bytes: None });
        }
        Ok(looked_at)
    }

    fn clean_runs(&self, doing: Doing) -> Result<Vec<Cleaned>, Failure> {
        let runs = self.with.store.all_runs().map_err(|error| error.failure())?;
        let trash = self.deleted()?;
        let is_kept = |run: &RunLine| trash.iter().any(|deleted| deleted.runs.contains(&run.id));
        let mut looked_at = Vec::new();
        for (at, run) in runs.iter().enumerate() {
            // Newest first.
            let is_newest = !runs[..at].iter().any(|later| later.sandbox_id == run.sandbox_id);
            let (goes, reason) = verdict_on(run, is_newest, is_kept(run));
            let bytes = bytes_of(run);
            if goes && doing == Doing::Now {
                files::remove_tree(&run.artifacts).map_err(|error| error.failure())?;
                self.with.store.forget_run(&run.id).map_err(|error| error.failure())?;
            }
            looked_at.push(Cleaned { what: run.id.clone(), goes, reason, bytes });
        }
        Ok(looked_at)
    }
}

/// Decides whether a run can be removed, and why. The last run of a sandbox may still be of
/// interest.
fn verdict_on(run: &RunLine, is_newest: bool, is_in_trash: bool) -> (bool, String) {
    let whose = match (&run.project, &run.sandbox) {
        (Some(project), Some(sandbox)) => format!("`{project}/{sandbox}`"),
        _ => "its sandbox".to_owned(),
    };
    match (&run.ended, &run.sandbox_id) {
        (None, Some(_)) => (false, format!("{whose} is still running")),
        (Some(_), Some(_)) if is_newest => (false, format!("the last run of {whose}")),
        (Some(ended), Some(_)) => (true, format!("it ended {ended}, and {whose} has a later one")),
        (_, None) if is_in_trash => (false, format!("{whose} is in the trash")),
        (_, None) => (true, format!("{whose} is deleted")),
    }
}

/// Returns the disk usage of a run.
pub(crate) fn bytes_of(run: &RunLine) -> Option<u64> {
    Some(usage(&run.artifacts, Blocks::AreOwn).ok()?.total)
}

/// How the branch of a sandbox relates to its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MergeState {
    /// The base has all commits of the branch, which had some.
    Merged,
    NotMerged,
    /// Nothing was committed since the fork.
    NoCommits,
    NoBranch,
}

fn merge_state(sandbox: &SandboxRecord) -> Result<MergeState, Failure> {
    let repository = Repository { place: sandbox.repository.clone() };
    let ask = || -> Result<MergeState, hothouse_host::RunError> {
        let Some(tip) = repository.branch_tip(&sandbox.branch)? else {
            return Ok(MergeState::NoBranch);
        };
        if tip == sandbox.base_commit {
            return Ok(MergeState::NoCommits);
        }
        // The base may be a tag or a commit, which git resolves.
        let base = match repository.branch_tip(&sandbox.base)? {
            Some(base) => Some(base),
            None => repository.commit(&sandbox.base)?,
        };
        let Some(base) = base else { return Ok(MergeState::NoBranch) };
        let merged = tip == base || repository.is_ancestor(&tip, &base)?;
        Ok(if merged { MergeState::Merged } else { MergeState::NotMerged })
    };
    ask().map_err(|error| error.failure())
}
