//! Commands that programs of a room run there with `exec`. They report these themselves, and the record says so.

use std::{path::PathBuf, time::Duration};

use axum::extract::State;
use hothouse_api::{
    ErrorBody,
    timeline::{ExecNoteBody, ExecNoteView},
};
use hothouse_host::{Clock, clock::HostClock, random};
use hothouse_model::record::{Draft, Kind, bodies::ExecBody, kind_of_id};

use super::{Json, blocking, sandbox::reference};
use crate::{Daemon, failure::ErrorResponse};

/// The maximum number of words of a recorded command, and of characters in each.
const WORDS: usize = 64;
const WORD: usize = 1000;

/// How long the end of a command waits until its beginning is written.
const SETTLE: Duration = Duration::from_secs(1);

#[utoipa::path(
    post, path = "/v1/timeline/exec", operation_id = "timeline_exec", request_body = ExecNoteBody,
    description = "Records a command that a program of the room runs there.",
    responses((status = 200, body = ExecNoteView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn note(
    State(daemon): State<Daemon>,
    Json(body): Json<ExecNoteBody>,
) -> Result<axum::Json<ExecNoteView>, ErrorResponse> {
    let wanted = body.sandbox.as_deref().map(reference).transpose()?;
    let noted = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(&body.folder))?;
        let timeline = daemon.keepers.timelines.of(&sandbox).filter(|_| body.id.is_some());
        let is_own = |id: &str| {
            let Some(timeline) = &timeline else { return false };
            // Its beginning may not be on the disk yet.
            timeline.settle(SETTLE);
            let begun = timeline.reader().ok().and_then(|reader| reader.get(id).ok().flatten());
            begun.is_some_and(|record| is_of_room(&record.body))
        };
        let draft = draft(body, &is_own);
        let id = draft.id.clone().unwrap_or_default();
        daemon.keepers.timelines.append(&sandbox, draft);
        Ok(ExecNoteView { id })
    });
    noted.await.map(axum::Json)
}

/// Whether a record is a note from the room, rather than a command from outside or an observed one.
fn is_of_room(body: &serde_json::Value) -> bool {
    body["inside"] == true && body["sampled"] != true
}

fn draft(body: ExecNoteBody, is_own: &dyn Fn(&str) -> bool) -> Draft {
    let word = |word: String| word.chars().take(WORD).collect();
    let argv: Vec<String> = body.argv.into_iter().take(WORDS).map(word).collect();
    let line = argv.join(" ");
    let summary = match body.exit {
        Some(code) => format!("exit {code}: {line}"),
        None => line,
    };
    // A room can only complete its own commands, not report how one from outside ended.
    let own = body.id.filter(|id| kind_of_id(id) == Some(Kind::Exec) && is_own(id));
    let id = own.unwrap_or_else(|| Kind::Exec.id(random::bytes()));
    let (exit, duration_ms) = (body.exit, body.duration_ms);
    let body =
        ExecBody { argv, root: body.root, inside: true, exit, duration_ms, ..ExecBody::default() };
    Draft { id: Some(id), ..Draft::of(HostClock.now(), summary, &body) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_names_its_own_commands_and_nothing_else() {
        let body = ExecNoteBody {
            argv: vec!["x".repeat(5000); 200],
            id: Some("mail_0123456789abcdef".into()),
            ..ExecNoteBody::default()
        };
        let noted = draft(body, &|_| true);
        assert!(noted.id.unwrap().starts_with("exec_"));
        assert_eq!(noted.body["argv"].as_array().unwrap().len(), WORDS);
        assert_eq!(noted.body["inside"], true);
        let body = ExecNoteBody {
            id: Some("exec_0123456789abcdef".into()),
            exit: Some(1),
            ..ExecNoteBody::default()
        };
        assert_eq!(draft(body.clone(), &|_| true).id.as_deref(), Some("exec_0123456789abcdef"));
        // A command of the user keeps its own end.
        assert_ne!(draft(body, &|_| false).id.as_deref(), Some("exec_0123456789abcdef"));
        let body = |inside, sampled| serde_json::json!({ "inside": inside, "sampled": sampled });
        assert!(
            is_of_room(&body(true, false)) && is_of_room(&serde_json::json!({ "inside": true }))
        );
        assert!(!is_of_room(&body(false, false)) && !is_of_room(&body(true, true)));
    }
}
