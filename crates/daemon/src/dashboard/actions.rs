//! The actions of dashboard forms. Each does the same as a command, through the same function.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::extract::{Query, State};
use hothouse_api::{
    ask::AnswerBody,
    egress::{AllowBody, ApproveBody},
    flag::FlagBody,
    proof::{ProofView, SmokeBody},
    sandbox::ForkBody,
    webhook::WebhookBody,
    workspace::SnapshotBody,
};
use hothouse_dashboard::{
    page::Ran,
    place::{Part, Place, Subject},
};
use hothouse_engine::UpSpec;
use hothouse_evidence::checks::Check;
use hothouse_model::{
    Explain, Failure, FailureKind, OperationId, SandboxRecord, record::bodies, stack::ServiceAction,
};
use hothouse_reconcile::{
    in_room::{Existing, InRoom},
    sleep,
};
use hothouse_timeline::digest;
use serde_json::Value;

use super::{Dashboard, inbox, query_value, records};
use crate::{
    Daemon,
    exec::shell,
    failure::ErrorResponse,
    routes::{Json, Operation, ask, blocking, egress, flag, proof, snapshot, webhook},
};

/// How long a service may take to restart.
const RESTART_TIME: Duration = Duration::from_secs(60);

/// The action of a form.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wish {
    Up,
    Down,
    Pause,
    Resume,
    Restart(String),
    /// Allow a rule for the sandbox.
    Allow(String),
    /// Pin a flag, or unpin it without a value.
    Flag(String, Option<Value>),
    Snapshot,
    Restore(String),
    /// Create a sandbox with this name from a snapshot.
    Fork {
        label: String,
        name: String,
    },
    /// Run a scenario.
    Smoke(String),
    /// Open the shell with this name.
    Shell(String),
    CloseShell(String),
    /// Redeliver a webhook, by its record.
    Resend(String),
    /// Write a fixture for a request that none matched, by its record.
    Fixture(String),
    /// Approve the settings with this digest.
    Approve(String),
    /// Answer a request: whether it is allowed, and a message.
    Answer(bool, Option<String>),
}

impl Wish {
    pub(super) fn read(word: &str, form: &str) -> Option<Self> {
        let value = |name: &str| query_value(form, name);
        let said = || value("text").filter(|text| !text.is_empty());
        Some(match word {
            "up" => Self::Up,
            "down" => Self::Down,
            "pause" => Self::Pause,
            "resume" => Self::Resume,
            "restart" => Self::Restart(value("service")?),
            "allow" => Self::Allow(value("rule")?),
            "flag" => Self::Flag(value("key")?, Some(serde_json::from_str(&value("value")?).ok()?)),
            "unflag" => Self::Flag(value("key")?, None),
            "snapshot" => Self::Snapshot,
            "restore" => Self::Restore(value("label")?),
            "fork" => Self::Fork { label: value("label")?, name: value("name")? },
            "smoke" => Self::Smoke(value("scenario")?),
            "shell" => Self::Shell(value("exec")?),
            "close-shell" => Self::CloseShell(value("exec")?),
            "resend" => Self::Resend(value("record")?),
            "fixture" => Self::Fixture(value("record")?),
            "approve" => Self::Approve(value("text")?),
            "grant" => Self::Answer(true, said()),
            "refuse" => Self::Answer(false, said()),
            _ => return None,
        })
    }
}

/// What a page shows after an action that succeeded.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Done {
    /// What to say; nothing if the page itself shows it.
    pub(super) said: Option<String>,
    /// The place that it made.
    pub(super) made: Option<Place>,
}

/// Performs the action of a form. The id is that of a sandbox, or of an agent's request.
pub(super) async fn fulfil(
    dashboard: &Arc<Dashboard>,
    id: &str,
    wish: Wish,
) -> Result<Done, Failure> {
    let daemon = &dashboard.daemon;
    let mut result = Done { said: said(&wish), made: None };
    if let Wish::Answer(allow, answer) = wish {
        let body = AnswerBody { id: id.to_owned(), allow, answer };
        done(ask::answer(State(daemon.clone()), Json(body)).await)?;
        return Ok(result);
    }
    let (known, wanted) = (daemon.clone(), id.to_owned());
    let found = blocking(move || Ok(records::sandbox(&known, &wanted))).await;
    let found = found.map_err(|ErrorResponse(failure)| failure)?;
    let sandbox = found.ok_or_else(|| {
        Failure::new(FailureKind::NotFound, "the sandbox is gone").hint("reload the page")
    })?;
    match wish {
        Wish::Smoke(scenario) => smoke(dashboard, &sandbox, scenario).await?,
        Wish::Fork { label, name } => {
            result.made = Some(fork(daemon, &sandbox, &label, name).await?)
        }
        wish => on(daemon, sandbox, wish).await?,
    }
    Ok(result)
}

