//! Test results reported by a runner in a room. They are the room's own claim, and the records say so.

use std::path::{Path, PathBuf};

use axum::extract::State;
use hothouse_api::{
    ErrorBody,
    timeline::{TestFileBody, TestNoteBody, TestsBody, TestsView},
};
use hothouse_engine::Engine;
use hothouse_host::{
    Clock,
    clock::HostClock,
    usage::{Blocks, usage},
};
use hothouse_model::{
    Explain, Failure, FailureKind, SandboxRecord, Word, Words, browse,
    record::{
        Draft, Kind,
        bodies::{TestBody, TestFile},
    },
};
use hothouse_timeline::Timeline;

use super::{Json, blocking, sandbox::reference};
use crate::{Daemon, failure::ErrorResponse};

/// The maximum number of results per request, and of characters in a text.
const TESTS: usize = 200;
const TEXT: usize = 4000;

/// The maximum number of files per result, and of bytes in each.
const FILES: usize = 10;
const FILE_MOST: u64 = 32 << 20;

/// The maximum size of all test files of a run.
const RUN_MOST: u64 = 512 << 20;

/// The folder of files in the run's folder.
const FOLDER: &str = "tests";

/// The files that are stored: pictures, videos, and Playwright traces.
const ENDINGS: [&str; 5] = [".png", ".jpg", ".webm", ".zip", ".md"];

#[utoipa::path(
    post, path = "/v1/timeline/tests", operation_id = "timeline_tests", request_body = TestsBody,
    description = "Records results of tests that a runner in the room reports.",
    responses((status = 200, body = TestsView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn note(
    State(daemon): State<Daemon>,
    Json(body): Json<TestsBody>,
) -> Result<axum::Json<TestsView>, ErrorResponse> {
    let wanted = body.sandbox.as_deref().map(reference).transpose()?;
    let noted = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(&body.folder))?;
        let timeline = daemon.keepers.timelines.of(&sandbox).ok_or_else(|| {
            Failure::new(FailureKind::Conflict, "no run of the sandbox is being recorded")
        })?;
        let runner = browse::cut(&body.runner, 40);
        let used = usage(&timeline.folder().join(FOLDER), Blocks::AreOwn);
        let mut left = RUN_MOST.saturating_sub(used.map_or(0, |used| used.total));
        let mut ids = Vec::new();
        for test in body.tests.into_iter().take(TESTS) {
            let id = timeline.mint(Kind::Test);
            let files = kept(&daemon.engine, (&timeline, &id), &sandbox, &test.files, &mut left)?;
            let draft = draft(&runner, test, files);
            daemon.keepers.timelines.append(&sandbox, Draft { id: Some(id.clone()), ..draft });
            ids.push(id);
        }
        Ok(TestsView { ids })
    });
    noted.await.map(axum::Json)
}

fn draft(runner: &str, test: TestNoteBody, files: Vec<TestFile>) -> Draft {
    let text = |text: &str| browse::cut(text, TEXT);
    let body = TestBody {
        runner: runner.to_owned(),
        project: text(&test.project),
        file: text(&test.file),
        line: test.line,
        title: text(&test.title),
        status: short(test.status),
        expected: short(test.expected),
        outcome: short(test.outcome),
        retry: test.retry,
        duration_ms: test.duration_ms,
        error: test.error.as_deref().map(text),
        files,
    };
    let summary = format!("{} {}: {}", body.status, body.file, body.title);
    Draft::of(HostClock.now(), browse::cut(&summary, 300), &body)
}

/// Truncates an unknown word of a runner.
fn short<T: Words>(word: Word<T>) -> Word<T> {
    match word {
        Word::Known(known) => known.into(),
        Word::Other(text) => Word::Other(browse::cut(&text, 40)),
    }
}

/// Copies files of a result from the worktree to the folder of the run. Files elsewhere, irregular ones, and those too
/// large or of another type are only named.
fn kept(
    engine: &Engine,
    (timeline, id): (&Timeline, &str),
    sandbox: &SandboxRecord,
    files: &[TestFileBody],
    left: &mut u64,
) -> Result<Vec<TestFile>, Failure> {
    let mut all = Vec::new();
    for (number, file) in files.iter().take(FILES).enumerate() {
        let ending = ENDINGS.iter().find(|ending| file.path.ends_with(**ending));
        let below = Path::new(&file.path).strip_prefix(&sandbox.worktree).ok();
        let bytes = below
            .zip(ending)
            .and_then(|(below, _)| engine.worktree_bytes(sandbox, below, FILE_MOST.min(*left)));
        let name = format!("{FOLDER}/{id}/{}{}", number + 1, ending.unwrap_or(&""));
        if let Some(bytes) = &bytes {
            *left = left.saturating_sub(bytes.len() as u64);
            let put = timeline.put_files(Kind::Test, [(name.as_str(), bytes.as_slice())]);
            put.map_err(|error| error.failure())?;
        }
        all.push(TestFile {
            name: browse::cut(&file.name, 200),
            content_type: browse::cut(&file.content_type, 100),
            path: browse::cut(&file.path, 1000),
            file: bytes.map(|_| name),
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use hothouse_model::record::bodies::TestStatus;

    use super::*;

    #[test]
    fn texts_of_a_result_are_bounded_and_its_summary_is_one_line_of_some_length() {
        let test = TestNoteBody {
            title: "x".repeat(100_000),
            file: "e2e/cart.spec.ts".into(),
            status: TestStatus::Failed.into(),
            outcome: Word::Other("z".repeat(100_000)),
            error: Some("y".repeat(100_000)),
            ..TestNoteBody::default()
        };
        let draft = draft("playwright", test, Vec::new());
        assert_eq!(draft.kind, Kind::Test);
        assert!(draft.summary.starts_with("failed e2e/cart.spec.ts: xx"));
        assert!(draft.summary.chars().count() <= 301, "{}", draft.summary.len());
        let body: TestBody = serde_json::from_value(draft.body).unwrap();
        assert!(body.title.chars().count() <= TEXT + 1 && body.error.unwrap().len() <= TEXT + 4);
        assert_eq!(body.status, TestStatus::Failed);
        assert!(body.outcome.as_str().chars().count() <= 41);
    }
}
