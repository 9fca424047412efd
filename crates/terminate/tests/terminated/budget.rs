//! How much memory one room can make the wall use.

use std::time::Duration;

use hothouse_model::config::SecretForm;
use hyper::StatusCode;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;

use crate::ground::{Ground, HOST, PLACEHOLDER, Plan, body_of};

/// Sends the head of a request with a long body that may need a value.
async fn begin(ground: &Ground) -> TlsStream<TcpStream> {
    let mut stream = ground.greet(HOST, b"http/1.1").await.unwrap();
    let head = format!(
        "POST /echo HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        ground.named(HOST),
        8 << 20
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Waits until the wall begins to read the body.
async fn told_to_continue(stream: &mut TlsStream<TcpStream>) {
    let mut told = [0; 25];
    stream.read_exact(&mut told).await.unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_never_end_hold_no_more_memory_than_their_room_may_have() {
    let ground = Ground::lay(Plan { form: SecretForm::Body, ..Plan::default() }).await;
    let mut all = Vec::new();
    for _ in 0..8 {
        let mut stream = begin(&ground).await;
        told_to_continue(&mut stream).await;
        all.push(stream);
    }
    let mut next = begin(&ground).await;
    let early = timeout(Duration::from_millis(300), next.read(&mut [0; 9])).await;
    assert!(early.is_err(), "it waits for memory: {early:?}");
    // A request that is not buffered does not wait.
    let request = ground.request("GET", "/echo").header("authorization", PLACEHOLDER);
    let response = ground.send(request.body(body_of("")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::OK);
    all.pop();
    told_to_continue(&mut next).await;
}
