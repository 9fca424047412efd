//! `events`: events as they happen.

use std::{ops::ControlFlow, process::ExitCode};

use hothouse_api::{
    operation::EventQuery,
    route,
    timeline::{TimelinePage, TimelineQuery},
};
use hothouse_model::Failure;
use serde_json::{Value, json};

use super::timeline::{checked, cut};
use crate::{args::EventsArgs, render::plain, session::Session, ui::Ui};

/// How many records are shown without `--follow`.
const SHOWN: usize = 20;

/// Follows events, or shows the last records.
pub(crate) fn follow(session: &Session, ui: &Ui, args: EventsArgs) -> Result<ExitCode, Failure> {
    let sandbox = checked(args.which)?;
    let folder = session.folder_text()?;
    if !args.follow {
        let limit = Some(SHOWN);
        let query =
            TimelineQuery { sandbox, folder, limit, newest: true, ..TimelineQuery::default() };
        let page: TimelinePage = session.query(route::TIMELINE, &query)?;
        for record in page.records.iter().rev() {
            show(ui, &json!({ "event": "record", "record": record }));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let query = EventQuery { operation: None, records: true, sandbox, folder: Some(folder) };
    loop {
        let mut is_cut = None;
        session.follow_events(&query, &mut |event| {
            show(ui, &event);
            is_cut = ui.cut_off();
            if is_cut.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if let Some(code) = is_cut {
            return Ok(code);
        }
        // The daemon has ended; follow the next one.
    }
}

fn show(ui: &Ui, event: &Value) {
    match ui.json {
        true => ui.print_json_line(event),
        false => ui.print(&line(event)),
    }
}

/// Renders an event on one line.
fn line(event: &Value) -> String {
    let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let line = match text("/event") {
        "record" => {
            let (kind, sandbox) = (text("/record/kind"), text("/record/sandbox"));
            format!("{sandbox}  {kind}  {}", cut(text("/record/summary")))
        }
        what => {
            let about = [text("/plan"), text("/subject"), text("/title"), text("/text")];
            let about: Vec<_> = about.into_iter().filter(|part| !part.is_empty()).collect();
            format!("{}  {what}  {}", text("/operation"), about.join(" "))
        }
    };
    plain(line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let record = json!({ "kind": "mail", "sandbox": "a", "summary": "receipt\u{1b}[2J" });
        let shown = line(&json!({ "event": "record", "record": record }));
        assert!(shown.starts_with("a  mail  receipt") && !shown.contains('\u{1b}'), "{shown}");
        let begun = json!({ "operation": "op_12345678", "event": "plan-begun", "plan": "up", "subject": "a" });
        assert_eq!(line(&begun), "op_12345678  plan-begun  up a");
    }
}
