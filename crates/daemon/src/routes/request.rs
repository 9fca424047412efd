//! Requests of a run: a single one in full, or many as an archive.

use axum::extract::{Query, State};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hothouse_api::{
    ErrorBody,
    timeline::{ArchivePage, BodyView, RequestQuery, RequestView, TimelineQuery},
};
use hothouse_mock::{Request, stub};
use hothouse_model::{
    Explain, Failure, FailureKind,
    record::{
        Kind, Record,
        bodies::{Message, RequestBody},
    },
};
use hothouse_timeline::{har, read_blob};

use super::{
    blocking,
    timeline::{place, selection},
};
use crate::{Daemon, failure::ErrorResponse};

/// The maximum number of archive entries in a response: each may have two bodies.
const ENTRIES: usize = 100;

#[utoipa::path(
    get, path = "/v1/timeline/request", operation_id = "timeline_request", params(RequestQuery),
    description = "Returns one request with its bodies, and a fixture that would match it.",
    responses((status = 200, body = RequestView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn one(
    State(daemon): State<Daemon>,
    Query(query): Query<RequestQuery>,
) -> Result<axum::Json<RequestView>, ErrorResponse> {
    let place = place(&daemon, query.run, query.sandbox.as_deref(), query.folder).await?;
    let wanted = selection(&format!("id={}", query.id), Some(Kind::Request), None)?;
    let shown = blocking(move || {
        let reader = daemon.keepers.timelines.reader(&place)?;
        let mut found = reader.records(&wanted).map_err(|error| error.failure())?;
        let record = found.pop().ok_or_else(|| {
            let message = format!("run `{}` has no request `{}`", place.run, query.id);
            Failure::new(FailureKind::NotFound, message).hint("`hothouse requests` lists them")
        })?;
        view(record, &place.folder)
    });
    shown.await.map(axum::Json)
}

fn view(record: Record, folder: &std::path::Path) -> Result<RequestView, Failure> {
    let body: RequestBody = record.body().map_err(|error| {
        Failure::new(FailureKind::Internal, format!("record {}: {error}", record.seq))
    })?;
    let sent = bytes_of(&body.request, folder);
    let headers = body.request.headers.iter();
    let headers: Vec<_> =
        headers.map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect();
    let (path, query) = body.path.split_once('?').unwrap_or((&body.path, ""));
    let request = Request {
        method: &body.method,
        host: &body.host,
        path,
        query,
        headers: &headers,
        body: &sent,
    };
    let folder_of = body.integration.as_deref().unwrap_or("NAME");
    Ok(RequestView {
        stub: stub::stub(&request),
        stub_file: format!("hothouse/fixtures/{folder_of}/{}", stub::file_name(&request)),
        request: shown(sent, body.request.bytes),
        response: shown(bytes_of(&body.response, folder), body.response.bytes),
        record,
    })
}

/// Returns the stored part of a body.
fn bytes_of(message: &Message, folder: &std::path::Path) -> Vec<u8> {
    match (&message.text, &message.blob) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(blob)) => read_blob(folder, blob).unwrap_or_default(),
        (None, None) => Vec::new(),
    }
}

fn shown(kept: Vec<u8>, bytes: u64) -> BodyView {
    match String::from_utf8(kept) {
        Ok(text) => {
            BodyView { text: Some(text).filter(|text| !text.is_empty()), base64: None, bytes }
        }
        Err(kept) => BodyView { text: None, base64: Some(STANDARD.encode(kept.as_bytes())), bytes },
    }
}

#[utoipa::path(
    get, path = "/v1/timeline/archive", operation_id = "timeline_archive", params(TimelineQuery),
    description = "Returns requests as an HTTP Archive (HAR 1.2), some at a time.",
    responses((status = 200, body = ArchivePage), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody))
)]
pub(crate) async fn archive(
    State(daemon): State<Daemon>,
    Query(query): Query<TimelineQuery>,
) -> Result<axum::Json<ArchivePage>, ErrorResponse> {
    let mut wanted = selection(&query.query, Some(Kind::Request), query.since.as_deref())?;
    let limit = query.limit.unwrap_or(ENTRIES).clamp(1, ENTRIES);
    wanted.limit = limit + 1;
    let place = place(&daemon, query.run, query.sandbox.as_deref(), query.folder).await?;
    let page = blocking(move || {
        let reader = daemon.keepers.timelines.reader(&place)?;
        let mut records = reader.records(&wanted).map_err(|error| error.failure())?;
        let more = records.len() > limit;
        records.truncate(limit);
        let next = records.last().map(|record| record.seq).filter(|_| more);
        Ok(ArchivePage { archive: har(&records, |blob| read_blob(&place.folder, blob)), next })
    });
    page.await.map(axum::Json)
}
