//! The record of a request to a terminated host.
//!
//! A record contains the request as the room sent it and the response as the room gets it: with
//! placeholders, never with values. The room's own credentials are redacted. If a room sends a
//! value that it guessed or got elsewhere, the placeholder is recorded instead.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hothouse_http::{redacted_headers, redacted_target};
use hothouse_model::config::IntegrationClass;
use hyper::{
    Response, StatusCode, Version,
    header::{CONTENT_ENCODING, HeaderValue},
    http::request::Parts,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{budget::Spent, decode, meter::Charge, scan::Echoes, secrets::Secrets};

/// Receives one record per request, when the response has ended.
pub type RecordSink = Arc<dyn Fn(RequestRecord) + Send + Sync>;

/// How much of each body is recorded.
pub const BODY_CAP: usize = 64 << 10;

/// How much of each body is recorded when responses are recorded for replay.
pub const RECORDED_CAP: usize = 1 << 20;

/// One request to a terminated host, and its response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRecord {
    pub started: Timestamp,
    pub duration: Duration,
    pub name: String,
    pub port: u16,
    pub tls: bool,
    /// The version of HTTP that the room spoke.
    pub version: String,
    pub method: String,
    /// Path and query, credentials in the query redacted.
    pub path: String,
    /// The status that the room got; `None` if the connection broke before.
    pub status: Option<u16>,
    pub request_headers: Vec<(String, String)>,
    pub response_headers: Vec<(String, String)>,
    pub request_body: RecordedBody,
    pub response_body: RecordedBody,
    /// The names of the inserted secrets.
    pub secrets: Vec<String>,
    /// Why we answered ourselves, if we did.
    pub refused: Option<String>,
    /// The integration that the host belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integration: Option<String>,
    /// The class of the integration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<IntegrationClass>,
    /// Whether a stand-in knew the answer, if one was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<bool>,
    /// The fixture that the stand-in used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixture: Option<String>,
}

/// The recorded part of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedBody {
    /// The beginning, decompressed.
    pub kept: Vec<u8>,
    /// The number of bytes on the wire.
    pub total: u64,
}

/// Which of the two bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Request,
    Response,
}

/// A record in progress. It is delivered when the last reference is dropped.
pub(crate) struct Draft {
    record: Mutex<RequestRecord>,
    /// Values that must not be recorded.
    secrets: Arc<Secrets>,
    begun: Instant,
    sink: RecordSink,
    /// How much of each body is recorded.
    cap: usize,
    /// The charge to settle when the exchange has ended.
    charge: Mutex<Option<Box<dyn Charge>>>,
    /// Its share of the room's concurrent requests.
    spent: Mutex<Option<Spent>>,
}

impl Draft {
    pub(crate) fn begin(
        parts: &Parts,
        (name, port, tls): (&str, u16, bool),
        now: Timestamp,
        (secrets, sink, cap): (Arc<Secrets>, RecordSink, usize),
    ) -> Arc<Self> {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let record = RequestRecord {
            started: now,
            duration: Duration::ZERO,
            name: name.to_owned(),
            port,
            tls,
            version: if parts.version == Version::HTTP_2 { "2" } else { "1.1" }.to_owned(),
            method: parts.method.to_string(),
            path: redacted_target(path),
            status: None,
            request_headers: redacted_headers(&parts.headers),
            response_headers: Vec::new(),
            request_body: RecordedBody::default(),
            response_body: RecordedBody::default(),
            secrets: Vec::new(),
            refused: None,
            integration: None,
            class: None,
            matched: None,
            fixture: None,
        };
        Arc::new(Self {
            record: Mutex::new(record),
            secrets,
            begun: Instant::now(),
            sink,
            cap,
            charge: Mutex::default(),
            spent: Mutex::default(),
        })
    }

    pub(crate) fn answered<B>(&self, response: &Response<B>) {
        let mut record = self.record();
        record.status = Some(response.status().as_u16());
        record.response_headers = redacted_headers(response.headers());
    }

    pub(crate) fn used(&self, secrets: impl IntoIterator<Item = String>) {
        self.record().secrets.extend(secrets);
    }

    pub(crate) fn belongs_to(&self, integration: Option<(String, IntegrationClass)>) {
        let mut record = self.record();
        (record.integration, record.class) = integration.unzip();
    }

    pub(crate) fn charged(&self, charge: Option<Box<dyn Charge>>) {
        *self.charge.lock().unwrap_or_else(PoisonError::into_inner) = charge;
    }

    /// Holds a part of the room's budget until the exchange has ended.
    pub(crate) fn spends(&self, spent: Spent) {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner) = Some(spent);
    }

    pub(crate) fn stood_in(&self, matched: bool, fixture: Option<String>) {
        let mut record = self.record();
        record.matched = Some(matched);
        record.fixture = fixture;
    }

    pub(crate) fn refused(&self, status: StatusCode, why: &str) {
        let mut record = self.record();
        record.status = Some(status.as_u16());
        record.refused = Some(why.to_owned());
    }

    pub(crate) fn passed(&self, side: Side, bytes: &[u8]) {
        let mut record = self.record();
        let body = match side {
            Side::Request => &mut record.request_body,
            Side::Response => &mut record.response_body,
        };
        let left = self.cap.saturating_sub(body.kept.len());
        body.kept.extend_from_slice(&bytes[..bytes.len().min(left)]);
        body.total += bytes.len() as u64;
    }

    fn record(&self) -> std::sync::MutexGuard<'_, RequestRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let mut record = self.record().clone();
        record.duration = self.begun.elapsed();
        unpack(&mut record.request_body, &record.request_headers, self.cap);
        unpack(&mut record.response_body, &record.response_headers, self.cap);
        if let Some(echoes) = Echoes::of(&self.secrets.seen(), Vec::new()) {
            clean(&mut record, &echoes);
        }
        let charge = self.charge.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(charge) = charge {
            charge.settle(&record);
        }
        (self.sink)(record);
    }
}

