//! A run by its id. What commands show of it comes only from its timeline and its folder, so it stays the same after
//! the sandbox was deleted.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use hothouse_api::{
    agent::AgentLogView, ask::AskView, flag::FlagView, integration::IntegrationView, route,
    timeline::TimelineQuery, workspace::RunLineView,
};
use hothouse_host::logs::strip_ansi;
use hothouse_model::{
    Failure, FailureKind,
    agent::AgentRecord,
    ask::AskState,
    record::{
        Kind, Record,
        bodies::{AgentBody, AskBody, RequestBody},
    },
};
use serde::Deserialize;

use super::timeline::fetch_all;
use crate::{render::plain, session::Session};

/// How much of a run's file is read.
const FILE_MOST: u64 = 16 << 20;

/// A run to inspect.
pub(crate) struct Past<'a> {
    session: &'a Session,
    pub(crate) run: RunLineView,
}

impl<'a> Past<'a> {
    /// Finds a run.
    pub(crate) fn find(session: &'a Session, id: &str) -> Result<Self, Failure> {
        let all: Vec<RunLineView> = session.get(route::RUNS)?;
        let run = all.into_iter().find(|run| run.id == id).ok_or_else(|| {
            let message = format!("there is no run `{}`", plain(id));
            Failure::new(FailureKind::NotFound, message).hint("`hothouse runs` lists them")
        })?;
        Ok(Self { session, run })
    }

    /// Reads its records of one kind, oldest first.
    pub(crate) fn records(&self, kind: Kind) -> Result<Vec<Record>, Failure> {
        let query = TimelineQuery {
            folder: self.session.folder_text()?,
            run: Some(self.run.id.clone()),
            kind: Some(kind.as_str().to_owned()),
            ..TimelineQuery::default()
        };
        fetch_all(self.session, query)
    }

    /// Reads a file from its folder; `None` if the run has none.
    pub(crate) fn file(&self, name: &str) -> Option<Vec<u8>> {
        let path = Path::new(&self.run.artifacts).join(name);
        self.session.read_artifact(&path, Some(self.run.id.clone()), FILE_MOST).ok()
    }

    /// Returns its flags, with their last values.
    pub(crate) fn flags(&self) -> Vec<FlagView> {
        let file = self.file("flags.json").unwrap_or_default();
        serde_json::from_slice(&file).unwrap_or_default()
    }

    /// Returns its integrations as they were treated, with the requests to each.
    pub(crate) fn integrations(&self) -> Result<Vec<IntegrationView>, Failure> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Run {
            integrations: Vec<IntegrationView>,
        }
        let file = self.file("run.json").unwrap_or_default();
        let Run { mut integrations } = serde_json::from_slice(&file).unwrap_or_default();
        let mut counts: HashMap<String, u64> = HashMap::new();
        let requests = self.records(Kind::Request)?;
        let bodies = requests.iter().filter_map(|record| record.body::<RequestBody>().ok());
        bodies
            .filter_map(|body| body.integration)
            .for_each(|name| *counts.entry(name).or_default() += 1);
        for one in &mut integrations {
            one.records = counts.get(&one.name).copied().unwrap_or_default();
        }
        Ok(integrations)
    }

    /// Returns the requests of its agents in their last states, oldest first.
    pub(crate) fn asks(&self) -> Result<Vec<AskView>, Failure> {
        let mut asks: Vec<AskView> = Vec::new();
        for record in self.records(Kind::Ask)? {
            let Ok(body) = record.body::<AskBody>() else { continue };
            let state = AskState::of(&body.state);
            match asks.iter_mut().find(|known| known.id == body.ask) {
                Some(known) => {
                    (known.state, known.answer) = (state, body.answer);
                    known.answered = Some(record.time);
                }
                None => asks.push(AskView {
                    id: body.ask,
                    project: self.run.project.clone().unwrap_or_default(),
                    sandbox: self.run.sandbox.clone().unwrap_or_default(),
                    time: record.time,
                    text: body.text,
                    host: body.host,
                    secret: body.secret,
                    limit: body.limit,
                    answered: (state != AskState::Open).then_some(record.time),
                    state,
                    answer: body.answer,
                }),
            }
        }
        Ok(asks)
    }

    /// Returns its coding agents in their last states.
    pub(crate) fn agents(&self) -> Result<Vec<AgentRecord>, Failure> {
        let mut last: BTreeMap<String, (Record, AgentBody)> = BTreeMap::new();
        for record in self.records(Kind::Agent)? {
            if let Ok(body) = record.body::<AgentBody>() {
                last.insert(body.agent.clone(), (record, body));
            }
        }
        let mut all: Vec<_> = last.into_values().map(|(at, body)| self.agent(&at, body)).collect();
        all.sort_by_key(|agent| agent.started);
        Ok(all)
    }

    fn agent(&self, record: &Record, body: AgentBody) -> AgentRecord {
        let is_active = body.state.is_active();
        AgentRecord {
            id: body.agent,
            project: self.run.project.clone().unwrap_or_default(),
            sandbox: self.run.sandbox.clone().unwrap_or_default(),
            tool: body.tool,
            mode: body.mode,
            state: body.state,
            pid: body.pid,
            model: body.model,
            round: body.round,
            started: body.started.parse().unwrap_or(record.time),
            ended: (!is_active).then_some(record.time),
            exit: body.exit,
            reason: body.reason,
            cost: body.cost,
            login: body.login,
            exec: String::new(),
            run: Some(self.run.id.clone()),
            rounds: Vec::new(),
        }
    }

    /// Returns what its last agent's terminal showed.
    pub(crate) fn agent_log(&self) -> Result<AgentLogView, Failure> {
        let last = self.agents()?.pop().ok_or_else(|| {
            let message = format!("run `{}` has had no agent", self.run.id);
            Failure::new(FailureKind::NotFound, message)
        })?;
        let name = format!("agents/{}.log", last.id);
        let bytes = self.file(&name).unwrap_or_default();
        let file = Path::new(&self.run.artifacts).join(name);
        Ok(AgentLogView {
            sandbox: last.sandbox,
            tool: last.tool,
            text: String::from_utf8_lossy(&strip_ansi(&bytes))
                .replace("\r\n", "\n")
                .replace('\r', "\n"),
            cut: false,
            file: Some(file.to_string_lossy().into_owned()),
        })
    }
}