/// Returns what to say once an action is done whose effect the page does not show by itself.
fn said(wish: &Wish) -> Option<String> {
    Some(match wish {
        Wish::Restart(service) => format!("Restarted {service}."),
        Wish::Allow(rule) => format!("Allowed {rule}, effective immediately."),
        Wish::Restore(label) => format!("Restored {label}."),
        Wish::Fork { label, name } => format!("Made {name} from {label}."),
        Wish::Resend(_) => "Sent again.".to_owned(),
        Wish::Fixture(_) => "Wrote the fixture.".to_owned(),
        Wish::Approve(_) => "Approved the settings.".to_owned(),
        Wish::Answer(true, _) => "Allowed; the agent is told.".to_owned(),
        Wish::Answer(false, _) => "Denied; the agent is told.".to_owned(),
        _ => return None,
    })
}

/// Makes a sandbox from a snapshot; returns its page.
async fn fork(
    daemon: &Daemon,
    sandbox: &SandboxRecord,
    label: &str,
    name: String,
) -> Result<Place, Failure> {
    let from = Some(format!("{}@{label}", sandbox.name));
    let folder = sandbox.worktree.to_string_lossy().into_owned();
    let body = forked(name, folder, from);
    let made = crate::routes::sandbox::fork(State(daemon.clone()), operation(), Json(body)).await;
    let made = made.map_err(|ErrorResponse(failure)| failure)?.0;
    Ok(Place::Of(Subject::Sandbox(made.id), Part::Start))
}

async fn on(daemon: &Daemon, sandbox: SandboxRecord, wish: Wish) -> Result<(), Failure> {
    let state = State(daemon.clone());
    let named = inbox::named(&sandbox);
    let (sandbox_name, folder) = (named.sandbox.clone(), named.folder.clone());
    match wish {
        Wish::Resume => {
            let now = sleep::wake(&daemon.keepers, sandbox.key).await?;
            in_room(daemon, now, Wish::Resume).await
        }
        Wish::Allow(rule) => {
            let rules = vec![rule];
            let body =
                AllowBody { sandbox: sandbox_name, folder, rules, project: false, remove: false };
            done(egress::allow(state, Json(body)).await)
        }
        Wish::Flag(key, value) => {
            let unset = value.is_none();
            let value = value.unwrap_or_default();
            let body = FlagBody { sandbox: sandbox_name, folder, key, value, unset };
            done(flag::set(state, Json(body)).await)
        }
        Wish::Shell(exec) => shell::open(daemon, &sandbox, exec).await,
        Wish::CloseShell(exec) => shell::close(daemon, &sandbox, exec).await,
        Wish::Snapshot => {
            let body = SnapshotBody { sandbox: sandbox_name, folder, label: None };
            done(snapshot::take(state, operation(), Json(body)).await)
        }
        Wish::Restore(label) => {
            let body = SnapshotBody { sandbox: sandbox_name, folder, label: Some(label) };
            done(snapshot::restore(state, operation(), Json(body)).await)
        }
        Wish::Approve(shown) => {
            let pending = egress::pending(state.clone(), Query(named)).await;
            let pending = pending.map_err(|ErrorResponse(failure)| failure)?.0;
            if digest(pending.text.as_bytes()) != shown {
                let message = "the settings have changed since the page was shown";
                return Err(Failure::new(FailureKind::Conflict, message));
            }
            let body = ApproveBody { sandbox: sandbox_name, folder, text: pending.text };
            done(egress::approve(state, Json(body)).await)
        }
        Wish::Resend(record) => {
            let body = resent(daemon, &sandbox, &record).await?;
            done(
                webhook::send(state, Json(WebhookBody { sandbox: sandbox_name, folder, ..body }))
                    .await,
            )
        }
        Wish::Fixture(record) => write_fixture(daemon, &sandbox, &record).await,
        wish => in_room(daemon, sandbox, wish).await,
    }
}

pub(super) fn operation() -> Operation {
    Operation(OperationId::from_random(hothouse_host::random::bytes()))
}

fn forked(name: String, folder: String, from: Option<String>) -> ForkBody {
    ForkBody {
        name,
        folder,
        from,
        base: None,
        branch: None,
        task: None,
        context: None,
        repository: None,
        environment: BTreeMap::new(),
        tree: None,
        stack: None,
        setup: false,
        variables: BTreeMap::new(),
    }
}

fn done<T>(result: Result<T, ErrorResponse>) -> Result<(), Failure> {
    result.map(|_| ()).map_err(|ErrorResponse(failure)| failure)
}

/// Changes the state of a room or service.
async fn in_room(daemon: &Daemon, sandbox: SandboxRecord, wish: Wish) -> Result<(), Failure> {
    let (engine, port) = (daemon.engine.clone(), daemon.keepers.url_port());
    let operation = OperationId::from_random(hothouse_host::random::bytes());
    let result = blocking(move || match wish {
        Wish::Up => {
            engine.up(&sandbox, &UpSpec::default(), operation)?;
            let now = engine.sandbox(sandbox.key)?;
            engine.write_metadata(now.as_ref().unwrap_or(&sandbox), port)
        }
        Wish::Down => engine.down(&sandbox, operation),
        Wish::Pause => engine.pause(&sandbox),
        Wish::Resume => engine.resume_room(&sandbox),
        Wish::Restart(service) => {
            engine.act_on_service(&sandbox, &service, ServiceAction::Restart, RESTART_TIME)
        }
        _ => Ok(()),
    });
    done(result.await)
}

