//! What steps access outside of their page: apps, files of the worktree, records of the run,
//! webhooks.

use std::{
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hothouse_browser::steps::{Later, Outside};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    Explain, SandboxRecord,
    query::{Query, Since},
    record::Kind,
};
use hothouse_timeline::{Direction, Selection, Timeline};
use serde_json::Value;

use super::{Browsers, place::Place};
use crate::webhooks::{ByHand, holds};

/// The time limit of a webhook.
const WEBHOOK: Duration = Duration::from_secs(60);

/// The surroundings of a page.
pub(super) struct RoomOutside<'a> {
    browsers: &'a Browsers,
    sandbox: &'a SandboxRecord,
    place: &'a Place,
    timeline: Option<Arc<Timeline>>,
    /// The last record before the page was opened: only later ones are waited for.
    since: u64,
}

impl<'a> RoomOutside<'a> {
    pub(super) fn new(
        browsers: &'a Browsers,
        sandbox: &'a SandboxRecord,
        place: &'a Place,
    ) -> Self {
        let run = sandbox.room.as_ref().map(|room| room.run.id.clone()).unwrap_or_default();
        let timeline = browsers.timelines.writable(&run);
        let since = timeline.as_ref().map_or(0, |timeline| timeline.head().seq);
        Self { browsers, sandbox, place, timeline, since }
    }
}

impl Outside for RoomOutside<'_> {
    fn url(&self, app: Option<&str>, path: &str) -> Result<String, String> {
        if path.starts_with("https://") || path.starts_with("http://") {
            return Ok(path.to_owned());
        }
        let app = app.unwrap_or(&self.place.app);
        let found = self.place.apps.iter().find(|(label, _)| label == app);
        let (_, origin) = found.ok_or_else(|| format!("there is no app `{app}`"))?;
        let path = super::place::path(path).map_err(|failure| failure.message)?;
        Ok(format!("{origin}{path}"))
    }

    fn file(&self, path: &str) -> Result<String, String> {
        worktree_file(&self.sandbox.worktree, path)
    }

    fn record<'a>(&'a self, kind: Kind, query: &'a str, patience: Duration) -> Later<'a, Value> {
        Box::pin(async move {
            let timeline = self.timeline.as_ref().ok_or("no run is being recorded")?;
            let query = Query::parse(query, Some(kind)).map_err(|error| error.to_string())?;
            let (now, since) = (HostClock.now(), Some(Since::Seq(self.since)));
            let selection =
                Selection { query, since, now, limit: 1, direction: Direction::OldestFirst };
            let reader = timeline.reader().map_err(|error| error.failure().message)?;
            let mut tail = reader.tail(&selection).map_err(|error| error.failure().message)?;
            let run = self.sandbox.room.as_ref().map(|room| room.run.id.as_str());
            let _interested =
                run.filter(|_| kind == Kind::Job).map(|run| self.browsers.interest.begin(run));
            let found = tokio::time::timeout(patience, tail.next()).await;
            let record = found.map_err(|_| format!("no such {kind} came in time"))?;
            record.map(|record| record.body).map_err(|error| error.failure().message)
        })
    }

    fn webhook<'a>(&'a self, what: &'a str) -> Later<'a, String> {
        Box::pin(async move {
            let asked = ByHand {
                what: what.to_owned(),
                payload: None,
                vendor: None,
                set: Vec::new(),
                adversary: None,
                to: None,
            };
            let (webhooks, sandbox) = (self.browsers.webhooks.clone(), self.sandbox.clone());
            let sending = tokio::task::spawn_blocking(move || {
                webhooks.send_by_hand(&sandbox, &asked, HostClock.now())
            });
            let sent = sending.await.map_err(|error| error.to_string())?;
            for (expected, attempt_rx) in sent.map_err(|failure| failure.message)? {
                let attempt = tokio::time::timeout(WEBHOOK, attempt_rx).await;
                let attempt =
                    attempt.ok().and_then(Result::ok).ok_or("it was not delivered in time")?;
                if !holds(expected, attempt.status) {
                    let answer = attempt.status.map(|status| format!("answered with {status}"));
                    return Err(format!(
                        "the app {}",
                        answer.unwrap_or_else(|| "did not answer".into())
                    ));
                }
            }
            Ok(String::new())
        })
    }
}

/// Returns the path of a worktree's file in the room, which is the same as on the host.
fn worktree_file(worktree: &Path, path: &str) -> Result<String, String> {
    let plain = Path::new(path);
    let is_below =
        plain.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let whole: PathBuf = worktree.join(plain);
    match whole.to_str().filter(|_| is_below && !path.is_empty()) {
        Some(whole) => Ok(whole.to_owned()),
        None => Err(format!("`{path}` is not a path in the worktree")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_of_the_worktree() {
        let of = |path| worktree_file(Path::new("/w"), path);
        assert_eq!(of("a/b.png").unwrap(), "/w/a/b.png");
        for wrong in ["", "/etc/passwd", "../x", "a/../../x"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
