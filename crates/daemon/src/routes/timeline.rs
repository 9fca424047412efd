//! The timeline of a run.

use std::{path::PathBuf, time::Duration};

use axum::extract::{Query, State};
use hothouse_api::{
    ErrorBody,
    timeline::{
        GapView, MarkBody, MarkView, NearView, SinceQuery, SinceView, TimelinePage, TimelineQuery,
        VerifyQuery, VerifyView, WaitQuery, WaitView,
    },
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    Explain, Failure, FailureKind,
    query::{self, Since, is_mark_name},
    record::{
        Draft, Kind,
        bodies::{self, GapKind},
    },
};
use hothouse_reconcile::{
    proofs::{FolderCheck, verify_folder},
    timelines::RunPlace,
};
use hothouse_timeline::{Direction, Gap, ReadError, Reader, Selection, Verification};

use super::{Json, blocking, sandbox::reference};
use crate::{Daemon, failure::ErrorResponse};

/// The maximum number of records in a response.
const MOST: usize = 1000;

/// The default number of records.
const USUAL: usize = 200;

/// How many near misses are reported.
const NEAREST: usize = 3;

/// The maximum time that a request waits.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

#[utoipa::path(
    post, path = "/v1/timeline/mark", operation_id = "timeline_mark", request_body = MarkBody,
    description = "Sets a mark, from which `since` counts.",
    responses((status = 200, body = MarkView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn mark(
    State(daemon): State<Daemon>,
    Json(body): Json<MarkBody>,
) -> Result<axum::Json<MarkView>, ErrorResponse> {
    if !is_mark_name(&body.name) {
        let shown: String = body.name.chars().take(80).collect();
        let failure =
            Failure::new(FailureKind::Usage, format!("`{shown}` is not a name for a mark"));
        return Err(ErrorResponse(failure.hint(
            "a name begins with a letter and has at most 64 letters, digits, `-`, `_` and `.`",
        )));
    }
    let wanted = body.sandbox.as_deref().map(reference).transpose()?;
    let marked = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(body.folder))?;
        let mark = bodies::MarkBody { mark: body.name.clone() };
        let draft = Draft::of(HostClock.now(), body.name.clone(), &mark);
        let record = daemon.keepers.timelines.append_now(&sandbox, draft)?;
        Ok(MarkView { mark: body.name, seq: record.seq, time: record.time })
    });
    marked.await.map(axum::Json)
}

#[utoipa::path(
    get, path = "/v1/timeline", operation_id = "timeline", params(TimelineQuery),
    responses((status = 200, body = TimelinePage), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody))
)]
pub(crate) async fn list(
    State(daemon): State<Daemon>,
    Query(query): Query<TimelineQuery>,
) -> Result<axum::Json<TimelinePage>, ErrorResponse> {
    let kind = query.kind.as_deref().map(parse_kind).transpose()?;
    let limit = query.limit.unwrap_or(USUAL).clamp(1, MOST);
    let mut selection = selection(&query.query, kind, query.since.as_deref())?;
    // One more than requested shows whether there are more.
    selection.limit = limit + 1;
    if query.newest {
        selection.direction = Direction::NewestFirst;
    }
    let place = place(&daemon, query.run, query.sandbox.as_deref(), query.folder).await?;
    let page = blocking(move || {
        let reader = daemon.keepers.timelines.reader(&place)?;
        let mut records = reader.records(&selection).map_err(|error| error.failure())?;
        let more = records.len() > limit;
        records.truncate(limit);
        let next = records.last().map(|record| record.seq).filter(|_| more && !query.newest);
        let artifacts = place.folder.to_string_lossy().into_owned();
        Ok(TimelinePage { records, next, artifacts })
    });
    page.await.map(axum::Json)
}

