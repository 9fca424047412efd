//! Files of runs, which are not trusted.
//!
//! A browser decodes bitmap pictures, and shows the page of a mail in a frame that cannot run, load or reach anything.
//! Everything else is downloaded, never opened.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hothouse_api::timeline::ArtifactQuery;
use hothouse_dashboard::place::Subject;
use hothouse_ingress::proxy::{Body, body_of};
use hyper::{
    Response, StatusCode,
    header::{self, HeaderValue},
};

use super::{page, records};
use crate::{Daemon, failure::ErrorResponse, routes::artifact};

/// The summary of a run, relative to its folder.
pub(super) const SUMMARY: &str = "summary.html";

/// The policy of a framed mail or summary: text, its own style, and embedded pictures.
const FRAME_POLICY: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
                           form-action 'none'; base-uri 'none'; frame-ancestors 'self'";

/// The policy of all other files.
const FILE_POLICY: &str = "sandbox; default-src 'none'; frame-ancestors 'none'";

/// What a browser may do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Picture(&'static str),
    /// An HTML page without scripts, in a frame.
    Framed,
    Download,
}

/// Answers with a file of a run.
pub(super) async fn of_run(daemon: &Daemon, subject: Subject, file: String) -> Response<Body> {
    let Some(run) = records::run_of(daemon, subject).await else {
        return page::html(StatusCode::NOT_FOUND, &page::Nothing);
    };
    let query =
        ArtifactQuery { run: Some(run.place.run), file: file.clone(), ..ArtifactQuery::default() };
    let found =
        artifact::one(axum::extract::State(daemon.clone()), axum::extract::Query(query)).await;
    let found = match found {
        Ok(found) => STANDARD.decode(&found.0.base64).unwrap_or_default(),
        Err(ErrorResponse(failure)) => {
            tracing::debug!(?failure, file, "a file of a run was not found");
            return page::html(StatusCode::NOT_FOUND, &page::Nothing);
        }
    };
    answer(used(&file, &found), found)
}

fn answer(used: Use, bytes: Vec<u8>) -> Response<Body> {
    let (kind, policy) = match used {
        Use::Picture(kind) => (kind, FILE_POLICY),
        Use::Framed => ("text/html; charset=utf-8", FRAME_POLICY),
        Use::Download => ("application/octet-stream", FILE_POLICY),
    };
    let mut response = Response::new(body_of(bytes));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    match used {
        Use::Download => {
            let attached = HeaderValue::from_static("attachment");
            headers.insert(header::CONTENT_DISPOSITION, attached);
        }
        Use::Framed => {
            let own = HeaderValue::from_static("SAMEORIGIN");
            headers.insert(header::X_FRAME_OPTIONS, own);
        }
        Use::Picture(_) => {}
    }
    response
}

/// Decides by the file's first bytes, and for mails by the path: the name alone proves nothing.
fn used(file: &str, bytes: &[u8]) -> Use {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Use::Picture("image/png"),
        [0xff, 0xd8, 0xff, ..] => Use::Picture("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Use::Picture("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => {
            Use::Picture("image/webp")
        }
        _ if file.starts_with("email-outbox/") && file.ends_with(".html") => Use::Framed,
        _ if file == SUMMARY => Use::Framed,
        _ => Use::Download,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pictures_mails_and_summaries_are_opened() {
        for (file, bytes, expected) in [
            ("browser/1/page.png", &b"\x89PNG\r\n"[..], Use::Picture("image/png")),
            ("objects/x", b"\xff\xd8\xff\xe0", Use::Picture("image/jpeg")),
            ("objects/x.png", b"<script>", Use::Download),
            ("objects/x.svg", b"<svg onload=x>", Use::Download),
            ("objects/x.html", b"<script>", Use::Download),
            ("email-outbox/1.html", b"<p>", Use::Framed),
            ("email-outbox/1.eml", b"From: x", Use::Download),
            ("summary.html", b"<!doctype html>", Use::Framed),
            ("objects/summary.html", b"<!doctype html>", Use::Download),
        ] {
            assert_eq!(used(file, bytes), expected, "{file}");
        }
    }
}
