//! Streamed data: events, large bodies, WebSockets.

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    channel::frame,
    ground::{Ground, PLACEHOLDER, Plan, VALUE, body_of, text_of},
};

#[tokio::test(flavor = "multi_thread")]
async fn events_arrive_one_by_one() {
    let ground = Ground::lay(Plan::default()).await;
    let request = ground.request("GET", "/events").header("authorization", PLACEHOLDER);
    let mut body = ground.send(request.body(body_of("")).unwrap()).await.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first.as_ref(), b"data: one\n\n");
    // The host sends the second event only now: the first did not wait for it.
    ground.go_on.send(()).await.unwrap();
    let second = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(second.as_ref(), b"data: two\n\n");
    assert!(body.frame().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_body_streams_and_only_its_beginning_is_recorded() {
    let ground = Ground::lay(Plan::default()).await;
    let size = 48 << 20;
    let request = ground.request("POST", "/upload").header("authorization", PLACEHOLDER);
    let response = ground.send(request.body(body_of(vec![b'x'; size])).unwrap()).await;
    assert_eq!(text_of(response).await.trim(), size.to_string());
    let record = ground.records(1).await.pop().unwrap();
    assert_eq!(record.request_body.total, size as u64);
    assert_eq!(record.request_body.kept.len(), hothouse_terminate::BODY_CAP);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_carries_bytes_both_ways_and_an_echo_is_caught() {
    let ground = Ground::lay(Plan::default()).await;
    let request = ground
        .request("GET", "/ws")
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-extensions", "permessage-deflate")
        .header("authorization", PLACEHOLDER);
    let response = ground.send(request.body(body_of("")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    let mut stream = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    // The host echoes its input; the value in it represents one that it knows.
    stream.write_all(&frame(0x81, format!("one {VALUE} two").as_bytes())).await.unwrap();
    let expected = frame(0x81, format!("one {PLACEHOLDER} two").as_bytes());
    let mut got = vec![0; expected.len()];
    stream.read_exact(&mut got).await.unwrap();
    assert_eq!(got, expected);
    let seen = ground.seen().pop().unwrap();
    assert_eq!(seen.headers["authorization"], VALUE);
    assert!(!seen.headers.contains_key("sec-websocket-extensions"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_used_again() {
    let ground = Ground::lay(Plan::default()).await;
    let stream = ground.greet(crate::ground::HOST, b"http/1.1").await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..20 {
        sender.ready().await.unwrap();
        let request = ground.request("GET", "/echo").body(body_of("")).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        text_of(response).await;
    }
    assert_eq!(ground.seen().len(), 20);
}