#[utoipa::path(
    get, path = "/v1/timeline/wait", operation_id = "timeline_wait", params(WaitQuery),
    description = "Returns the first record that matches, also one that is there already.",
    responses((status = 200, body = WaitView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody))
)]
pub(crate) async fn wait(
    State(daemon): State<Daemon>,
    Query(query): Query<WaitQuery>,
) -> Result<axum::Json<WaitView>, ErrorResponse> {
    let kind = parse_kind(&query.kind)?;
    let selection = selection(&query.query, Some(kind), query.since.as_deref())?;
    let place = place(&daemon, query.run, query.sandbox.as_deref(), query.folder).await?;
    let patience = Duration::from_millis(query.wait_ms).min(LONGEST_WAIT);
    let mut stop_rx = daemon.stop_tx.subscribe();
    // Records after this one are waited for again.
    let cursor = last_seq(read(&daemon, &place).await?).await?;
    let reader = read(&daemon, &place).await?;
    let (reading, wanted) = (selection.clone(), place.clone());
    let mut tail = blocking(move || reader.tail(&reading).map_err(|error| error.failure())).await?;
    let stopped = async move {
        stop_rx.wait_for(|stop| *stop).await.ok();
    };
    // Queues are polled more often while a client waits for a job.
    let _interested = (kind == Kind::Job).then(|| daemon.keepers.queues.await_jobs(&wanted.run));
    let found = tokio::select! {
        found = tokio::time::timeout(patience, tail.next()) => found.ok(),
        () = stopped => None,
    };
    let failed = |error: ReadError| ErrorResponse(error.failure());
    let record = match found {
        Some(found) => Some(found.map_err(failed)?),
        None => tail.poll().map_err(failed)?,
    };
    let nearest = match &record {
        Some(_) => Vec::new(),
        None => nearest(read(&daemon, &wanted).await?, selection).await?,
    };
    Ok(axum::Json(WaitView { record, nearest, cursor }))
}

async fn read(daemon: &Daemon, place: &RunPlace) -> Result<Reader, ErrorResponse> {
    let (timelines, place) = (daemon.keepers.timelines.clone(), place.clone());
    blocking(move || timelines.reader(&place)).await
}

async fn last_seq(reader: Reader) -> Result<u64, ErrorResponse> {
    let last = blocking(move || reader.last().map_err(|error| error.failure())).await?;
    Ok(last.map_or(0, |record| record.seq))
}

async fn nearest(reader: Reader, selection: Selection) -> Result<Vec<NearView>, ErrorResponse> {
    let found =
        blocking(move || reader.nearest(&selection, NEAREST).map_err(|error| error.failure()));
    let found = found.await?.into_iter();
    Ok(found.map(|(near, record)| NearView { failed: near.failed, record }).collect())
}

