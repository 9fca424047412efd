//! WebSockets: an upgrade of HTTP/1.1 passed on, and the CONNECT of HTTP/2 (RFC 8441) turned into
//! one.
//!
//! Apps speak HTTP/1.1, while browsers open a WebSocket on the HTTP/2 connection that they have.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use hothouse_host::random;
use hothouse_http::asked_upgrade;
use http_body_util::{BodyExt, Empty};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    ext::Protocol,
    header::{self, HeaderValue},
    upgrade::OnUpgrade,
};
use hyper_util::rt::TokioIo;

use crate::{
    RoomPort,
    activity::Use,
    pool::{Pool, UpstreamError},
    proxy::Body,
};

/// How a client requests an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// With the `Upgrade` header, which names the protocol.
    Upgrade(HeaderValue),
    /// With an extended CONNECT.
    Connect,
}

/// Returns how a request asks for an upgrade, if it does.
pub(crate) fn asked<B>(request: &Request<B>) -> Option<Asked> {
    if request.method() == Method::CONNECT {
        let protocol = request.extensions().get::<Protocol>()?;
        return (protocol.as_str() == "websocket").then_some(Asked::Connect);
    }
    // An upgrade to `h2c` is not passed on: nothing would check the requests that follow.
    let other = |to: &HeaderValue| {
        let names = to.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        names.into_iter().all(|name| !name.eq_ignore_ascii_case(b"h2c"))
    };
    asked_upgrade(request).filter(other).map(Asked::Upgrade)
}

/// Forwards the upgrade and, if the app agrees, the bytes of both sides. The sandbox counts as in
/// use until one side closes.
pub(crate) async fn bridge(
    pool: &Pool,
    target: (&str, &RoomPort),
    (asked, held): (Asked, Use),
    mut request: Request<Incoming>,
    prepare: impl FnOnce(Request<Body>) -> Request<Body>,
) -> Result<Response<Body>, UpstreamError> {
    let client = hyper::upgrade::on(&mut request);
    let (parts, body) = request.into_parts();
    let (wanted, body) = match &asked {
        Asked::Upgrade(wanted) => (wanted.clone(), body.boxed()),
        // The bytes that follow are the WebSocket's.
        Asked::Connect => (HeaderValue::from_static("websocket"), nothing()),
    };
    let mut question = prepare(Request::from_parts(parts, body));
    if asked == Asked::Connect {
        *question.method_mut() = Method::GET;
    }
    let headers = question.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, wanted);
    if asked == Asked::Connect {
        headers.remove(header::CONTENT_LENGTH);
        // HTTP/2 has no key; the app needs one to prove that it speaks WebSocket.
        if let Ok(key) = HeaderValue::from_str(&key()) {
            headers.insert(header::SEC_WEBSOCKET_KEY, key);
        }
    }
    let mut response = pool.send_alone(target, question).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(response.map(|body| body.boxed()));
    }
    let app = hyper::upgrade::on(&mut response);
    tokio::spawn(async move {
        let _held = held;
        if let (Ok(client), Ok(app)) = (client.await, app.await) {
            let (mut client, mut app) = (TokioIo::new(client), TokioIo::new(app));
            // Either side may close without notice.
            tokio::io::copy_bidirectional(&mut client, &mut app).await.ok();
        }
    });
    let (mut parts, _) = response.into_parts();
    if asked == Asked::Connect {
        parts.status = StatusCode::OK;
        forget_handshake(&mut parts.headers);
    }
    Ok(Response::from_parts(parts, nothing()))
}

/// Accepts a WebSocket for one of our own pages: returns the response, and the upgraded stream once it is sent. `None`
/// if the request is not for a WebSocket.
pub fn accept(request: &mut Request<Incoming>) -> Option<(Response<Body>, OnUpgrade)> {
    let asked = asked(request)?;
    let mut response = Response::new(nothing());
    if let Asked::Upgrade(to) = asked {
        let headers = request.headers();
        let is_known = headers.get(header::SEC_WEBSOCKET_VERSION).is_some_and(|it| it == "13");
        if !to.as_bytes().eq_ignore_ascii_case(b"websocket") || !is_known {
            return None;
        }
        let proof = accepted(headers.get(header::SEC_WEBSOCKET_KEY)?.as_bytes());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, HeaderValue::from_str(&proof).ok()?);
    }
    Some((response, hyper::upgrade::on(request)))
}

/// Returns the answer to a key (RFC 6455, 4.2.2).
fn accepted(key: &[u8]) -> String {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    context.update(key);
    context.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    base64(context.finish().as_ref())
}

fn nothing() -> Body {
    Empty::new().map_err(|never| match never {}).boxed()
}

fn forget_handshake(headers: &mut HeaderMap) {
    for name in [header::CONNECTION, header::UPGRADE, header::SEC_WEBSOCKET_ACCEPT] {
        headers.remove(name);
    }
}

/// Generates a key: sixteen bytes in base64.
fn key() -> String {
    base64(&random::bytes::<16>())
}

/// Encodes bytes as base64 (RFC 4648).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let part = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = part(0) << 16 | part(1) << 8 | part(2);
        for digit in 0..=chunk.len() {
            let index = (bits >> (18 - 6 * digit)) & 63;
            text.push(char::from(DIGITS[usize::try_from(index).unwrap_or(0)]));
        }
    }
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_protocols_than_http_are_asked_for() {
        let of = |to: &str| {
            let headers = [("connection", "Upgrade, HTTP2-Settings"), ("upgrade", to)];
            asked(&crate::proxy::tests::request("/", &headers)).is_some()
        };
        assert!(of("websocket") && of("tcp"));
        assert!(!of("h2c") && !of("websocket, H2C"));
    }

    #[test]
    fn a_key_is_answered_as_the_standard_says() {
        assert_eq!(accepted(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_key_is_sixteen_bytes_in_base_64() {
        let key = key();
        assert_eq!((key.len(), key.ends_with("==")), (24, true), "{key}");
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
