//! `ask`, `asks` and `asks answer`: what agents need but may not grant themselves.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use hothouse_api::{
    ask::{AnswerBody, AskBody, AskView, AsksQuery},
    route,
    timeline::{WaitQuery, WaitView},
};
use hothouse_config::{File, Layers, MAX_BYTES};
use hothouse_host::files;
use hothouse_model::{Failure, FailureKind, ask::AskState};

use super::{given::required_duration, past::Past, timeline::checked};
use crate::{
    args::{Answer, AskArgs, AsksArgs, AsksCommand},
    render::{Cell, plain, table},
    session::Session,
    ui::{Tone, Ui},
};

/// How long one request waits for an answer.
const STEP: Duration = Duration::from_secs(10);

/// Sends a request to the user.
pub(crate) fn ask(session: &Session, ui: &Ui, args: AskArgs) -> Result<ExitCode, Failure> {
    let patience = required_duration("--timeout", &args.timeout)?;
    let body = AskBody {
        sandbox: checked(args.which)?,
        folder: session.folder_text()?,
        text: args.text.join(" "),
        host: args.host,
        secret: args.secret,
        limit: args.limit,
    };
    let asked: AskView = session.post(route::ASKS, &session.operation(), &body)?;
    if !args.wait {
        match ui.json {
            true => ui.print_json(&asked),
            false => {
                ui.say("Asked. Your user sees it with `hothouse asks`; wait for the answer with:");
                ui.print(&format!("hothouse wait ask id={}", asked.id));
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    ui.say(&format!("Waiting for the answer to {}.", asked.id));
    let answered = await_answer(session, &body, asked, patience)?;
    let allowed = answered.state == AskState::Allowed;
    match ui.json {
        true => ui.print_json(&answered),
        false => ui.print(&told(&answered)),
    }
    Ok(if allowed { ExitCode::SUCCESS } else { ExitCode::from(FailureKind::Unmet.exit_code()) })
}

fn told(ask: &AskView) -> String {
    match &ask.answer {
        Some(answer) => format!("{}: {}", ask.state, plain(answer)),
        None => ask.state.to_string(),
    }
}

/// Waits for the record of the answer, then returns the request in its new state.
fn await_answer(
    session: &Session,
    body: &AskBody,
    asked: AskView,
    patience: Duration,
) -> Result<AskView, Failure> {
    let begun = Instant::now();
    loop {
        let query =
            AsksQuery { sandbox: body.sandbox.clone(), folder: body.folder.clone(), all: true };
        let all: Vec<AskView> = session.query(route::ASKS, &query)?;
        let now = all.into_iter().find(|ask| ask.id == asked.id).unwrap_or_else(|| asked.clone());
        if now.state != AskState::Open {
            return Ok(now);
        }
        let Some(left) = patience.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())
        else {
            let message = format!("`{}` was not answered within {patience:?}", asked.id);
            return Err(Failure::new(FailureKind::Unmet, message)
                .hint(format!("it stays open: `hothouse wait ask id={}`", asked.id)));
        };
        let wait = WaitQuery {
            sandbox: body.sandbox.clone(),
            folder: body.folder.clone(),
            kind: "ask".into(),
            query: format!("id={}", asked.id),
            wait_ms: u64::try_from(left.min(STEP).as_millis()).unwrap_or(u64::MAX),
            ..WaitQuery::default()
        };
        let _: WaitView = session.query(route::TIMELINE_WAIT, &wait)?;
    }
}

/// Lists the requests of agents, or answers one of them.
pub(crate) fn run(session: &Session, ui: &Ui, args: AsksArgs) -> Result<ExitCode, Failure> {
    match args.command {
        Some(AsksCommand::Answer { id, answer, because }) => {
            answer_one(session, ui, &id, answer, because)
        }
        None => list(session, ui, args),
    }
}

fn list(session: &Session, ui: &Ui, args: AsksArgs) -> Result<ExitCode, Failure> {
    let is_past = args.run.is_some();
    let asks: Vec<AskView> = match &args.run {
        Some(run) => Past::find(session, run)?.asks()?,
        None => {
            let (sandbox, all) = (checked(args.which)?, args.all);
            let query = AsksQuery { sandbox, folder: session.folder_text()?, all };
            session.query(route::ASKS, &query)?
        }
    };
    match ui.json {
        true => ui.print_json(&asks),
        false if asks.is_empty() && is_past => ui.say("No requests in this run."),
        false if asks.is_empty() => ui.say("No open requests."),
        false => {
            let rows = asks.iter().map(row).collect();
            ui.print(&table(ui, &["ID", "SANDBOX", "STATE", "WANTS", "REASON"], rows));
        }
    }
    if ui.json || !ui.can_ask() || session.is_inside() || is_past {
        return Ok(ExitCode::SUCCESS);
    }
    for ask in asks.iter().filter(|ask| ask.state == AskState::Open) {
        match decide(ui, ask) {
            Some(allow) => send(session, ui, &ask.id, allow, None)?,
            None => ui.say(&format!("{} stays open.", ask.id)),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(ask: &AskView) -> Vec<Cell> {
    vec![
        Cell::new(&ask.id),
        Cell::new(format!("{}/{}", ask.project, ask.sandbox)).tone(Tone::Strong),
        Cell::new(told(ask)),
        Cell::new(wanted(ask)),
        Cell::new(&ask.text),
    ]
}

/// Returns what is requested, in a few words.
fn wanted(ask: &AskView) -> String {
    let AskView { host, secret, limit, .. } = ask;
    match (host, secret, limit) {
        (Some(host), ..) => format!("host {host}"),
        (_, Some(secret), _) => format!("secret {secret}"),
        (.., Some(limit)) => format!("limit {limit}"),
        _ => "-".to_owned(),
    }
}

/// Prompts for a decision. Any other input leaves the request open.
fn decide(ui: &Ui, ask: &AskView) -> Option<bool> {
    let question = format!(
        "{} of {}/{} wants {}: {}\n(a)llow, (d)eny, or Enter to leave it open:",
        ask.id,
        ask.project,
        ask.sandbox,
        plain(&wanted(ask)),
        plain(&ask.text)
    );
    match ui.ask_word(&question)?.as_str() {
        "a" | "allow" => Some(true),
        "d" | "deny" => Some(false),
        _ => None,
    }
}

fn answer_one(
    session: &Session,
    ui: &Ui,
    id: &str,
    answer: Option<Answer>,
    because: Option<String>,
) -> Result<ExitCode, Failure> {
    let allow = match answer {
        Some(answer) => answer == Answer::Allow,
        None => {
            let query =
                AsksQuery { sandbox: None, folder: session.folder_text()?, ..Default::default() };
            let open: Vec<AskView> = session.query(route::ASKS, &query)?;
            let ask = open.iter().find(|ask| ask.id == id).ok_or_else(|| {
                Failure::new(FailureKind::NotFound, format!("there is no open request `{id}`"))
                    .hint("`hothouse asks` lists them")
            })?;
            decide(ui, ask).ok_or_else(|| {
                Failure::new(FailureKind::Usage, "no answer was given")
                    .hint(format!("pass it: `hothouse asks answer {id} allow`, or `deny`"))
            })?
        }
    };
    send(session, ui, id, allow, because)?;
    Ok(ExitCode::SUCCESS)
}

fn send(
    session: &Session,
    ui: &Ui,
    id: &str,
    allow: bool,
    answer: Option<String>,
) -> Result<(), Failure> {
    let body = AnswerBody { id: id.to_owned(), allow, answer };
    let answered: AskView = session.post(route::ASKS_ANSWER, &session.operation(), &body)?;
    if ui.json {
        ui.print_json(&answered);
        return Ok(());
    }
    ui.say(&match (&answered.host, allow) {
        (_, false) => "Denied; the agent is told.".to_owned(),
        (Some(host), true) => {
            format!("Allowed {} for `{}`, effective immediately.", plain(host), answered.sandbox)
        }
        (None, true) => match &answered.secret {
            Some(secret) => {
                format!("Allowed. Set it with `hothouse secret set {}`.", plain(secret))
            }
            None => "Allowed; the agent is told. What it asks for is yours to do.".to_owned(),
        },
    });
    Ok(())
}

/// Whether the user's own config file makes terminals ring when an agent waits.
pub(super) fn rings(session: &Session) -> bool {
    let path = session.folders.user_config();
    let Ok(bytes) = files::read_capped(&path, MAX_BYTES as u64) else { return false };
    let name = path.display().to_string();
    let layers = Layers { user: Some(File { name: &name, bytes: &bytes }), ..Layers::default() };
    hothouse_config::resolve(&layers).is_ok_and(|found| found.config.notify.bell)
}
