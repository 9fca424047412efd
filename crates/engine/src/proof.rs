//! What a proof needs to know about the code under test, and the disposable sandbox that it runs
//! in.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use hothouse_config::{File, Judged, Layers, MAX_BYTES};
use hothouse_host::{FileError, RunError, beneath::Folder, files};
use hothouse_model::{
    Explain, Failure, FailureKind, SandboxRecord, config::Config, sandbox::RepositoryPlace,
};
use hothouse_store::StoreError;
use hothouse_workspace::{Repository, review::FileChange};

use crate::{
    Engine, fixtures,
    project::{CONFIG_FILE, read_file},
    review::{LookError, base_of},
    trees,
};

/// The maximum size of a scenario's script.
const SCRIPT_LIMIT: u64 = 1 << 20;

/// The maximum size of all files that judge a proof.
const JUDGING_MOST: u64 = 512 << 20;

/// The code of a sandbox: its commit, its base, and the differences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeFacts {
    pub branch: String,
    pub commit: String,
    pub tree: String,
    pub base: String,
    pub base_commit: String,
    /// Uncommitted files in the worktree.
    pub uncommitted: Vec<String>,
    pub files: Vec<FileChange>,
    /// The added lines, by file.
    pub lines: BTreeMap<String, Vec<(u32, u32)>>,
}

/// The proof of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    pub markdown: String,
    pub page: PathBuf,
}

/// How many runs are searched for a summary, and its maximum size. A pull request accepts 64 KiB.
const RUNS: usize = 200;
const SUMMARY_LIMIT: u64 = 64 << 20;
const MARKDOWN_LIMIT: usize = 48 << 10;

/// The prefix of the names of sandboxes that proofs make for themselves; eight digits follow.
pub const PROOF_PREFIX: &str = "prove-";

/// Whether a proof made a sandbox for itself, by its name: it is known before anything else of it exists.
pub(crate) fn is_of_a_proof(sandbox: &SandboxRecord) -> bool {
    let digits = sandbox.name.as_str().strip_prefix(PROOF_PREFIX);
    digits.is_some_and(|digits| digits.len() == 8 && digits.bytes().all(|c| c.is_ascii_hexdigit()))
}

impl Engine {
    /// Returns the config of a worktree, for its scenarios, seeds and fixtures.
    pub fn scenario_config(&self, sandbox: &SandboxRecord) -> Result<Config, Failure> {
        self.worktree_config(sandbox).map_err(|error| error.failure())
    }

    /// Copies the files that judge a proof from its worktree, before anything runs in its room. From
    /// then on they are read from the copy.
    pub fn hold_judging(
        &self,
        sandbox: &SandboxRecord,
        files: &[String],
        folders: &[String],
    ) -> Result<(), Failure> {
        let hold = || -> Result<(), FileError> {
            let worktree = trees::open_worktree(sandbox)?;
            let place = trees::places(sandbox).judging();
            files::make_private_folder(&place)?;
            let held = Folder::open(&place)?;
            let mut all: BTreeSet<PathBuf> = files.iter().map(PathBuf::from).collect();
            all.insert(CONFIG_FILE.into());
            for folder in folders {
                all.extend(fixtures::files_below(&worktree, Path::new(folder)));
            }
            let mut left = JUDGING_MOST;
            for path in all {
                // What cannot be read there is not held, and cannot be read later either.
                let Ok(bytes) = worktree.read_capped(&path, left) else { continue };
                left -= bytes.len() as u64;
                held.make_folders(path.parent().unwrap_or(Path::new("")))?;
                held.write(&path, &bytes, 0o600)?;
            }
            Ok(())
        };
        hold().map_err(|error| error.failure())
    }

    /// Whether a sandbox is one of a proof, which nothing but the proof may judge.
    pub fn is_judged(&self, sandbox: &SandboxRecord) -> bool {
        // If the folder is there and cannot be read, it is one of a proof too.
        !matches!(trees::judging(sandbox), Ok(None))
    }

