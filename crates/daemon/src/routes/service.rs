//! Services and their logs.

use std::{path::PathBuf, time::Duration};

use axum::extract::{Query, State};
use hothouse_api::{
    ErrorBody, SandboxView,
    exec::DatabaseAsk,
    log::{LogLine, LogPage, LogQuery},
    sandbox::FindQuery,
    service::{CommandQuery, CommandView, ServiceAct, ServiceBody},
};
use hothouse_engine::Engine;
use hothouse_host::{Clock, clock::HostClock, logs};
use hothouse_model::{Failure, FailureKind, config, stack::ServiceAction};
use jiff::Timestamp;

use super::{Json, blocking, run_log, sandbox};
use crate::{Daemon, exec, failure::ErrorResponse};

/// How long a service may take to start by default.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The default size of a page of log text, in bytes.
const PAGE: usize = 8 << 20;

/// The maximum time that a request waits for a line.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// How often a waiting request checks the files.
const LOOK: Duration = Duration::from_millis(40);

/// The maximum size of a compiled pattern.
const PATTERN_LIMIT: usize = 4 << 20;

#[utoipa::path(
    post, path = "/v1/services/act", operation_id = "service_act", request_body = ServiceBody,
    description = "Starts, stops, restarts or signals one service; a start waits until it is ready.",
    responses((status = 200, body = SandboxView), (status = 404, body = ErrorBody), (status = 412, body = ErrorBody))
)]
pub(crate) async fn act(
    State(daemon): State<Daemon>,
    Json(body): Json<ServiceBody>,
) -> Result<axum::Json<SandboxView>, ErrorResponse> {
    let action = match body.action {
        ServiceAct::Start => ServiceAction::Start,
        ServiceAct::Stop => ServiceAction::Stop,
        ServiceAct::Restart => ServiceAction::Restart,
        ServiceAct::Signal(number) => ServiceAction::Signal(number),
    };
    let timeout = body.timeout_seconds.map_or(START_TIMEOUT, Duration::from_secs);
    let query = FindQuery { sandbox: body.sandbox, folder: body.folder };
    let (keepers, runtime) = (daemon.keepers.clone(), tokio::runtime::Handle::current());
    sandbox::act(daemon, query, move |engine, record| {
        // If we serve its port ourselves, the service is ready only once we answer there.
        let starts = || runtime.block_on(keepers.refresh_urls_of(record));
        engine.act_on_service_telling(record, &body.service, action, timeout, &starts)
    })
    .await
}

#[utoipa::path(
    get, path = "/v1/services/command", operation_id = "service_command", params(CommandQuery),
    description = "Returns folder, environment and argv with which a command runs as those of a service do.",
    responses((status = 200, body = CommandView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn command(
    State(daemon): State<Daemon>,
    Query(query): Query<CommandQuery>,
) -> Result<axum::Json<CommandView>, ErrorResponse> {
    let ask = match query.database.as_deref() {
        None => None,
        Some("shell") => Some(DatabaseAsk::Shell),
        Some("tables") => Some(DatabaseAsk::Tables),
        Some(_) => {
            let failure = Failure::new(FailureKind::Usage, "`database` is `shell` or `tables`");
            return Err(ErrorResponse(failure));
        }
    };
    let wanted = query.sandbox.as_deref().map(sandbox::reference).transpose()?;
    let found = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(query.folder))?;
        let stack = daemon.engine.stack_of(&sandbox);
        let service = exec::service_of(stack, query.service.as_deref())?;
        let argv = exec::database_argv(&service, ask)?;
        let folder = service.spec.folder.to_string_lossy().into_owned();
        Ok(CommandView { argv, folder, environment: service.spec.env.into_iter().collect() })
    });
    found.await.map(axum::Json)
}

