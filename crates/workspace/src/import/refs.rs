//! From the staging namespace to the user's branches.

use hothouse_host::{RunError, files};
use hothouse_model::visible;

use super::{BRANCH_LIMIT, BranchOutcome, ImportError, Imported, IndexOutcome, Wanted, Work};
use crate::git;

/// The name, below `hothouse/NAME/`, for an agent's tip when the user has moved the branch.
const HEAD: &str = "head";

/// A fetched branch of the agent's.
struct Staged {
    /// Not always UTF-8.
    name: Vec<u8>,
    tip: String,
}

impl Work<'_> {
    /// Removes the staged refs of this import or an interrupted one.
    pub(super) fn clear_staging(&self) -> Result<(), ImportError> {
        let staged = self.staged()?;
        if staged.is_empty() {
            return Ok(());
        }
        let (delete, ends) = (format!("delete {}", self.staging()), b"\0\0");
        let delete = |staged: &Staged| [delete.as_bytes(), &staged.name, ends].concat();
        let deletions: Vec<u8> = staged.iter().flat_map(delete).collect();
        let git = self.git().args(["update-ref", "--no-deref", "-z", "--stdin"]);
        let git = git.stdin(files::memory(&deletions)?).output();
        git.map(drop).map_err(|source| self.refs(source))
    }

    /// Moves the user's branches to the agent's tips, where allowed.
    pub(super) fn take_over(&self) -> Result<Imported, ImportError> {
        let staged = self.staged()?;
        if staged.len() > BRANCH_LIMIT {
            return Err(ImportError::TooManyBranches { sandbox: self.import.sandbox.clone() });
        }
        let (own, others): (Vec<_>, Vec<_>) =
            staged.into_iter().partition(|staged| staged.name == self.import.branch.as_bytes());
        let tip = own.into_iter().next().map(|staged| staged.tip);
        let branch = match &tip {
            Some(tip) => self.take_over_branch(tip)?,
            // It was not part of this import.
            None if self.import.wanted != Wanted::All => BranchOutcome::Unchanged,
            None => BranchOutcome::AgentRemoved,
        };
        let mut imported = Imported {
            tip: tip.unwrap_or_else(|| self.import.known.to_owned()),
            branch,
            index: IndexOutcome::Untouched,
            others: Vec::new(),
            left_out: Vec::new(),
        };
        for other in others {
            self.take_over_other(other, &mut imported)?;
        }
        if self.import.wanted == Wanted::All
            || self.import.wanted == Wanted::Only(self.import.branch)
        {
            imported.index = self.follow(&imported)?;
        }
        Ok(imported)
    }

    fn take_over_branch(&self, tip: &str) -> Result<BranchOutcome, ImportError> {
        let name = format!("refs/heads/{}", self.import.branch);
        let Some(user) = self.commit(&name)? else {
            let agent_branch = self.set_head(tip)?;
            return Ok(BranchOutcome::UserRemoved { agent_branch });
        };
        if user == tip || self.is_ancestor(tip, &user)? && user != self.import.known {
            // Nothing new, or the user has already merged it.
            return Ok(BranchOutcome::Unchanged);
        }
        // The user has moved the branch back on purpose.
        let went_back = || self.is_ancestor(&user, self.import.known);
        if user == self.import.known || self.is_ancestor(&user, tip)? && !went_back()? {
            self.set(&name, tip, Some(&user))?;
            return Ok(BranchOutcome::Updated { from: user });
        }
        let agent_branch = self.set_head(tip)?;
        Ok(BranchOutcome::UserMoved { user, agent_branch })
    }

    fn take_over_other(&self, other: Staged, imported: &mut Imported) -> Result<(), ImportError> {
        let Staged { name, tip } = other;
        let shown = String::from_utf8_lossy(&name).into_owned();
        // The user's own git shows names of branches as they are.
        if shown.as_bytes() != name || shown.chars().any(visible::is_deceptive) {
            imported.left_out.push(shown);
            return Ok(());
        }
        let name = shown;
        let ours = format!("hothouse/{}/{name}", self.import.sandbox);
        let is_taken = name == HEAD || name.starts_with("head/");
        // The branches that the room started with are the user's own, even if the user has moved
        // them since.
        let known = self.commit(&format!("refs/heads/{name}"))?;
        let is_behind = |known: &String| self.is_ancestor(&tip, known);
        if known.as_ref().map(is_behind).transpose()?.unwrap_or_default() {
            return Ok(());
        }
        if is_taken || self.set(&format!("refs/heads/{ours}"), &tip, None).is_err() {
            imported.left_out.push(name);
        } else {
            imported.others.push(ours);
        }
        Ok(())
    }

    fn set_head(&self, tip: &str) -> Result<String, ImportError> {
        let branch = format!("hothouse/{}/{HEAD}", self.import.sandbox);
        self.set(&format!("refs/heads/{branch}"), tip, None)?;
        Ok(branch)
    }

    /// Sets a ref and keeps the old tip in its reflog. If `old` is given, only if that is the current tip.
    fn set(&self, name: &str, tip: &str, old: Option<&str>) -> Result<(), ImportError> {
        let message = format!("hothouse: import of {}", self.import.sandbox);
        let mut words = vec!["update-ref", "--no-deref", "--create-reflog", "-m", &message];
        words.extend([name, tip]);
        words.extend(old);
        self.run(&words)
    }

    fn staged(&self) -> Result<Vec<Staged>, ImportError> {
        let staging = self.staging();
        let list = self.git().args(["for-each-ref", "--format=%(objectname) %(refname)"]);
        let output =
            list.arg(staging.trim_end_matches('/')).output().map_err(|source| self.refs(source))?;
        let staged = output.split(|byte| *byte == b'\n').filter_map(|line| {
            let at = line.iter().position(|byte| *byte == b' ')?;
            let name = line[at + 1..].strip_prefix(staging.as_bytes())?.to_owned();
            Some(Staged { name, tip: String::from_utf8_lossy(&line[..at]).into_owned() })
        });
        Ok(staged.collect())
    }

    fn commit(&self, name: &str) -> Result<Option<String>, ImportError> {
        self.repository.commit(name).map_err(|source| self.refs(source))
    }

    fn is_ancestor(&self, old: &str, new: &str) -> Result<bool, ImportError> {
        let ask = self.git().args(["merge-base", "--is-ancestor", old, new]);
        Ok(git::maybe_line(ask).map_err(|source| self.refs(source))?.is_some())
    }

    fn run(&self, words: &[&str]) -> Result<(), ImportError> {
        let git = self.git().args(words).stdin(self.lock.share_as_stdin()?);
        git.output().map(|_| ()).map_err(|source| self.refs(source))
    }

    fn refs(&self, source: RunError) -> ImportError {
        ImportError::Refs { sandbox: self.import.sandbox.clone(), source }
    }
}