    /// Returns the text of the worktree's config.
    pub fn config_text(&self, sandbox: &SandboxRecord) -> Result<Vec<u8>, Failure> {
        let folder = trees::open_judging(sandbox).map_err(|error| error.failure())?;
        match folder.read_capped(Path::new(CONFIG_FILE), MAX_BYTES as u64 + 1) {
            Ok(bytes) => Ok(bytes),
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error.failure()),
        }
    }

    /// Returns the config of a commit; `None` if it has no valid one.
    pub fn config_at(
        &self,
        place: &RepositoryPlace,
        commit: &str,
    ) -> Result<Option<Config>, Failure> {
        let repository = Repository { place: place.clone() };
        let text = repository.file_at(commit, CONFIG_FILE).map_err(|error| error.failure())?;
        let user = read_file(&self.with.user_config).map_err(|error| error.failure())?;
        let user_name = self.with.user_config.display().to_string();
        let layers = Layers {
            user: user.as_deref().map(|bytes| File { name: &user_name, bytes }),
            project: text.as_deref().map(|text| File { name: CONFIG_FILE, bytes: text.as_bytes() }),
            environment: &[],
        };
        Ok(hothouse_config::resolve(&layers).ok().map(|resolved| resolved.config))
    }

    /// Reads a script of a scenario from the worktree, which an agent may have written.
    pub fn script_of(&self, sandbox: &SandboxRecord, path: &str) -> Result<String, Failure> {
        let folder = trees::open_judging(sandbox).map_err(|error| error.failure())?;
        let bytes = folder.read_capped(Path::new(path), SCRIPT_LIMIT).map_err(|error| {
            // A proof reads it from a folder that is none of the user's.
            let error = FileError { path: path.into(), ..error };
            Failure::of(FailureKind::NotFound, &error).hint(
                "`script` of a scenario is a file by its path from the top of the worktree, and not a link",
            )
        })?;
        String::from_utf8(bytes).map_err(|_| {
            Failure::new(FailureKind::Config, format!("the script `{path}` is not valid UTF-8"))
        })
    }

    /// Reads a file of the worktree; `None` if it is not a regular file below it, or too large.
    pub fn worktree_bytes(
        &self,
        sandbox: &SandboxRecord,
        path: &Path,
        most: u64,
    ) -> Option<Vec<u8>> {
        trees::open_worktree(sandbox).ok()?.read_capped(path, most).ok()
    }

    /// Returns the code of a sandbox.
    pub fn code_of(&self, sandbox: &SandboxRecord) -> Result<CodeFacts, Failure> {
        self.import_if_possible(sandbox);
        let now = self.sandbox(sandbox.key)?;
        let sandbox = now.as_ref().unwrap_or(sandbox);
        let repository = Repository { place: sandbox.repository.clone() };
        let look = || -> Result<CodeFacts, LookError> {
            let base_commit = base_of(&repository, sandbox, None)?;
            let branch = sandbox.agent_branch.as_ref().unwrap_or(&sandbox.branch);
            let tip = repository.branch_tip(branch)?;
            let commit = tip.unwrap_or_else(|| sandbox.known_tip().to_owned());
            Ok(CodeFacts {
                branch: branch.clone(),
                tree: repository.tree_of(&commit)?.unwrap_or_default(),
                files: repository.changed_between(&base_commit, &commit)?,
                lines: repository.added_lines(&base_commit, &commit)?,
                uncommitted: Vec::new(),
                base: sandbox.base.clone(),
                base_commit,
                commit,
            })
        };
        let mut code = look().map_err(|error| error.failure())?;
        let dirt = repository.dirt(&sandbox.worktree).map_err(|error| error.failure())?;
        code.uncommitted = dirt.sample;
        match dirt.count.saturating_sub(code.uncommitted.len()) {
            0 => {}
            more => code.uncommitted.push(format!("{more} more")),
        }
        Ok(code)
    }

    /// Returns the code of the checkout around a folder: its HEAD, compared with the branch it
    /// forked from, or else with the previous commit.
    pub fn code_around(&self, folder: &Path) -> Result<(RepositoryPlace, CodeFacts), Failure> {
        let repository = self.repository_around(folder).map_err(|error| error.failure())?;
        let look = || -> Result<Option<CodeFacts>, RunError> {
            let Some(head) = repository.head_around(folder)? else { return Ok(None) };
            let (base, base_commit) = left_from(&repository, &head.commit)?;
            Ok(Some(CodeFacts {
                branch: head.branch.unwrap_or_else(|| "HEAD".to_owned()),
                tree: repository.tree_of(&head.commit)?.unwrap_or_default(),
                files: repository.changed_between(&base_commit, &head.commit)?,
                lines: repository.added_lines(&base_commit, &head.commit)?,
                uncommitted: repository.uncommitted_around(folder)?,
                base,
                base_commit,
                commit: head.commit,
            }))
        };
        let found = look().map_err(|error| error.failure())?;
        let code = found.ok_or_else(|| {
            Failure::new(FailureKind::NotFound, "the repository has no commit yet")
                .hint("commit something first")
        })?;
        Ok((repository.place, code))
    }

    /// Creates a commit in which files of the base replace the commit's own.
    pub fn judged_commit(
        &self,
        place: &RepositoryPlace,
        code: &CodeFacts,
        paths: &[&str],
        config: Option<&Judged>,
    ) -> Result<String, Failure> {
        let repository = Repository { place: place.clone() };
        let config = config.map(|judged| (CONFIG_FILE, judged.text.as_bytes()));
        let made = repository.commit_with_files_of(&code.base_commit, &code.commit, paths, config);
        made.map_err(|error| error.failure())
    }

    /// Returns the config of a commit with the parts that judge it taken from the base's; `None` if
    /// either has none.
    pub fn judged_config(
        &self,
        place: &RepositoryPlace,
        code: &CodeFacts,
    ) -> Result<Option<Judged>, Failure> {
        let repository = Repository { place: place.clone() };
        let at =
            |commit: &str| repository.file_at(commit, CONFIG_FILE).map_err(|error| error.failure());
        let (base, own) = (at(&code.base_commit)?, at(&code.commit)?);
        Ok(base.zip(own).and_then(|(base, own)| hothouse_config::judged(&base, &own)))
    }

    /// Removes the branch of a disposable sandbox, which only the proof uses.
    pub fn drop_branch(&self, place: &RepositoryPlace, branch: &str) -> Result<(), Failure> {
        let repository = Repository { place: place.clone() };
        let about = |error: RunError| error.failure();
        let Some(tip) = repository.branch_tip(branch).map_err(about)? else { return Ok(()) };
        let lock = self.repository_lock(&place.common_dir).map_err(|error| error.failure())?;
        repository.delete_branch(&lock, branch, &tip).map_err(about)
    }

    /// Returns the newest summary of a commit: its text for a pull request, and the page. One from
    /// a fresh sandbox is preferred: what runs in an agent's own is not always what it committed.
    /// Summaries can be trusted: no room can write to the folders of runs.
    pub fn evidence_for(&self, commit: &str) -> Option<Evidence> {
        self.evidence(commit, true).or_else(|| self.evidence(commit, false))
    }

    fn evidence(&self, commit: &str, fresh: bool) -> Option<Evidence> {
        let runs = self.runs().ok()?.into_iter().take(RUNS);
        runs.map(|run| run.artifacts).find_map(|folder| {
            let json = files::read_capped(&folder.join("summary.json"), SUMMARY_LIMIT).ok()?;
            let summary: serde_json::Value = serde_json::from_slice(&json).ok()?;
            let is_of = summary["code"]["commit"] == commit
                && summary["code"]["fresh"] == fresh
                && summary["code"]["uncommitted"].as_array().is_none_or(Vec::is_empty);
            let markdown = files::read_capped(&folder.join("summary.md"), SUMMARY_LIMIT);
            let markdown = markdown.ok().filter(|_| is_of)?;
            let markdown = shortened(&String::from_utf8_lossy(&markdown));
            Some(Evidence { markdown, page: folder.join("summary.html") })
        })
    }

    /// Records the scenario of a run, and its outcome.
    pub fn note_outcome(&self, run: &str, scenario: &str, ok: Option<bool>) -> Result<(), Failure> {
        let noted = self.with.store.set_outcome(run, scenario, ok);
        noted.map_err(|error: StoreError| error.failure())
    }
}