#[utoipa::path(
    get, path = "/v1/timeline/since", operation_id = "timeline_since", params(SinceQuery),
    responses((status = 200, body = SinceView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn since(
    State(daemon): State<Daemon>,
    Query(query): Query<SinceQuery>,
) -> Result<axum::Json<SinceView>, ErrorResponse> {
    let place = place(&daemon, query.run, query.sandbox.as_deref(), query.folder).await?;
    let limit = query.limit.unwrap_or(USUAL).min(MOST);
    let report = blocking(move || {
        let reader = daemon.keepers.timelines.reader(&place)?;
        let report = reader.since(&query.mark, limit).map_err(|error| error.failure())?;
        Ok((report, daemon.keepers.timelines.lost(&place)))
    });
    let (report, lost) = report.await?;
    let lost = (lost > 0).then(|| Gap {
        kind: GapKind::Dropped.into(),
        what: "records that could not be written".to_owned(),
        count: lost,
    });
    let gaps = report.gaps.into_iter().chain(lost);
    Ok(axum::Json(SinceView {
        mark: report.mark,
        seq: report.seq,
        counts: report.counts.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect(),
        new_errors: report.new_errors,
        unmatched: report.unmatched,
        seeding: report.seeding,
        gaps: gaps
            .map(|gap| GapView { kind: gap.kind, what: gap.what, count: gap.count })
            .collect(),
        records: report.records,
    }))
}

#[utoipa::path(
    get, path = "/v1/timeline/verify", operation_id = "timeline_verify", params(VerifyQuery),
    description = "Checks the chain of a run's records; `ok` tells the outcome.",
    responses((status = 200, body = VerifyView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn verify(
    State(daemon): State<Daemon>,
    Query(query): Query<VerifyQuery>,
) -> Result<axum::Json<VerifyView>, ErrorResponse> {
    let place = place(&daemon, Some(query.run), None, String::new()).await?;
    let found = blocking(move || {
        let chain = daemon.keepers.timelines.verify(&place)?;
        // A run without a folder has only its chain.
        let folder = match query.head {
            Some(head) => Some(verify_folder(&place.folder, Some(&head))?),
            None => verify_folder(&place.folder, None)
                .ok()
                .filter(|folder| folder.has_summary || !folder.problems.is_empty()),
        };
        Ok((chain, folder))
    });
    let (chain, folder) = found.await?;
    Ok(axum::Json(verified(chain, folder)))
}

/// Converts the result for a chain, and for the summary based on it.
pub(super) fn verified(chain: Verification, folder: Option<FolderCheck>) -> VerifyView {
    let summary = folder.as_ref().is_some_and(|folder| folder.has_summary);
    let problems = folder.map(|folder| folder.problems).unwrap_or_default();
    VerifyView {
        run: chain.run,
        ok: chain.ok && problems.is_empty(),
        records: chain.records,
        head: chain.head,
        broken_at: chain.broken_at,
        why: chain.why,
        problems,
        summary,
        signature: None,
    }
}

/// Finds a run: by its id, or the last one of a sandbox.
pub(super) async fn place(
    daemon: &Daemon,
    run: Option<String>,
    sandbox: Option<&str>,
    folder: String,
) -> Result<RunPlace, ErrorResponse> {
    let engine = daemon.engine.clone();
    if let Some(run) = run {
        let found = blocking(move || engine.run_by_id(&run)).await?;
        return Ok(RunPlace { run: found.id, folder: found.artifacts });
    }
    let wanted = sandbox.map(reference).transpose()?;
    let is_named = wanted.is_some();
    let found = blocking(move || {
        engine.find(wanted.as_ref(), &PathBuf::from(folder)).map_err(|failure| {
            let is_gone = !is_named && failure.kind == FailureKind::NotFound;
            match engine.runs().ok().filter(|runs| is_gone && !runs.is_empty()) {
                Some(_) => {
                    failure.hint("`hothouse runs` lists runs of deleted sandboxes, for `--run ID`")
                }
                None => failure,
            }
        })
    });
    let sandbox = found.await?;
    let Some(room) = sandbox.room else {
        let message = format!("`{}` has not been up yet", sandbox.name);
        let hint = format!("start it with `hothouse up -w {}`", sandbox.name);
        return Err(ErrorResponse(Failure::new(FailureKind::NotFound, message).hint(hint)));
    };
    Ok(RunPlace { run: room.run.id, folder: room.run.artifacts })
}

fn parse_kind(text: &str) -> Result<Kind, ErrorResponse> {
    text.parse()
        .map_err(|error: hothouse_model::record::UnknownKind| ErrorResponse(error.failure()))
}

pub(super) fn selection(
    text: &str,
    kind: Option<Kind>,
    since: Option<&str>,
) -> Result<Selection, ErrorResponse> {
    let query = query::Query::parse(text, kind).map_err(|error| ErrorResponse(error.failure()))?;
    let since = since.map(str::parse::<Since>).transpose();
    let since = since.map_err(|error| ErrorResponse(error.failure()))?;
    let now = HostClock.now();
    Ok(Selection { query, since, now, limit: MOST, direction: Direction::OldestFirst })
}
