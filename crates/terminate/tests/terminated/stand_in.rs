//! Hosts that a stand-in answers for: nothing is dialled, and its answers arrive unchanged.

use std::{pin::Pin, time::Duration};

use bytes::Bytes;
use hothouse_model::config::HostName;
use hothouse_terminate::{BODY_LIMIT, Fault, Piece, StandIn, StandInAnswer, StandInRequest};
use http_body_util::BodyExt;
use hyper::{
    Request, Response, StatusCode, Version,
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::ground::{Body, Ground, MOCKED, PLACEHOLDER, Plan, VALUE, body_of, text_of};

/// How long a body may be.
const LONG: usize = BODY_LIMIT + (1 << 20);

/// Echoes the request, or does what the path says.
pub(crate) struct Played;

impl StandIn for Played {
    fn answers(&self, host: &HostName) -> bool {
        host.as_str() == MOCKED
    }

    fn body_limit(&self, _host: &HostName) -> usize {
        LONG
    }

    fn answer(
        &self,
        request: StandInRequest,
    ) -> Pin<Box<dyn Future<Output = StandInAnswer> + Send + '_>> {
        Box::pin(async move { played(&request) })
    }
}

fn played(request: &StandInRequest) -> StandInAnswer {
    let piece = |text: &str| Piece { after: Duration::ZERO, bytes: Bytes::from(text.to_owned()) };
    let late = |text: &str| Piece { after: Duration::from_millis(20), ..piece(text) };
    let StandInRequest { method, path, query, body, .. } = request;
    let said = format!("{method} {path} {query} {}", String::from_utf8_lossy(body));
    let (status, pieces, fault) = match path.as_str() {
        "/events" => (200, vec![piece("data: 1\n\n"), late("data: 2\n\n")], None),
        "/reset" => (200, vec![piece("never")], Some(Fault::Reset)),
        "/truncate" => (200, vec![piece("0123456789")], Some(Fault::Truncate)),
        "/continue" => (101, Vec::new(), None),
        "/length" => (200, vec![piece(&body.len().to_string())], None),
        "/nothing" => (204, vec![piece("dropped")], None),
        _ => (200, vec![piece(&said)], None),
    };
    let headers =
        [("x-own", "yes"), ("bad name", "x"), ("x-bad", "a\r\nb"), ("content-length", "1")];
    StandInAnswer {
        status,
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        pieces,
        trailers: Vec::new(),
        latency: Duration::from_millis(1),
        fault,
        matched: path != "/unknown",
        fixture: (path != "/unknown").then(|| "a.toml".to_owned()),
        held: None,
    }
}

async fn send(
    ground: &Ground,
    version: Version,
    request: Request<Body>,
) -> hyper::Result<Response<Incoming>> {
    if version == Version::HTTP_2 {
        let stream = ground.greet(MOCKED, b"h2").await.unwrap();
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        return sender.send_request(request).await;
    }
    let stream = ground.greet(MOCKED, b"http/1.1").await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender.send_request(request).await
}

fn request(
    ground: &Ground,
    version: Version,
    method: &str,
    path: &str,
) -> hyper::http::request::Builder {
    let named = ground.named(MOCKED);
    match version {
        Version::HTTP_2 => {
            Request::builder().version(version).method(method).uri(format!("https://{named}{path}"))
        }
        _ => Request::builder().method(method).uri(path).header("host", named),
    }
}

const BOTH: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];

