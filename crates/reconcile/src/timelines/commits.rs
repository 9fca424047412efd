//! Records of commits imported from rooms: each once per run.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use hothouse_engine::NewCommit;
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    query::Query,
    record::{Draft, Kind, bodies::CommitBody},
};
use hothouse_timeline::{Direction, Selection, Timeline};
use jiff::Timestamp;

/// How many commits of a run are remembered.
const REMEMBERED: usize = 10_000;

/// The commits on a timeline.
#[derive(Default)]
pub(super) struct Told(Mutex<HashSet<String>>);

impl Told {
    /// Reads the commits on a timeline.
    pub(super) fn of(timeline: &Timeline) -> Self {
        let query = Query::parse("", Some(Kind::Commit)).expect("nothing is a query");
        let (now, limit) = (HostClock.now(), REMEMBERED);
        let selection =
            Selection { query, since: None, now, limit, direction: Direction::NewestFirst };
        let records = timeline.reader().and_then(|reader| reader.records(&selection));
        let commits = records.unwrap_or_default().into_iter();
        let commits = commits.filter_map(|record| Some(record.body::<CommitBody>().ok()?.commit));
        Self(Mutex::new(commits.collect()))
    }

    /// Adds a commit; `false` if already known. A branch that is imported again mostly has known
    /// commits.
    pub(super) fn is_new(&self, commit: &str) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(commit.to_owned())
    }
}

/// Drafts the record of a commit.
pub(super) fn draft(branch: &str, new: &NewCommit, now: Timestamp) -> Draft {
    let NewCommit { commit, files } = new;
    let body = CommitBody {
        commit: commit.id.clone(),
        branch: branch.to_owned(),
        author: commit.author.clone(),
        subject: commit.subject.clone(),
        files: *files,
    };
    let short = commit.id.get(..12).unwrap_or(&commit.id);
    Draft::of(now, format!("{short} on {branch}: {}", commit.subject), &body)
}