/// Decompresses the recorded part of a body: otherwise no credential could be found in it. A body
/// that cannot be decompressed is not recorded.
fn unpack(body: &mut RecordedBody, headers: &[(String, String)], cap: usize) {
    let is_coding = |name: &str| name.eq_ignore_ascii_case(CONTENT_ENCODING.as_str());
    let values = headers.iter().filter(|(name, _)| is_coding(name));
    let values =
        values.filter_map(|(_, text)| Some((CONTENT_ENCODING, HeaderValue::from_str(text).ok()?)));
    match decode::codings(&values.collect()) {
        Ok(codings) if codings.is_empty() => {}
        Ok(codings) => body.kept = decode::unpacked(&body.kept, &codings, cap),
        Err(_) => body.kept.clear(),
    }
}

/// Returns the decompressed beginning of a body that was not scanned in transit; empty if it cannot
/// be decompressed.
pub fn unpacked(kept: &[u8], headers: &[(String, String)]) -> Vec<u8> {
    let mut body = RecordedBody { kept: kept.to_vec(), total: 0 };
    unpack(&mut body, headers, BODY_CAP);
    body.kept
}

/// Replaces values with placeholders. The response was scanned only for secrets of its host, but a host or a stand-in
/// may repeat any other secret that it was sent.
fn clean(record: &mut RequestRecord, echoes: &Echoes) {
    let text = |text: &mut String| {
        if let Cow::Owned(clean) = echoes.replace(text.as_bytes()) {
            *text = String::from_utf8_lossy(&clean).into_owned();
        }
    };
    text(&mut record.path);
    text(&mut record.method);
    for (name, value) in record.request_headers.iter_mut().chain(&mut record.response_headers) {
        if echoes.in_name(name) {
            *name = "[redacted]".to_owned();
        }
        text(value);
    }
    record.refused.iter_mut().for_each(text);
    for body in [&mut record.request_body, &mut record.response_body] {
        if let Cow::Owned(clean) = echoes.replace(&body.kept) {
            body.kept = clean;
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    struct Nothing;

    impl crate::Vault for Nothing {
        fn value(&self, _: &str) -> Result<hothouse_model::secret::SecretValue, String> {
            Err("there is none".into())
        }
    }

    #[test]
    fn credentials_are_redacted_and_the_rest_is_kept() {
        let parts = Request::builder()
            .uri("/v1/x?a=1&api_key=zzz&X-Amz-Signature=abc")
            .header("authorization", "Bearer zzz")
            .header("cookie", "session=zzz")
            .header("accept", "*/*")
            .body(())
            .unwrap()
            .into_parts()
            .0;
        let records: Arc<Mutex<Vec<RequestRecord>>> = Arc::default();
        let sink: RecordSink = {
            let records = records.clone();
            Arc::new(move |record| records.lock().unwrap().push(record))
        };
        let secrets = Arc::new(Secrets::new(Vec::new(), Arc::new(Nothing)));
        let (place, now) = (("a.example", 443, true), Timestamp::UNIX_EPOCH);
        let draft = Draft::begin(&parts, place, now, (secrets, sink, BODY_CAP));
        draft.passed(Side::Response, &vec![b'x'; BODY_CAP + 1]);
        assert!(records.lock().unwrap().is_empty());
        drop(draft);
        let record = records.lock().unwrap().pop().unwrap();
        assert_eq!(record.path, "/v1/x?a=1&api_key=[redacted]&X-Amz-Signature=[redacted]");
        let text = format!("{record:?}");
        assert!(
            !text.contains("zzz") && text.contains("Bearer [redacted]"),
            "{:?}",
            record.request_headers
        );
        assert_eq!(record.response_body.kept.len(), BODY_CAP);
        assert_eq!(record.response_body.total, BODY_CAP as u64 + 1);
    }

    async fn gzip(bytes: &[u8]) -> Vec<u8> {
        use tokio::io::AsyncReadExt;
        let mut packed = Vec::new();
        let mut encoder = async_compression::tokio::bufread::GzipEncoder::new(bytes);
        encoder.read_to_end(&mut packed).await.unwrap();
        packed
    }

    #[tokio::test]
    async fn a_compressed_body_is_kept_unpacked_or_not_at_all() {
        let coded = |coding: &str| vec![("Content-Encoding".to_owned(), coding.to_owned())];
        let unpacked = |kept: Vec<u8>, coding: &str| {
            let mut body = RecordedBody { total: kept.len() as u64, kept };
            unpack(&mut body, &coded(coding), BODY_CAP);
            body.kept
        };
        assert_eq!(unpacked(gzip(b"password=zzz").await, "gzip"), b"password=zzz");
        assert_eq!(unpacked(b"as it is".to_vec(), "identity"), b"as it is");
        assert_eq!(unpacked(b"?".to_vec(), "of-tomorrow"), b"");
        assert_eq!(unpacked(b"not compressed at all".to_vec(), "gzip"), b"");
        let bomb = gzip(&vec![0; 64 << 20]).await;
        assert!(bomb.len() < BODY_CAP * 2);
        assert_eq!(unpacked(bomb[..bomb.len() / 2].to_vec(), "gzip").len(), BODY_CAP);
    }
}
