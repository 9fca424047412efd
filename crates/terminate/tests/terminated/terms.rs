//! Connections that outlive a config, and sessions that outlive a connection.

use std::{
    io::{self, Read, Write},
    sync::{Arc, Mutex},
};

use http_body_util::BodyExt;
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, HandshakeKind, NamedGroup,
    client::{ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue},
    pki_types::ServerName,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::ground::{Body, Ground, HOST, OTHER, PLACEHOLDER, Plan, VALUE, body_of, text_of};

/// Opens a connection for many requests.
async fn kept(ground: &Ground, host: &str) -> http1::SendRequest<Body> {
    let stream = ground.greet(host, b"http/1.1").await.unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    sender
}

fn ask(ground: &Ground, host: &str, path: &str) -> Request<Body> {
    let request = Request::builder().uri(path).header("host", ground.named(host));
    request.header("authorization", PLACEHOLDER).body(body_of("")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_open_when_the_rules_change_is_judged_again() {
    let ground = Ground::lay(Plan::default()).await;
    let mut http1 = kept(&ground, HOST).await;
    text_of(http1.send_request(ask(&ground, HOST, "/echo")).await.unwrap()).await;
    let stream = ground.greet(HOST, b"h2").await.unwrap();
    let (mut http2, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let over_http2 = |path: &str| {
        let request = Request::builder().uri(format!("https://{}{path}", ground.named(HOST)));
        request.header("authorization", PLACEHOLDER).body(body_of("")).unwrap()
    };
    // Streams that wait for their host, in both versions, a request without an answer, and an upgrade.
    let mut streams: Vec<Response<Incoming>> =
        vec![http2.send_request(over_http2("/events")).await.unwrap()];
    streams
        .push(kept(&ground, HOST).await.send_request(ask(&ground, HOST, "/events")).await.unwrap());
    for stream in &mut streams {
        let first = stream.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first.as_ref(), b"data: one\n\n");
    }
    let mut unanswered = kept(&ground, HOST).await;
    let (body_tx, body_rx) = tokio::sync::mpsc::channel::<Result<_, hyper::Error>>(1);
    body_tx.send(Ok(hyper::body::Frame::data("begins".into()))).await.unwrap();
    let body =
        http_body_util::StreamBody::new(tokio_stream::wrappers::ReceiverStream::new(body_rx));
    let request = ground.request("POST", "/upload").body(BodyExt::boxed(body)).unwrap();
    let unanswered = tokio::spawn(async move { unanswered.send_request(request).await });
    let request = ground
        .request("GET", "/ws")
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("authorization", PLACEHOLDER);
    let response = ground.send(request.body(body_of("")).unwrap()).await;
    let mut socket = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    let hello = crate::channel::frame(0x81, b"hello");
    socket.write_all(&hello).await.unwrap();
    socket.read_exact(&mut vec![0; hello.len()]).await.unwrap();

    ground.shut.send_replace(true);
    let refused = http1.send_request(ask(&ground, HOST, "/echo")).await.unwrap();
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    let refused = http2.send_request(over_http2("/echo")).await.unwrap();
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    for stream in streams {
        assert!(stream.into_body().collect().await.is_err(), "a stream is broken off");
    }
    let refused = unanswered.await.unwrap().unwrap();
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).await.ok();
    assert_eq!(rest, b"");
    drop(body_tx);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_withdrawn_is_no_longer_inserted_on_connections_that_are_open() {
    let ground = Ground::lay(Plan::default()).await;
    let (mut first, mut other) = (kept(&ground, HOST).await, kept(&ground, OTHER).await);
    text_of(first.send_request(ask(&ground, HOST, "/echo")).await.unwrap()).await;
    text_of(other.send_request(ask(&ground, OTHER, "/echo")).await.unwrap()).await;
    let sent = |at: usize| ground.seen()[at].headers["authorization"].to_str().unwrap().to_owned();
    assert_eq!((sent(0).as_str(), sent(1).as_str()), (VALUE, PLACEHOLDER));
    // A response that began unscanned would reveal what the host is told later.
    let unscanned = kept(&ground, OTHER).await.send_request(ask(&ground, OTHER, "/events")).await;
    let mut unscanned = unscanned.unwrap().into_body();
    unscanned.frame().await.unwrap().unwrap();

    let _next = ground.give_secrets_to(OTHER);
    text_of(first.send_request(ask(&ground, HOST, "/echo")).await.unwrap()).await;
    let echoed = text_of(other.send_request(ask(&ground, OTHER, "/echo")).await.unwrap()).await;
    assert_eq!((sent(3).as_str(), sent(4).as_str()), (PLACEHOLDER, VALUE));
    assert!(echoed.contains(PLACEHOLDER) && !echoed.contains(VALUE), "{echoed}");
    assert!(unscanned.collect().await.is_err(), "what began unscanned has ended");
    // The former host may still have the value.
    let said = ground.request("POST", "/pieces").body(body_of(VALUE)).unwrap();
    assert_eq!(text_of(first.send_request(said).await.unwrap()).await, PLACEHOLDER);
}

/// Offers the session tickets of every host to every other one.
#[derive(Debug, Default)]
struct AnyTicket(Mutex<Vec<Tls13ClientSessionValue>>);

impl ClientSessionStore for AnyTicket {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}
    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }
    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}
    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }
    fn remove_tls12_session(&self, _: &ServerName<'static>) {}
    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.0.lock().unwrap().push(ticket);
    }
    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.lock().unwrap().pop()
    }
}

