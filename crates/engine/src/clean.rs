//! `clean`: what may go, why, and what stays.

use hothouse_host::{
    files,
    usage::{Blocks, usage},
};
use hothouse_model::{Explain, Failure, OperationId, SandboxRecord};
use hothouse_store::RunLine;
use hothouse_workspace::{Repository, places};

use crate::{Engine, Losses};

/// What is to be cleaned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanWish {
    /// Every sandbox without work that would be lost.
    All,
    /// Those of them whose branch is merged into its base.
    Merged,
    /// The artifacts of runs that have ended.
    Runs,
}

/// Whether something is removed, or only would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    Now,
    /// Only said.
    Dry,
}

/// One thing that `clean` looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleaned {
    /// A sandbox as `PROJECT/NAME`, or a run.
    pub what: String,
    pub goes: bool,
    pub reason: String,
    /// How much of the disk it takes, where that was measured.
    pub bytes: Option<u64>,
}

impl Engine {
    /// Removes what may go, or says what would.
    pub fn clean(&self, wish: CleanWish, doing: Doing) -> Result<Vec<Cleaned>, Failure> {
        match wish {
            CleanWish::Runs => self.clean_runs(doing),
            CleanWish::All | CleanWish::Merged => {
                let all = self.sandboxes()?;
                let looked_at = all.iter().map(|sandbox| self.clean_sandbox(sandbox, wish, doing));
                let mut looked_at = looked_at.collect::<Result<Vec<_>, _>>()?;
                if wish == CleanWish::All {
                    looked_at.extend(self.clean_shared(doing)?);
                }
                Ok(looked_at)
            }
        }
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
        if wish == CleanWish::Merged && !is_merged(sandbox)? {
            return Ok(stays(format!("{} is not merged into {}", sandbox.branch, sandbox.base)));
        }
        if let Err(failure) = self.check_losses(sandbox) {
            return Ok(stays(failure.message));
        }
        let reason = match wish {
            CleanWish::Merged => format!("{} is merged into {}", sandbox.branch, sandbox.base),
            _ => "everything in it is committed".into(),
        };
        if doing == Doing::Now {
            let operation = OperationId::from_random(hothouse_host::random::bytes());
            self.delete(sandbox, Losses::Refused, operation)?;
        }
        Ok(Cleaned { what, goes: true, reason, bytes: None })
    }

    /// Removes what deleted sandboxes left, and golden data in folders that have no sandbox any more.
    fn clean_shared(&self, doing: Doing) -> Result<Vec<Cleaned>, Failure> {
        let mut looked_at = Vec::new();
        for folder in self.known_folders()? {
            let names = self.with.store.names_in(&folder).map_err(|error| error.failure())?;
            let unused = names.is_empty();
            if doing == Doing::Now {
                self.empty_trash(&folder)?;
                if unused {
                    let removed = places::remove_store(&folder, self.with.clock.now());
                    removed.map_err(|error| error.failure())?;
                }
            }
            let reason = match unused {
                true => "golden trees and data that no sandbox uses",
                false => "its sandboxes use golden trees and data; the trash is emptied",
            };
            let what = folder.display().to_string();
            looked_at.push(Cleaned { what, goes: unused, reason: reason.into(), bytes: None });
        }
        Ok(looked_at)
    }

    fn clean_runs(&self, doing: Doing) -> Result<Vec<Cleaned>, Failure> {
        let runs = self.with.store.all_runs().map_err(|error| error.failure())?;
        let mut looked_at = Vec::new();
        for (at, run) in runs.iter().enumerate() {
            // The newest comes first.
            let is_newest = !runs[..at].iter().any(|later| later.sandbox_id == run.sandbox_id);
            let (goes, reason) = fate(run, is_newest);
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

/// Decides whether a run may go, and says why. What a sandbox did last is what somebody may still ask about.
fn fate(run: &RunLine, is_newest: bool) -> (bool, String) {
    let whose = match (&run.project, &run.sandbox) {
        (Some(project), Some(sandbox)) => format!("`{project}/{sandbox}`"),
        _ => "its sandbox".to_owned(),
    };
    match (&run.ended, &run.sandbox_id) {
        (None, Some(_)) => (false, format!("{whose} is still running")),
        (Some(_), Some(_)) if is_newest => (false, format!("the last run of {whose}")),
        (Some(ended), Some(_)) => (true, format!("it ended {ended}, and {whose} has a later one")),
        (_, None) => (true, format!("{whose} is deleted")),
    }
}

/// Returns how much of the disk a run takes.
pub(crate) fn bytes_of(run: &RunLine) -> Option<u64> {
    Some(usage(&run.artifacts, Blocks::AreOwn).ok()?.total)
}

/// Whether the base has all that the sandbox's branch has, and the branch has something.
fn is_merged(sandbox: &SandboxRecord) -> Result<bool, Failure> {
    let repository = Repository { place: sandbox.repository.clone() };
    let branch = format!("refs/heads/{}", sandbox.branch);
    let ask = || -> Result<bool, hothouse_host::RunError> {
        let (Some(tip), Some(base)) =
            (repository.commit(&branch)?, repository.commit(&sandbox.base)?)
        else {
            return Ok(false);
        };
        Ok(tip != sandbox.base_commit && repository.is_ancestor(&tip, &base)?)
    };
    ask().map_err(|error| error.failure())
}
