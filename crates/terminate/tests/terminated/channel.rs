//! Measures what an agent could learn from a response whose bytes it chose: nothing may distinguish
//! a guess that starts like a value from one that does not.

use base64::{Engine, engine::general_purpose::STANDARD};
use http_body_util::BodyExt;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::ground::{Ground, HOST, OTHER, PLACEHOLDER, Plan, VALUE, body_of, text_of, text_with};

/// Returns correct and wrong guesses of the same length, in several encodings.
fn guesses() -> Vec<(String, String)> {
    let wrong = format!("ghp_{}", "~".repeat(VALUE.len() - 4));
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let percent = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let unicode =
        |text: &str| text.bytes().map(|byte| format!("\\u{byte:04x}")).collect::<String>();
    let plain = |text: &str| text.to_owned();
    let base64 = |text: &str| STANDARD.encode(text);
    let mut all = Vec::new();
    for write in [&plain as &dyn Fn(&str) -> String, &hex, &percent, &unicode, &base64] {
        let (right, wrong) = (write(VALUE), write(&wrong));
        for length in [5, 12, right.len() - 4] {
            all.push((right[..length].to_owned(), wrong[..length].to_owned()));
        }
    }
    all
}

/// Sends a guess and returns the sizes of the chunks that come back. The second half is sent only
/// when the first chunk has arrived.
async fn measured(ground: &Ground, guess: &str, http2: bool) -> Vec<usize> {
    let text = format!("a line\n{guess}|!\nthe end");
    let builder = match http2 {
        true => {
            Request::builder().method("POST").uri(format!("https://{}/pieces", ground.named(HOST)))
        }
        false => ground.request("POST", "/pieces"),
    };
    let request = builder.header("authorization", PLACEHOLDER).body(body_of(text)).unwrap();
    let response = match http2 {
        true => ground.send_http2(request).await,
        false => ground.send(request).await,
    };
    let mut body = response.into_body();
    let mut sizes = Vec::new();
    while let Some(frame) = body.frame().await {
        let bytes = frame.unwrap().into_data().unwrap();
        if sizes.is_empty() {
            ground.go_on.send(()).await.unwrap();
        }
        if !bytes.is_empty() {
            sizes.push(bytes.len());
        }
    }
    sizes
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pieces_of_an_answer_do_not_tell_a_right_guess_from_a_wrong_one() {
    let ground = Ground::lay(Plan::default()).await;
    for http2 in [false, true] {
        for (right, wrong) in guesses() {
            let (one, other) =
                (measured(&ground, &right, http2).await, measured(&ground, &wrong, http2).await);
            assert_eq!(one[0], "a line\n".len(), "a line goes on, and the rest waits");
            // How a connection joins the last chunks is not up to us; their sum must be the same.
            assert_eq!((one[0], one.iter().sum::<usize>()), (other[0], other.iter().sum()));
        }
    }
}

/// Builds a frame as a host sends it; the test's host echoes its input.
pub(crate) fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut all = vec![opcode];
    match u8::try_from(payload.len()).ok().filter(|length| *length < 126) {
        Some(length) => all.push(length),
        None => {
            all.push(126);
            all.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
        }
    }
    all.extend_from_slice(payload);
    all
}

