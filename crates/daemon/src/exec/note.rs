//! The notes on the timeline about a command: its start and its end.

use std::time::Instant;

use hothouse_api::exec::{Ended, RunAsk};
use hothouse_host::{Clock, clock::HostClock, random};
use hothouse_model::record::{Draft, Kind, bodies::ExecBody};

/// How many words of a command are kept, and how many characters of each.
const WORDS: usize = 64;
const WORD: usize = 1000;

/// A command in progress.
pub(super) struct ExecNote {
    id: String,
    service: Option<String>,
    body: ExecBody,
    begun: Instant,
}

impl ExecNote {
    pub(super) fn new(run: &RunAsk) -> Self {
        let word = |word: &Vec<u8>| String::from_utf8_lossy(word).chars().take(WORD).collect();
        let argv: Vec<String> = match run.database {
            Some(_) => vec!["db".to_owned()],
            None => run.words.iter().take(WORDS).map(word).collect(),
        };
        let body = ExecBody {
            argv,
            exec: run.target.exec.clone(),
            root: run.root,
            fresh: run.fresh,
            ..ExecBody::default()
        };
        Self {
            id: Kind::Exec.id(random::bytes()),
            service: run.service.clone(),
            body,
            begun: Instant::now(),
        }
    }

    pub(super) fn begun(&self) -> Draft {
        self.draft(self.body.argv.join(" "), &self.body)
    }

    pub(super) fn ended(self, ended: &Ended) -> Draft {
        let (exit, signal) = match ended {
            Ended::Code(code) | Ended::NotStarted { code, .. } => (Some(*code), None),
            Ended::Signal(number) => (None, Some(*number)),
        };
        let how = match (exit, signal) {
            (Some(code), _) => format!("exit {code}"),
            (None, number) => format!("signal {}", number.unwrap_or_default()),
        };
        let taken = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let body = ExecBody { exit, signal, duration_ms: Some(taken), ..self.body.clone() };
        self.draft(format!("{how}: {}", self.body.argv.join(" ")), &body)
    }

    fn draft(&self, summary: String, body: &ExecBody) -> Draft {
        let draft = Draft::of(HostClock.now(), summary, body);
        Draft { id: Some(self.id.clone()), service: self.service.clone(), ..draft }
    }
}