/// Builds a webhook from the record of a delivered one.
async fn resent(
    daemon: &Daemon,
    sandbox: &SandboxRecord,
    record: &str,
) -> Result<WebhookBody, Failure> {
    let gone = || Failure::new(FailureKind::NotFound, "the webhook is no longer recorded");
    let subject = Subject::Sandbox(sandbox.id.to_string());
    let run = records::run_of(daemon, subject).await.ok_or_else(gone)?;
    let (timelines, wanted) = (daemon.keepers.timelines.clone(), record.to_owned());
    let found = blocking(move || {
        timelines.reader(&run.place)?.get(&wanted).map_err(|error| error.failure())
    });
    let found = found.await.map_err(|ErrorResponse(failure)| failure)?.ok_or_else(gone)?;
    let hook: bodies::WebhookBody = found.body().map_err(|_| gone())?;
    let what = hook.fixture.unwrap_or_else(|| format!("{}/{}", hook.vendor, hook.r#type));
    Ok(WebhookBody {
        sandbox: None,
        folder: String::new(),
        what,
        payload: hook.request.text,
        vendor: Some(hook.vendor),
        set: Vec::new(),
        adversary: None,
        to: None,
    })
}

/// Writes the fixture that would have answered a request into the worktree, where the mock reads it.
async fn write_fixture(
    daemon: &Daemon,
    sandbox: &SandboxRecord,
    record: &str,
) -> Result<(), Failure> {
    let gone = || Failure::new(FailureKind::NotFound, "the request is no longer recorded");
    let subject = Subject::Sandbox(sandbox.id.to_string());
    let run = records::run_of(daemon, subject).await.ok_or_else(gone)?;
    let stub = records::stub(daemon, &run.place, record).await.ok_or_else(gone)?;
    let (folder, name) = stub.file.rsplit_once('/').ok_or_else(gone)?;
    let room = InRoom::of(&daemon.engine, &daemon.keepers.connections, sandbox).await?;
    room.put(folder, name, stub.text.into_bytes(), Existing::Keep).await.map(drop)
}

/// Runs a scenario; its page shows the result.
async fn smoke(
    dashboard: &Arc<Dashboard>,
    sandbox: &SandboxRecord,
    scenario: String,
) -> Result<(), Failure> {
    let key = (sandbox.id.to_string(), scenario.clone());
    dashboard.scenarios().insert(key.clone(), Ran::Running);
    dashboard.rendered.forget();
    let named = inbox::named(sandbox);
    let body = SmokeBody { sandbox: named.sandbox, folder: named.folder, scenario };
    let ran = proof::smoke(State(dashboard.daemon.clone()), operation(), Json(body)).await;
    let ran = match ran {
        Ok(proof) => outcome(proof.0),
        Err(ErrorResponse(failure)) => Ran::Failed(failure.in_a_line()),
    };
    dashboard.scenarios().insert(key, ran);
    Ok(())
}

fn outcome(proof: ProofView) -> Ran {
    let checks = proof.checks.iter().map(told);
    match proof.failure {
        Some(failure) => Ran::Failed(failure),
        None => Ran::Done { ok: proof.ok, checks: checks.collect(), run: proof.run },
    }
}

/// Describes a check, with what was seen if it does not hold.
pub(super) fn told(check: &Check) -> (bool, String) {
    let what = format!("{} {}: {}", check.kind, check.query, check.wanted);
    match check.ok {
        true => (true, what),
        false => (false, format!("{what}; {}", check.seen)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_names_an_action_and_what_it_needs() {
        assert_eq!(Wish::read("up", ""), Some(Wish::Up));
        assert_eq!(Wish::read("restart", "service=web"), Some(Wish::Restart("web".into())));
        assert_eq!(Wish::read("allow", "rule=a.example"), Some(Wish::Allow("a.example".into())));
        let flag = Wish::read("flag", "key=x&value=false");
        assert_eq!(flag, Some(Wish::Flag("x".into(), Some(Value::Bool(false)))));
        let fork = Wish::read("fork", "label=x&name=b");
        assert_eq!(fork, Some(Wish::Fork { label: "x".into(), name: "b".into() }));
        assert_eq!(Wish::read("grant", "text="), Some(Wish::Answer(true, None)));
        for (word, form) in
            [("restart", ""), ("flag", "key=x&value=nonsense"), ("delete", ""), ("allow", "rul=x")]
        {
            assert_eq!(Wish::read(word, form), None, "{word}");
        }
    }
}