async fn websocket(ground: &Ground) -> TokioIo<hyper::upgrade::Upgraded> {
    let request = ground
        .request("GET", "/ws")
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("authorization", PLACEHOLDER);
    let response = ground.send(request.body(body_of("")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    TokioIo::new(hyper::upgrade::on(response).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_frames_of_a_websocket_do_not_tell_a_right_guess_from_a_wrong_one() {
    let ground = Ground::lay(Plan::default()).await;
    for (right, wrong) in guesses() {
        let mut all = Vec::new();
        for guess in [right, wrong] {
            let mut stream = websocket(&ground).await;
            // A complete message, then one whose second half is sent when a ping has come back.
            stream.write_all(&frame(0x81, guess.as_bytes())).await.unwrap();
            let mut whole = frame(0x81, guess.as_bytes());
            stream.read_exact(&mut whole).await.unwrap();
            assert!(whole.ends_with(guess.as_bytes()), "a whole message goes on at once");
            stream.write_all(&frame(0x01, guess.as_bytes())).await.unwrap();
            stream.write_all(&frame(0x89, b"ping")).await.unwrap();
            let mut ping = frame(0x89, b"ping");
            stream.read_exact(&mut ping).await.unwrap();
            assert_eq!(ping, frame(0x89, b"ping"), "half a message waits, whatever it is");
            stream.write_all(&frame(0x80, b"!")).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.unwrap();
            all.push(rest.len());
        }
        assert_eq!(all[0], all[1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_in_two_frames_of_a_message_is_caught() {
    let ground = Ground::lay(Plan::default()).await;
    let mut stream = websocket(&ground).await;
    let (one, two) = VALUE.split_at(17);
    stream.write_all(&frame(0x01, format!("x{one}").as_bytes())).await.unwrap();
    stream.write_all(&frame(0x80, format!("{two}y").as_bytes())).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    let text = String::from_utf8_lossy(&rest);
    assert!(text.contains(&format!("x{PLACEHOLDER}y")) && !text.contains(two), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_cannot_be_looked_through_end_the_connection() {
    let ground = Ground::lay(Plan::default()).await;
    let (one, two) = VALUE.split_at(17);
    for first in [0xc1, 0xa1, 0x83, 0x80, 0x09, 0x8f] {
        let mut stream = websocket(&ground).await;
        stream.write_all(&frame(first, format!("{one}{two}").as_bytes())).await.unwrap();
        stream.write_all(&frame(0x81, b"more")).await.ok();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.ok();
        assert!(rest.is_empty(), "{first:x} {}", String::from_utf8_lossy(&rest));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_range_cuts_a_value_in_two() {
    let ground = Ground::lay(Plan::default()).await;
    let whole = text_with(PLACEHOLDER);
    let length = whole.len();
    for name in ["range", "x-ms-range"] {
        for (from, to) in [(0, 9), (990, 1009), (1000, 1016), (1017, 1060), (1039, 1039), (0, 5000)]
        {
            let request = ground
                .request("GET", "/part")
                .header(name, format!("bytes={from}-{to}"))
                .header("authorization", PLACEHOLDER);
            let response = ground.send(request.body(body_of("")).unwrap()).await;
            assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
            let last = to.min(length - 1);
            assert_eq!(
                response.headers()["content-range"],
                format!("bytes {from}-{last}/{length}").as_str()
            );
            assert_eq!(
                response.headers()["content-length"],
                (last - from + 1).to_string().as_str()
            );
            assert_eq!(text_of(response).await, whole[from..=last], "{name} {from}-{to}");
        }
    }
    for (range, expected) in [
        ("bytes=1017-", Some(&whole[1017..])),
        ("bytes=-1010", Some(&whole[length - 1010..])),
        ("bytes=-9999", Some(&whole[..])),
        // Several ranges, other units and invalid ones: the whole response.
        ("bytes=0-1,1000-1005", None),
        ("lines=1-2", None),
        ("bytes=9-1", None),
    ] {
        let request = ground
            .request("GET", "/part")
            .header("range", range)
            .header("authorization", PLACEHOLDER);
        let response = ground.send(request.body(body_of("")).unwrap()).await;
        let status = if expected.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
        assert_eq!(response.status(), status, "{range}");
        assert_eq!(text_of(response).await, expected.unwrap_or(&whole), "{range}");
    }
    let request = ground.request("GET", "/part").header("range", format!("bytes={length}-"));
    let request = request.header("authorization", PLACEHOLDER);
    let response = ground.send(request.body(body_of("")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::RANGE_NOT_SATISFIABLE);
    assert_eq!(response.headers()["content-range"], format!("bytes */{length}").as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_nobody_asked_for_is_refused() {
    let ground = Ground::lay(Plan::default()).await;
    let request = ground.request("GET", "/part?unasked").header("authorization", PLACEHOLDER);
    let response = ground.send(request.body(body_of("")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert!(text_of(response).await.contains("answer_partial"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_compressed_for_the_journey_is_refused() {
    let ground = Ground::lay(Plan::default()).await;
    let request = ground.request("GET", "/transfer").header("authorization", PLACEHOLDER);
    let response = ground.send(request.body(body_of("")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert!(text_of(response).await.contains("answer_compressed"));
    // Towards a host without secrets the coding could not be passed on either.
    let stream = ground.greet(OTHER, b"http/1.1").await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::builder().uri("/transfer").header("host", ground.named(OTHER));
    let response = sender.send_request(request.body(body_of("")).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
}

/// Builds a gRPC message: a flag, the length, the bytes.
fn message(flag: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[flag], &length[..], payload].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_grpc_is_forwarded_immediately_and_a_compressed_one_is_not() {
    let ground = Ground::lay(Plan::default()).await;
    let ask = |text: Vec<u8>| {
        let request = ground.request("POST", "/pieces").header("x-kind", "application/grpc+proto");
        let request = request.header("grpc-accept-encoding", "gzip");
        ground.send(request.header("authorization", PLACEHOLDER).body(body_of(text)).unwrap())
    };
    let one = message(0, b"hello");
    let text = [&one[..], b"|", &message(0, VALUE.as_bytes())].concat();
    let mut body = ask(text).await.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first.as_ref(), one);
    ground.go_on.send(()).await.unwrap();
    let rest = body.collect().await.unwrap().to_bytes();
    assert_eq!(rest.as_ref(), message(0, PLACEHOLDER.as_bytes()));
    assert!(!ground.seen()[0].headers.contains_key("grpc-accept-encoding"));
    let mut body = ask([&one[..], b"|", &message(1, b"packed")].concat()).await.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap().as_ref(), one);
    ground.go_on.send(()).await.unwrap();
    let broken = body.collect().await;
    assert!(broken.is_err(), "what a message hides cannot be looked through");
}