#[tokio::test(flavor = "multi_thread")]
async fn a_stand_in_answers_and_nobody_is_dialled() {
    let ground = Ground::lay(Plan::default()).await;
    for version in BOTH {
        let asked =
            request(&ground, version, "POST", "/echo?a=1").header("authorization", PLACEHOLDER);
        let answer = send(&ground, version, asked.body(body_of("hello")).unwrap()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["x-own"], "yes");
        assert!(!answer.headers().contains_key("x-bad"));
        assert_eq!(text_of(answer).await, "POST /echo a=1 hello", "{version:?}");
        for (path, status) in [("/nothing", 204), ("/continue", 500), ("/forbidden", 403)] {
            let asked = request(&ground, version, "GET", path).body(body_of("")).unwrap();
            let answer = send(&ground, version, asked).await.unwrap();
            assert_eq!(answer.status().as_u16(), status, "{version:?} {path}");
            assert!(status != 204 || text_of(answer).await.is_empty());
        }
        let asked = request(&ground, version, "HEAD", "/echo").body(body_of("")).unwrap();
        let answer = send(&ground, version, asked).await.unwrap();
        assert_eq!(answer.headers()["content-length"], "12");
        let asked = request(&ground, version, "GET", "/unknown").body(body_of("")).unwrap();
        text_of(send(&ground, version, asked).await.unwrap()).await;
    }
    let records = ground.records(12).await;
    assert!(ground.seen().is_empty(), "the host was dialled");
    let first = records.iter().find(|record| record.path.starts_with("/echo?")).unwrap();
    assert_eq!((first.matched, first.fixture.as_deref()), (Some(true), Some("a.toml")));
    assert!(first.secrets.is_empty() && !format!("{records:?}").contains(VALUE));
    let unknown = records.iter().find(|record| record.path == "/unknown").unwrap();
    assert_eq!((unknown.matched, unknown.fixture.as_deref()), (Some(false), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_and_faults_are_played() {
    let ground = Ground::lay(Plan::default()).await;
    for version in BOTH {
        let ask = |path: &str| request(&ground, version, "GET", path).body(body_of("")).unwrap();
        let mut events = send(&ground, version, ask("/events")).await.unwrap().into_body();
        for expected in ["data: 1\n\n", "data: 2\n\n"] {
            let frame = events.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(frame, expected, "{version:?}");
        }
        assert!(send(&ground, version, ask("/reset")).await.is_err(), "{version:?}");
        let cut = send(&ground, version, ask("/truncate")).await.unwrap();
        assert_eq!(cut.status(), StatusCode::OK);
        assert!(cut.into_body().collect().await.is_err(), "{version:?}");
    }
    // Before any byte of an answer.
    let mut stream = ground.greet(MOCKED, b"http/1.1").await.unwrap();
    let head = format!("GET /reset HTTP/1.1\r\nhost: {}\r\n\r\n", ground.named(MOCKED));
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut got = Vec::new();
    // Whether this end is an error depends on the client's TLS.
    stream.read_to_end(&mut got).await.ok();
    assert_eq!(got, b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_decompressed_within_bounds() {
    use async_compression::tokio::write::{BrotliEncoder, GzipEncoder, ZstdEncoder};
    macro_rules! packed {
        ($encoder:ident, $bytes:expr) => {{
            let mut encoder = $encoder::new(Vec::new());
            encoder.write_all($bytes).await.unwrap();
            encoder.shutdown().await.unwrap();
            encoder.into_inner()
        }};
    }
    let zeros = vec![0; 64 << 20];
    // Once: brotli takes most of a minute in a debug build.
    let bombs = (
        packed!(GzipEncoder, &zeros),
        packed!(BrotliEncoder, &zeros),
        packed!(ZstdEncoder, &zeros),
    );
    let ground = Ground::lay(Plan::default()).await;
    for version in BOTH {
        for (coding, body, status) in [
            ("gzip", packed!(GzipEncoder, b"hello"), 200),
            ("identity", b"hello".to_vec(), 200),
            ("gzip", bombs.0.clone(), 413),
            ("br", bombs.1.clone(), 413),
            ("zstd", bombs.2.clone(), 413),
            ("identity", vec![b'x'; LONG + 1], 413),
            ("gzip", b"not gzip at all".to_vec(), 400),
            ("rot13", b"uryyb".to_vec(), 415),
        ] {
            let asked =
                request(&ground, version, "POST", "/echo").header("content-encoding", coding);
            let answer = send(&ground, version, asked.body(body_of(body)).unwrap()).await.unwrap();
            assert_eq!(answer.status().as_u16(), status, "{version:?} {coding}");
            if status == 200 {
                assert_eq!(text_of(answer).await, "POST /echo  hello");
            }
        }
    }
    assert!(ground.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_may_be_as_long_as_the_stand_in_says_and_long_ones_take_turns() {
    let ground = Ground::lay(Plan::default()).await;
    for version in BOTH {
        let post = |length: usize| {
            let asked = request(&ground, version, "POST", "/length");
            send(&ground, version, asked.body(body_of("x".repeat(length))).unwrap())
        };
        let (one, other) = tokio::join!(post(LONG), post(BODY_LIMIT + 1));
        assert_eq!(text_of(one.unwrap()).await, LONG.to_string(), "{version:?}");
        assert_eq!(text_of(other.unwrap()).await, (BODY_LIMIT + 1).to_string(), "{version:?}");
        // The client may get the response before it has sent everything.
        if let Ok(answer) = post(LONG + 1).await {
            assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE, "{version:?}");
        }
    }
}
