//! Malicious clients.

use std::sync::Arc;

use hyper::StatusCode;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::ground::{Ground, HOST, OTHER, PLACEHOLDER, Plan, VALUE, body_of, text_of};

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_another_host_than_the_client_hello_is_refused() {
    let ground = Ground::lay(Plan::default()).await;
    // A connection for the host without secrets that requests the one with them, and vice versa.
    for (greeted, named) in [(OTHER, HOST), (HOST, OTHER), (HOST, "evil.example")] {
        let stream = ground.greet(greeted, b"http/1.1").await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        let request = hyper::Request::builder()
            .uri("/echo")
            .header("host", ground.named(named))
            .header("authorization", PLACEHOLDER)
            .body(body_of(""))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::MISDIRECTED_REQUEST, "{greeted} {named}");
    }
    assert!(ground.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_not_terminated_gets_no_certificate() {
    let ground = Ground::lay(Plan::default()).await;
    assert!(ground.greet("evil.example", b"http/1.1").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_hello_for_another_host_than_the_connection_is_refused() {
    let ground = Ground::lay(Plan::default()).await;
    for (offered, answer) in [("x", "HTTP/1.1 200"), (OTHER, "")] {
        // The ground takes any of its names in the bytes for that of the connection; TLS reads the right one.
        let mut client = ground.client(b"http/1.1");
        client.alpn_protocols.push(offered.into());
        let stream = TcpStream::connect(ground.address).await.unwrap();
        let greeted =
            TlsConnector::from(Arc::new(client)).connect(HOST.try_into().unwrap(), stream);
        let mut stream = greeted.await.unwrap();
        let host = if offered == OTHER { OTHER } else { HOST };
        let head = format!(
            "GET /echo HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            ground.named(host)
        );
        stream.write_all(head.as_bytes()).await.ok();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).await.ok();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(said.get(..12).unwrap_or_default(), answer, "{offered}: {said}");
    }
    assert_eq!(ground.seen().len(), 1);
}

/// Sends raw bytes on TLS and returns everything that comes back.
async fn raw(ground: &Ground, bytes: &[u8]) -> String {
    let mut stream = ground.greet(HOST, b"http/1.1").await.unwrap();
    stream.write_all(bytes).await.ok();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.ok();
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn smuggled_and_nested_requests_do_not_pass() {
    let ground = Ground::lay(Plan::default()).await;
    let host = ground.named(HOST);
    for text in [
        format!(
            "POST /echo HTTP/1.1\r\nhost: {host}\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /forbidden HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
        ),
        format!("GET /echo HTTP/1.1\r\nhost: {host}\r\nhost: {OTHER}\r\nconnection: close\r\n\r\n"),
        format!("CONNECT {host} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"),
        format!(
            "TRACE /echo HTTP/1.1\r\nhost: {host}\r\nauthorization: {PLACEHOLDER}\r\nconnection: close\r\n\r\n"
        ),
        format!("GET http://{OTHER}/echo HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"),
        "GET /echo HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned(),
        "\x16\x03\x01 garbage\r\n\r\n".to_owned(),
    ] {
        let answer = raw(&ground, text.as_bytes()).await;
        assert!(!answer.contains(VALUE), "{answer}");
        let asked: Vec<_> = ground.seen().iter().map(|seen| seen.path.clone()).collect();
        assert!(!asked.iter().any(|path| path.contains("forbidden")), "{asked:?}");
        let fine = answer.starts_with("HTTP/1.1 200");
        assert!(!fine || text.starts_with("POST"), "{text}\n{answer}");
    }
    // A second request behind the first is checked separately.
    let two = format!(
        "GET /echo HTTP/1.1\r\nhost: {host}\r\n\r\nGET /forbidden HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
    );
    let answer = raw(&ground, two.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("HTTP/1.1 403"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_becomes_another_one_behind_the_gate() {
    let ground = Ground::lay(Plan::default()).await;
    let request = ground
        .request("GET", "/echo")
        .header("connection", "Upgrade, HTTP2-Settings")
        .header("upgrade", "h2c")
        .header("http2-settings", "AAMAAABkAAQAAP__")
        .header("x-http-method-override", "DELETE")
        .header("x-original-url", "/forbidden");
    let response = ground.send(request.body(body_of("")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::OK);
    text_of(response).await;
    let seen = ground.seen().pop().unwrap();
    for name in
        ["upgrade", "connection", "http2-settings", "x-http-method-override", "x-original-url"]
    {
        assert!(!seen.headers.contains_key(name), "{name}");
    }
    // Some servers add trailers to the headers.
    let host = ground.named(HOST);
    let text = format!(
        "POST /echo HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\
         trailer: x-http-method-override, x-sum\r\n\r\n1\r\nx\r\n0\r\nx-http-method-override: DELETE\r\nx-sum: 1\r\n\r\n"
    );
    let answer = raw(&ground, text.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let seen = ground.seen().pop().unwrap();
    assert!(!seen.trailers.contains_key("x-http-method-override"), "{:?}", seen.trailers);
    assert_eq!(seen.trailers.get("x-sum").unwrap(), "1", "other trailers pass");
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_headers_end_the_connection() {
    let ground = Ground::lay(Plan::default()).await;
    let mut stream = ground.greet(HOST, b"http/1.1").await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
    let mut sent = 0_u64;
    // Bounded: buffering all of it would be noticed here.
    while sent < 1 << 30 && stream.write_all(&[b'a'; 64 << 10]).await.is_ok() {
        sent += 64 << 10;
    }
    assert!(sent < 64 << 20, "{sent} bytes of headers were taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_holds_nobody_up() {
    let ground = Ground::lay(Plan::default()).await;
    let mut lazy = ground.greet(HOST, b"http/1.1").await.unwrap();
    let host = ground.named(HOST);
    for _ in 0..200 {
        let ask = format!("GET /echo HTTP/1.1\r\nhost: {host}\r\nx: {}\r\n\r\n", "y".repeat(8000));
        let write = lazy.write_all(ask.as_bytes());
        if tokio::time::timeout(std::time::Duration::from_millis(200), write).await.is_err() {
            break;
        }
    }
    let response = ground.send(ground.request("GET", "/echo").body(body_of("")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::OK);
    text_of(response).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_not_a_client_hello_end_the_connection() {
    let ground = Ground::lay(Plan::default()).await;
    let mut stream = TcpStream::connect(ground.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: api.test.example\r\n\r\n").await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.ok();
    assert!(!String::from_utf8_lossy(&all).contains("HTTP/1.1"), "{all:?}");
}