async fn greet(ground: &Ground, client: &Arc<ClientConfig>, name: &str) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(ground.address).await.unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(client.clone()).connect(name, stream).await.unwrap()
}

/// Requests a host on a connection; returns the answer.
async fn said(ground: &Ground, stream: &mut TlsStream<TcpStream>, host: &str) -> String {
    let head = format!(
        "GET /echo HTTP/1.1\r\nHost: {}\r\nAuthorization: {PLACEHOLDER}\r\nConnection: close\r\n\r\n",
        ground.named(host)
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.ok();
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_session_is_judged_by_the_name_that_it_says_now() {
    let ground = Ground::lay(Plan::default()).await;
    let store = Arc::new(AnyTicket::default());
    let mut client = ground.client(b"http/1.1");
    client.resumption = Resumption::store(store.clone());
    let client = Arc::new(client);
    let mut first = greet(&ground, &client, OTHER).await;
    assert!(said(&ground, &mut first, OTHER).await.starts_with("HTTP/1.1 200"));
    // Under its own name the session can be resumed, so the attack below is real.
    let mut again = greet(&ground, &client, OTHER).await;
    assert_eq!(again.get_ref().1.handshake_kind(), Some(HandshakeKind::Resumed));
    assert!(said(&ground, &mut again, HOST).await.starts_with("HTTP/1.1 421"));
    let asked = ground.seen().len();
    let mut another = greet(&ground, &client, HOST).await;
    assert_eq!(another.get_ref().1.handshake_kind(), Some(HandshakeKind::Full));
    assert!(said(&ground, &mut another, OTHER).await.starts_with("HTTP/1.1 421"));
    assert_eq!(ground.seen().len(), asked, "neither host was asked anything");
    // Later changes apply to sessions from before as well.
    ground.shut.send_replace(true);
    let mut resumed = greet(&ground, &client, HOST).await;
    assert_eq!(resumed.get_ref().1.handshake_kind(), Some(HandshakeKind::Resumed));
    assert!(said(&ground, &mut resumed, HOST).await.starts_with("HTTP/1.1 403"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_can_be_sent_before_the_end_of_the_greeting() {
    let ground = Ground::lay(Plan::default()).await;
    let mut client = ground.client(b"http/1.1");
    client.enable_early_data = true;
    let client = Arc::new(client);
    let mut first = greet(&ground, &client, OTHER).await;
    said(&ground, &mut first, OTHER).await;
    let (client, address) = (client.clone(), ground.address);
    let early = tokio::task::spawn_blocking(move || {
        let name = ServerName::try_from(OTHER).unwrap();
        let mut session = rustls::ClientConnection::new(client, name).unwrap();
        let is_offered =
            session.early_data().map(|mut early| early.write_all(b"GET / HTTP/1.1\r\n"));
        let mut socket = std::net::TcpStream::connect(address).unwrap();
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        let mut tls = rustls::Stream::new(&mut session, &mut socket);
        tls.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        tls.read_exact(&mut [0; 9])?;
        Ok::<_, io::Error>((
            is_offered.is_some(),
            session.handshake_kind(),
            session.is_early_data_accepted(),
        ))
    });
    let early = early.await.unwrap().unwrap();
    assert_eq!(early, (false, Some(HandshakeKind::Resumed), false));
}
