//! Hosts that must be terminated are never reached directly, whatever a client sends.

use std::{
    net::IpAddr,
    sync::{Mutex, atomic::AtomicUsize},
    time::Duration,
};

use hothouse_model::{
    ledger::LedgerRecord,
    policy::{Answerer, ReasonCode, RequestLine, Transport},
};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, UdpSocket},
};

use super::super::*;
use crate::{
    Sendable, datagram,
    fixture::{policy, wall_of},
    ledger,
    wire::{dns::Question, hello},
};

/// A terminator of some hosts that answers, and counts its connections.
struct Opener {
    hosts: Vec<HostName>,
    served: Arc<AtomicUsize>,
}

impl Terminate for Opener {
    fn covers(&self, name: &str, _: u16) -> bool {
        self.hosts.iter().any(|host| host.as_str() == name)
    }

    fn names(&self) -> Vec<HostName> {
        self.hosts.clone()
    }

    fn admits(&self, _: &HostName, _: u16, _: &RequestLine<'_>, _: Answerer) -> Result<(), String> {
        Ok(())
    }

    fn serve(&self, mut client: Rewound, _: Endpoint, _: Dial, _: Note) -> Sendable<'_, ()> {
        self.served.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move { client.write_all(b"terminated").await.unwrap() })
    }
}

/// A wall, and a host on a port of the loopback.
struct Scene {
    edge: Arc<RoomEdge>,
    target: SocketAddr,
    /// The bytes that reached the host.
    came: Arc<Mutex<Vec<u8>>>,
    served: Arc<AtomicUsize>,
    folder: tempfile::TempDir,
}

/// Starts a resolver: names that begin with `away` resolve elsewhere, all others to the loopback.
async fn resolver() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let at = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let question = Question::read(&buffer[..length]).unwrap();
            let away = question.claim.name().is_some_and(|name| name.as_str().starts_with("away"));
            let address = if away { [192, 0, 2, 7] } else { [127, 0, 0, 1] };
            let answer = question.addresses(&[IpAddr::from(address)], 30);
            socket.send_to(&answer, from).await.unwrap();
        }
    });
    at
}

impl Scene {
    /// Creates a room with a mode and rules, where some hosts must be terminated. `banner` is what
    /// the host sends first.
    async fn new(mode: &str, rules: &str, covered: &[&str], banner: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap();
        let came: Arc<Mutex<Vec<u8>>> = Arc::default();
        let notes = came.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, banner, notes.clone()));
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let port = target.port();
        let rules = rules.replace("PORT", &port.to_string());
        let text = format!("mode = \"{mode}\"\nallow = [\"127.0.0.1:{port}\", {rules}]\n");
        let servers = vec![resolver().await];
        let edge = wall_of(policy(&text, &[]), folder.path(), servers, None);
        let scene = Self { edge, target, came, served: Arc::default(), folder };
        scene.cover(covered);
        scene.edge.learn_covered().await;
        scene
    }

    fn cover(&self, hosts: &[&str]) {
        let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
        self.edge.set_terminate(Some(Arc::new(Opener { hosts, served: self.served.clone() })));
    }

    async fn connect(&self) -> TcpStream {
        let inside = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(inside.local_addr().unwrap()).await.unwrap();
        let (caught, _) = inside.accept().await.unwrap();
        let (edge, target) = (self.edge.clone(), self.target);
        tokio::spawn(serve(edge, caught, target, Vec::new(), Way::Caught));
        client
    }

    /// Sends something on a new connection, and returns the reply until it ends.
    async fn say(&self, words: &[u8]) -> Vec<u8> {
        let mut client = self.connect().await;
        client.write_all(words).await.unwrap();
        rest(&mut client).await
    }

    fn came(&self) -> String {
        String::from_utf8_lossy(&self.came.lock().unwrap()).into_owned()
    }

    fn records(&self) -> Vec<LedgerRecord> {
        ledger::read(self.folder.path())
    }

    fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }
}

