//! Violation reports for the content policy of our pages: something on a page tried to run or load what it may not.
//!
//! A report is logged, so that an attack, or a bug of ours, is noticed. Its texts come from the page, and so from a
//! room: they are truncated, and their number is limited.

use std::sync::atomic::{AtomicUsize, Ordering};

use hothouse_dashboard::text::short;
use hothouse_ingress::{
    pages,
    proxy::{Body, body_of},
};
use http_body_util::{BodyExt, Limited};
use hyper::{Request, Response, StatusCode, body::Incoming};
use serde::Deserialize;

/// The path for reports, named in the policy.
pub(super) const PATH: &str = "/policy-report";

/// The maximum size of a report.
const SIZE: usize = 16 << 10;

/// The maximum number of logged reports per daemon.
const MOST: usize = 200;

/// The maximum length of a text in a report.
const TEXT: usize = 200;

/// A report as defined in Content Security Policy Level 3, section 5.3.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Report {
    document_uri: String,
    effective_directive: String,
    blocked_uri: String,
    source_file: String,
    line_number: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Envelope {
    csp_report: Report,
}

/// The reports of all pages.
#[derive(Default)]
pub(super) struct Reports(AtomicUsize);

impl Reports {
    pub(super) async fn take(&self, request: Request<Incoming>) -> Response<Body> {
        let Ok(body) = Limited::new(request.into_body(), SIZE).collect().await else {
            return pages::plain(StatusCode::PAYLOAD_TOO_LARGE, "the report is too long");
        };
        let Some(report) = read(&body.to_bytes()) else {
            return pages::plain(StatusCode::BAD_REQUEST, "this is not a report of a policy");
        };
        if self.0.fetch_add(1, Ordering::Relaxed) < MOST {
            let Report { document_uri, effective_directive, blocked_uri, source_file, line_number } =
                report;
            tracing::warn!(
                page = document_uri,
                directive = effective_directive,
                blocked = blocked_uri,
                source = source_file,
                line = line_number,
                "a page tried what its policy forbids"
            );
        }
        let mut response = Response::new(body_of(""));
        *response.status_mut() = StatusCode::NO_CONTENT;
        response
    }
}

/// Parses a report. Of URLs only the path is kept: the host is the session's secret.
fn read(body: &[u8]) -> Option<Report> {
    let Envelope { csp_report: report } = serde_json::from_slice(body).ok()?;
    let cut = |text: &str| short(text, TEXT);
    Some(Report {
        document_uri: cut(path(&report.document_uri)),
        effective_directive: cut(&report.effective_directive),
        blocked_uri: cut(path(&report.blocked_uri)),
        source_file: cut(path(&report.source_file)),
        line_number: report.line_number,
    })
}

/// Returns the path of one of our URLs, without its query; other texts keep everything before the query.
fn path(address: &str) -> &str {
    let of_ours = address.split_once("://").and_then(|(_, rest)| {
        let (host, path) = rest.split_at(rest.find('/')?);
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        name.ends_with(".hothouse.localhost").then_some(path)
    });
    let path = of_ours.unwrap_or(address);
    path.split_once('?').map_or(path, |(path, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_cut_and_does_not_tell_the_session() {
        let long = "x".repeat(1000);
        let body = serde_json::json!({ "csp-report": {
            "document-uri": "https://0123.hothouse.localhost:7443/sandbox/a/mail?q=secret",
            "effective-directive": "script-src-elem",
            "blocked-uri": "inline",
            "source-file": format!("https://evil.example/{long}"),
            "line-number": 7,
            "unknown": {},
        } });
        let report = read(body.to_string().as_bytes()).unwrap();
        assert_eq!(report.document_uri, "/sandbox/a/mail");
        assert_eq!((report.blocked_uri.as_str(), report.line_number), ("inline", 7));
        assert!(report.source_file.starts_with("https://evil.example/xxx"));
        assert!(report.source_file.chars().count() <= TEXT + 1, "{}", report.source_file.len());
        for other in ["", "{}", "[]", r#"{"csp-report":7}"#] {
            assert!(read(other.as_bytes()).is_none(), "{other}");
        }
    }
}