#[utoipa::path(
    get, path = "/v1/logs", operation_id = "logs_read", params(LogQuery),
    responses((status = 200, body = LogPage), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody))
)]
pub(crate) async fn logs(
    State(daemon): State<Daemon>,
    Query(query): Query<LogQuery>,
) -> Result<axum::Json<LogPage>, ErrorResponse> {
    let wanted = wanted(&query, HostClock.now()).map_err(ErrorResponse)?;
    let patience = query.wait_ms.map_or(Duration::ZERO, Duration::from_millis).min(LONGEST_WAIT);
    let begun = tokio::time::Instant::now();
    let engine = daemon.engine.clone();
    if let Some(run) = query.run.clone() {
        let page = blocking(move || {
            let run = engine.run_by_id(&run)?;
            daemon.keepers.timelines.follow_logs(&engine.sandboxes()?);
            run_log::read(&run.artifacts, &names(&query), &wanted)
        });
        return page.await.map(axum::Json);
    }
    let streams = blocking(move || find(&engine, &query)).await?;
    let mut stop_rx = daemon.stop_tx.subscribe();
    loop {
        let (of, how) = (streams.clone(), wanted.clone());
        let stamp = logs::stamp(&streams);
        let page = blocking(move || Ok(logs::read(&of, &how))).await?;
        if !page.lines.is_empty() || begun.elapsed() >= patience || *stop_rx.borrow_and_update() {
            return Ok(axum::Json(shown(page)));
        }
        while logs::stamp(&streams) == stamp && begun.elapsed() < patience && !*stop_rx.borrow() {
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn find(engine: &Engine, query: &LogQuery) -> Result<Vec<logs::Stream>, Failure> {
    let wanted = query.sandbox.as_deref().map(str::parse).transpose();
    let wanted = wanted
        .map_err(|error: hothouse_model::NameError| Failure::of(FailureKind::Usage, &error))?;
    let sandbox = engine.find(wanted.as_ref(), &PathBuf::from(&query.folder))?;
    engine.log_streams(&sandbox, &names(query))
}

/// Returns the requested services.
fn names(query: &LogQuery) -> Vec<String> {
    let names = query.services.as_deref().unwrap_or_default().split(',');
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn wanted(query: &LogQuery, now: Timestamp) -> Result<logs::Wanted, Failure> {
    let usage = |error: &dyn std::error::Error| Failure::of(FailureKind::Usage, error);
    let pattern = query.grep.as_deref().map(|text| {
        let mut builder = regex::bytes::RegexBuilder::new(text);
        builder.multi_line(true).size_limit(PATTERN_LIMIT).dfa_size_limit(PATTERN_LIMIT).build()
    });
    let pattern = pattern.transpose().map_err(|error| {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let message = format!("--grep is not a valid regular expression: {reason}");
        Failure::new(FailureKind::Usage, message)
            .hint("put a `\\` before characters that stand for themselves, such as `\\(`")
    })?;
    let since = query.since.as_deref().map(|text| since(text, now)).transpose();
    Ok(logs::Wanted {
        since: since.map_err(|error| usage(&error))?,
        pattern,
        before: query.before.min(1_000),
        after: query.after.min(1_000),
        tail: query.tail,
        limit: query.limit.unwrap_or(PAGE).clamp(1, 4 * PAGE),
        raw: query.raw,
    })
}

/// Parses a duration before now, a time, or a cursor.
fn since(text: &str, now: Timestamp) -> Result<logs::Since, logs::CursorError> {
    let nanoseconds = |time: Timestamp| {
        logs::Since::Time(u64::try_from(time.as_nanosecond().max(0)).unwrap_or(u64::MAX))
    };
    if let Ok(span) = config::parse_duration(text) {
        return Ok(nanoseconds(now.checked_sub(span).unwrap_or(Timestamp::UNIX_EPOCH)));
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(nanoseconds(time));
    }
    text.parse().map(logs::Since::Cursor)
}

fn shown(page: logs::Page) -> LogPage {
    let lines = page.lines.into_iter().map(|line| LogLine {
        service: line.service,
        seq: line.number,
        time: Timestamp::from_nanosecond(line.time.into()).unwrap_or(Timestamp::UNIX_EPOCH),
        text: line.text,
        matched: line.matched,
    });
    LogPage { lines: lines.collect(), cursor: page.cursor.to_string(), more: page.more }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_span_a_moment_or_a_cursor() {
        let now = Timestamp::from_second(1_000).unwrap();
        assert_eq!(since("5m", now).unwrap(), logs::Since::Time(700_000_000_000));
        let moment = since("1970-01-01T00:00:01Z", now).unwrap();
        assert_eq!(moment, logs::Since::Time(1_000_000_000));
        assert!(matches!(since("api:3", now), Ok(logs::Since::Cursor(_))));
        assert!(since("yesterday", now).is_err());
    }

    #[test]
    fn a_broken_pattern_is_a_usage_error() {
        let query = LogQuery { grep: Some("(".into()), ..LogQuery::default() };
        let failure = wanted(&query, Timestamp::UNIX_EPOCH).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Usage);
    }
}