/// Acts as the host: answers every request, and keeps everything it receives.
async fn answer(mut stream: TcpStream, banner: &str, came: Arc<Mutex<Vec<u8>>>) {
    stream.write_all(banner.as_bytes()).await.unwrap();
    let mut buffer = vec![0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        came.lock().unwrap().extend_from_slice(&buffer[..length]);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

async fn rest(client: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset also ends it.
    client.read_to_end(&mut all).await.ok();
    all
}

fn hello(name: Option<&str>) -> Vec<u8> {
    hello::sample(name, false, 0)
}

const ALERT: u8 = 21;

#[tokio::test]
async fn what_cannot_be_opened_does_not_reach_a_covered_host() {
    for mode in ["open", "allowlist"] {
        let scene = Scene::new(mode, "\"*:PORT\"", &["api.example"], "").await;
        for words in [hello(None), hello(Some("evil.example")), hello(Some("127.0.0.1"))] {
            assert_eq!(scene.say(&words).await.first(), Some(&ALERT), "{mode}");
        }
        let others: [&[u8]; 5] = [
            b"SSH-2.0-x\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\0\0\0\x08\x04\xd2\x16\x2f",
            b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            b"GET / HTTP/1.0\r\n\r\n",
        ];
        for words in others {
            let answer = scene.say(words).await;
            let answer = String::from_utf8_lossy(&answer);
            // Refused by us, in the client's protocol.
            let refusals = ["HTTP/1.1 403 ", "SSH-2.0-Hothouse\r\n"];
            // PostgreSQL's clients are told that there is no TLS, then why there is no session.
            let is_refused =
                answer == "N" || refusals.iter().any(|refusal| answer.starts_with(refusal));
            assert!(answer.is_empty() || is_refused, "{mode} {answer}");
        }
        assert_eq!(scene.came(), "", "{mode}");
        let records = scene.records();
        assert_eq!(records.len(), 8, "{mode}: {records:?}");
        assert!(records.iter().all(|record| record.code == Some(ReasonCode::Covered.into())));
    }
}

#[tokio::test]
async fn silence_does_not_reach_a_covered_host() {
    let scene = Scene::new("open", "", &["api.example"], "220 welcome\r\n").await;
    let mut client = scene.connect().await;
    assert_eq!(rest(&mut client).await, b"");
    assert_eq!(scene.records()[0].code, Some(ReasonCode::Covered.into()));
}

#[tokio::test]
async fn a_covered_host_is_opened_whatever_address_leads_to_it() {
    let scene = Scene::new("open", "", &["api.example", "away.example"], "").await;
    for name in ["api.example", "API.example", "away.example"] {
        assert_eq!(scene.say(&hello(Some(name))).await, b"terminated");
    }
    let plain = b"GET / HTTP/1.1\r\nHost: api.example\r\n\r\n";
    assert_eq!(scene.say(plain).await, b"terminated");
    assert_eq!((scene.served(), scene.came()), (4, String::new()));
}

#[tokio::test]
async fn another_host_of_the_address_passes_if_a_rule_names_it() {
    let rules = "\"*:PORT\", \"cdn.example:PORT\"";
    let scene = Scene::new("open", rules, &["api.example"], "").await;
    assert_eq!(scene.say(&hello(Some("evil.example"))).await.first(), Some(&ALERT));
    let mut client = scene.connect().await;
    client.write_all(&hello(Some("cdn.example"))).await.unwrap();
    let mut answer = [0; 4];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP");
}

#[tokio::test]
async fn a_client_that_speaks_late_is_still_seen() {
    // The wall does not know that `away` is on this host.
    let scene = Scene::new("open", "", &["away.example"], "").await;
    for words in
        [hello(Some("away.example")), b"GET / HTTP/1.1\r\nHost: away.example\r\n\r\n".into()]
    {
        let mut client = scene.connect().await;
        // Longer than the wall waits for a silent client.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (start, end) = words.split_at(3);
        client.write_all(start).await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        client.write_all(end).await.unwrap();
        assert_eq!(rest(&mut client).await, b"terminated");
    }
    assert_eq!((scene.served(), scene.came()), (2, String::new()));

    let scene = Scene::new("open", "", &["away.example"], "220 welcome\r\n").await;
    let mut client = scene.connect().await;
    let mut banner = [0; 13];
    client.read_exact(&mut banner).await.unwrap();
    assert_eq!(&banner, b"220 welcome\r\n");
    client.write_all(&hello(Some("away.example"))).await.unwrap();
    assert_eq!(rest(&mut client).await, b"");
    assert_eq!(scene.came(), "");
    let records = scene.records();
    assert_eq!(
        (records.len(), records[0].code.clone()),
        (1, Some(ReasonCode::Covered.into())),
        "{records:?}"
    );

    // Connections to other hosts are still relayed.
    let mut client = scene.connect().await;
    client.read_exact(&mut banner).await.unwrap();
    client.write_all(b"EHLO me\r\n").await.unwrap();
    let mut answer = [0; 4];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(scene.came(), "EHLO me\r\n");
}

#[tokio::test]
async fn a_hello_that_only_a_server_could_read_is_refused() {
    let scene = Scene::new("open", "", &["away.example"], "").await;
    let long = hello::sample(Some("away.example"), false, hello::HELLO_LIMIT);
    assert_eq!(scene.say(&long).await.first(), Some(&ALERT));
    let odd = b"GET / HTTP/1.1\r\nHost : away.example\r\n\r\n";
    assert!(scene.say(odd).await.starts_with(b"HTTP/1.1 400 "));
    assert_eq!(scene.came(), "");
}

#[tokio::test]
async fn every_request_of_a_connection_is_judged_and_written_down() {
    let scene = Scene::new("open", "", &["away.example"], "").await;
    // Another name in a header does not reach the host.
    let request = |host: &str, path: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-Host: away.example\r\n\r\n")
    };
    let mut client = scene.connect().await;
    let both = [request("one.example", "/1"), request("one.example", "/2")].concat();
    client.write_all(both.as_bytes()).await.unwrap();
    let third = request("away.example", "/3");
    client.write_all(third.as_bytes()).await.unwrap();
    let answers = String::from_utf8(rest(&mut client).await).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
    assert_eq!(answers.matches("HTTP/1.1 403 Forbidden").count(), 1, "{answers}");
    assert!(!scene.came().contains("away.example"), "{}", scene.came());
    let shown = |record: &LedgerRecord| {
        let request = record.request.as_ref()?;
        Some(format!("{} {} {}", record.allowed, request["path"], request["status"]))
    };
    let requests: Vec<_> = scene.records().iter().filter_map(shown).collect();
    assert_eq!(requests, ["true \"/1\" 200", "true \"/2\" 200", "false \"/3\" null"]);
}

#[tokio::test]
async fn the_name_of_a_covered_host_leads_to_the_wall() {
    let scene = Scene::new("open", "", &["covered.example"], "").await;
    let address = scene.edge.address_for(&"covered.example".parse().unwrap()).await;
    assert!(address.is_some_and(is_synthetic), "{address:?}");
}

#[tokio::test]
async fn what_was_passed_on_is_cut_when_its_host_is_covered_later() {
    let scene = Scene::new("open", "", &[], "220 welcome\r\n").await;
    let mut silent = scene.connect().await;
    let mut named = scene.connect().await;
    named.write_all(&hello(Some("away.example"))).await.unwrap();
    let mut banner = [0; 13];
    silent.read_exact(&mut banner).await.unwrap();
    named.read_exact(&mut banner).await.unwrap();
    scene.cover(&["away.example"]);
    rest(&mut named).await;
    scene.cover(&["away.example", "api.example"]);
    assert_eq!(rest(&mut silent).await, b"");
}

#[tokio::test]
async fn datagrams_to_an_address_of_a_covered_host_are_refused() {
    let scene =
        Scene::new("open", "\"*:443/udp\", \"127.0.0.1:443/udp\"", &["api.example"], "").await;
    let of = |address: &str| {
        let facts =
            datagram::Facts::of(&scene.edge, Transport::Udp, address.parse().unwrap(), Some(443));
        facts.decide(&scene.edge).reason.map(|reason| reason.code())
    };
    assert_eq!(of("127.0.0.1"), Some(ReasonCode::Sealed));
    assert_eq!(of("1.2.3.4"), None);
}

#[tokio::test]
async fn a_client_that_needs_many_connections_has_no_more_than_the_share_of_its_room() {
    let scene = Scene::new("web", "\"covered.example:PORT\"", &["covered.example"], "").await;
    let name: HostName = "covered.example".parse().unwrap();
    let facts = Facts::of_mail(name.clone(), scene.target.port());
    let dial = dial_of(&scene.edge, &name, &facts);
    let _most: Vec<_> = std::iter::from_fn(|| scene.edge.take(1000)).collect();
    let mut last: Vec<_> = std::iter::from_fn(|| scene.edge.take(1)).collect();
    last.truncate(last.len() - 3);
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(dial().await.unwrap());
    }
    let refused = dial().await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::QuotaExceeded);
    open.pop();
    dial().await.unwrap();
}