/// Truncates a text after a line, and says so. A long one must not be dropped: it could be the one
/// that failed.
fn shortened(markdown: &str) -> String {
    if markdown.len() <= MARKDOWN_LIMIT {
        return markdown.to_owned();
    }
    let end = markdown.floor_char_boundary(MARKDOWN_LIMIT);
    let end = markdown[..end].rfind('\n').map_or(end, |at| at + 1);
    format!("{}\n… cut here: the page has the rest.\n", &markdown[..end])
}

/// Finds where a commit forked from another branch: the remote's default branch, or `main`. On that
/// branch itself it is the previous commit.
fn left_from(repository: &Repository, commit: &str) -> Result<(String, String), RunError> {
    for (name, reference) in [
        ("origin", "refs/remotes/origin/HEAD"),
        ("main", "refs/heads/main"),
        ("master", "refs/heads/master"),
    ] {
        let Some(tip) = repository.commit(reference)? else { continue };
        match repository.merge_base(&tip, commit)? {
            Some(left) if left != commit => return Ok((name.to_owned(), left)),
            _ => {}
        }
    }
    Ok(match repository.commit(&format!("{commit}^"))? {
        Some(before) => ("the commit before".to_owned(), before),
        None => ("no commit before it".to_owned(), commit.to_owned()),
    })
}
