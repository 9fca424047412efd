//! Direct ports: a loopback port of the host that forwards to one app, byte for byte.
//!
//! Cookies ignore ports: a browser that is sent to `http://hothouse.localhost:PORT` would give the cookies of that name
//! to the app behind the port, and let it set them. So the first bytes of a client are inspected: a request or a
//! ClientHello for a name in our zone other than the app's own is refused, and so is anything that could be one but
//! cannot be parsed. Until then the app may greet its client, but not answer. Everything else passes, including later
//! requests for other names: a browser uses a connection for one name only, unless a certificate covers several, and no
//! app has one for a name in our zone.

use std::{
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hothouse_host::shares::Shares;
use rustls::server::Acceptor;
use tokio::{
    io::{self, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
};

use crate::{Activity, RoomPort, Rooms, names::ZONE};

/// The maximum length of an inspected request head.
const HEAD_LIMIT: usize = 64 << 10;

/// The cost of a connection: a socket on each side.
const COST: u64 = 2;

/// How long a connection may be silent after one side has ended.
const HALF_IDLE: Duration = Duration::from_secs(30);

/// How many bytes before a response browsers ignore.
const SLOP: usize = 4;

/// A fatal alert, unrecognized name (RFC 6066, section 3).
const UNRECOGNIZED: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

const MISDIRECTED: &[u8] = b"HTTP/1.1 421 Misdirected Request\r\ncontent-type: text/plain\r\n\
    connection: close\r\n\r\nthis port is another app's; use its URL, or 127.0.0.1\n";

/// The target of a direct port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leads {
    /// The sandbox's public id.
    pub id: String,
    /// The app, by the name that [`Rooms::wake`] knows.
    pub app: String,
    /// The app's host name in our zone, if it has one.
    pub host: Option<String>,
    /// Where it is reached, while the room is up.
    pub target: Option<RoomPort>,
    pub activity: Arc<Activity>,
}

/// A listening port; closes on drop.
#[derive(Debug)]
pub struct DirectPort {
    pub port: u16,
    to: Arc<Mutex<Leads>>,
    task: JoinHandle<()>,
}

impl DirectPort {
    /// Listens on a loopback port.
    pub async fn open(
        port: u16,
        to: Leads,
        rooms: Arc<dyn Rooms>,
        shares: Arc<Shares>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let to = Arc::new(Mutex::new(to));
        let task = tokio::spawn(serve(listener, to.clone(), rooms, shares));
        Ok(Self { port, to, task })
    }

    /// Changes the target. The port stays open: waiting clients are served.
    pub fn lead(&self, to: Leads) {
        *self.to.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }
}

impl Drop for DirectPort {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    listener: TcpListener,
    to: Arc<Mutex<Leads>>,
    rooms: Arc<dyn Rooms>,
    shares: Arc<Shares>,
) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // Most likely out of file descriptors: other connections must end first.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let to = to.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A sandbox that exceeds its share is briefly unreachable; the others are not affected.
        let Some(permit) = shares.of(&to.id).take(COST) else {
            client.set_zero_linger().ok();
            continue;
        };
        let rooms = rooms.clone();
        tokio::spawn(async move {
            connect(client, &to, &*rooms).await;
            drop(permit);
        });
    }
}

async fn connect(mut client: TcpStream, to: &Leads, rooms: &dyn Rooms) {
    let _held = to.activity.enter();
    let dialled = tokio::select! {
        dialled = dial(to, rooms) => dialled,
        // Waking a sandbox takes a while, and the client may leave meanwhile.
        () = gone(&client) => return,
    };
    match dialled {
        Ok(mut app) => {
            client.set_nodelay(true).ok();
            app.set_nodelay(true).ok();
            if relay(&mut client, &mut app, to.host.as_deref()).await.is_err() {
                // Whichever side broke it off, the other must notice immediately.
                client.set_zero_linger().ok();
                app.set_zero_linger().ok();
            }
        }
        // A reset, as from a port without a listener.
        Err(error) => {
            tracing::debug!(%error, app = to.app, "the app does not answer");
            client.set_zero_linger().ok();
        }
    }
}

/// Returns when a client that has not sent anything disconnects.
async fn gone(client: &TcpStream) {
    if let Ok(1..) = client.peek(&mut [0]).await {
        std::future::pending::<()>().await;
    }
}

/// Copies bytes both ways. The app may speak first, but not HTTP; the client's first bytes are inspected. When one side
/// has ended, the other may continue as long as it sends something: a client that is gone looks like one that only
/// listens, and an app may wait for its next message forever.
async fn relay(client: &mut TcpStream, app: &mut TcpStream, own: Option<&str>) -> io::Result<()> {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_app, mut to_app) = app.split();
    let (moved, judged) = (AtomicU64::new(0), Notify::new());
    let joined = {
        let inward = async {
            let begun = begin(&mut from_client, own).await?;
            judged.notify_one();
            to_app.write_all(&begun).await?;
            Ok(copy(&mut from_client, &mut to_app, &moved).await?)
        };
        let outward = async {
            let early = hear(&mut from_app, &judged).await?;
            to_client.write_all(&early).await?;
            Ok(copy(&mut from_app, &mut to_client, &moved).await?)
        };
        tokio::pin!(inward, outward);
        tokio::select! {
            ended = &mut inward => match ended {
                Ok(()) => while_it_moves(outward, &moved).await,
                broken => broken,
            },
            ended = &mut outward => match ended {
                Ok(()) => while_it_moves(inward, &moved).await,
                broken => broken,
            },
        }
    };
    match joined {
        Ok(()) => Ok(()),
        Err(Broken::Off(error)) => Err(error),
        Err(Broken::Misdirected(answer)) => {
            client.write_all(answer).await?;
            client.shutdown().await
        }
    }
}

/// Reads what an app sends before its client was inspected. Anything that a browser would accept as a response is held
/// back until then: it could set cookies, or run a script, for a name that is not the app's.
async fn hear(app: &mut (impl AsyncRead + Unpin), judged: &Notify) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4 << 10);
    while could_be_an_answer(&bytes) {
        let is_full = bytes.len() > SLOP + 4;
        tokio::select! {
            () = judged.notified() => break,
            read = app.read_buf(&mut bytes), if !is_full => match read? {
                0 if bytes.is_empty() => break,
                0 => {
                    tokio::time::timeout(HALF_IDLE, judged.notified()).await?;
                    break;
                }
                _ => {}
            },
        }
    }
    Ok(bytes)
}

/// Returns whether bytes are, or could become, the start of a response. Browsers look for it within the first few
/// bytes, ignoring case, and some also accept `ICY` (Shoutcast).
fn could_be_an_answer(bytes: &[u8]) -> bool {
    let begins = |rest: &[u8], word: &[u8]| {
        rest.iter().zip(word).all(|(byte, letter)| byte.eq_ignore_ascii_case(letter))
    };
    (0..=SLOP).any(|at| {
        let rest = bytes.get(at..).unwrap_or_default();
        begins(rest, b"http") || begins(rest, b"icy ")
    })
}

/// Copies bytes one way, then closes that direction.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    moved: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        match from.read(&mut buffer).await? {
            0 => return to.shutdown().await,
            length => to.write_all(&buffer[..length]).await?,
        }
        moved.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits for the second direction to end, as long as bytes move in it.
async fn while_it_moves(
    mut way: Pin<&mut impl Future<Output = Result<(), Broken>>>,
    moved: &AtomicU64,
) -> Result<(), Broken> {
    loop {
        let before = moved.load(Ordering::Relaxed);
        match tokio::time::timeout(HALF_IDLE, way.as_mut()).await {
            Ok(ended) => return ended,
            Err(_) if moved.load(Ordering::Relaxed) == before => {
                return Err(Broken::Off(io::ErrorKind::TimedOut.into()));
            }
            Err(_) => {}
        }
    }
}

/// Why forwarding ended.
#[derive(Debug)]
enum Broken {
    Off(io::Error),
    /// A request for a name that is not the app's, and the answer to it.
    Misdirected(&'static [u8]),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Off(error)
    }
}

/// Reads until it is clear whom a request is for, or that it is not a request.
async fn begin(
    client: &mut (impl AsyncRead + Unpin),
    own: Option<&str>,
) -> Result<Vec<u8>, Broken> {
    let mut bytes = Vec::with_capacity(4 << 10);
    loop {
        if client.read_buf(&mut bytes).await? == 0 {
            return Ok(bytes);
        }
        let refusal = if is_tls(&bytes) { &UNRECOGNIZED[..] } else { MISDIRECTED };
        match hosts_in(&bytes) {
            Hosts::Unknown if bytes.len() < HEAD_LIMIT => {}
            Hosts::Are(hosts) if hosts.iter().all(|host| is_allowed(host, own)) => {
                return Ok(bytes);
            }
            Hosts::Unknown | Hosts::Are(_) | Hosts::Unreadable => {
                return Err(Broken::Misdirected(refusal));
            }
        }
    }
}

/// The hosts that a client has named so far.
#[derive(Debug, PartialEq, Eq)]
enum Hosts {
    Unknown,
    /// Empty if it is not a request, or names no host.
    Are(Vec<String>),
    /// A request whose host cannot be determined.
    Unreadable,
}

fn is_tls(bytes: &[u8]) -> bool {
    // A handshake record, in any TLS version that is still in use.
    bytes.starts_with(&[22, 3])
}

fn hosts_in(bytes: &[u8]) -> Hosts {
    if is_tls(bytes) || bytes == [22] {
        return greeted(bytes);
    }
    // Browsers do not use HTTP/2 without TLS, and other clients have no cookies.
    if bytes.starts_with(b"PRI * HTTP/2.0\r\n") {
        return Hosts::Are(Vec::new());
    }
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => Hosts::Unknown,
        Ok(httparse::Status::Complete(_)) => {
            let named = request.headers.iter().filter(|one| one.name.eq_ignore_ascii_case("host"));
            let named = named.map(|header| String::from_utf8_lossy(header.value).into_owned());
            let target = request.path.and_then(|path| path.split_once("://"));
            let target = target.map(|(_, rest)| {
                let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
                authority.rsplit('@').next().unwrap_or_default().to_owned()
            });
            Hosts::Are(named.chain(target).collect())
        }
        Err(_) => {
            let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
            match line.windows(7).any(|part| part == b" HTTP/1") {
                true => Hosts::Unreadable,
                false => Hosts::Are(Vec::new()),
            }
        }
    }
}

/// Parses the name in a ClientHello.
fn greeted(bytes: &[u8]) -> Hosts {
    let mut acceptor = Acceptor::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        if acceptor.read_tls(&mut rest).is_err() {
            return Hosts::Unreadable;
        }
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => {
                let name = accepted.client_hello().server_name().map(str::to_owned);
                return Hosts::Are(name.into_iter().collect());
            }
            Err(_) => return Hosts::Unreadable,
        }
    }
    Hosts::Unknown
}

/// Returns whether a port may answer to a host: one outside our zone, or the app's own.
fn is_allowed(host: &str, own: Option<&str>) -> bool {
    // Whatever follows as the port.
    let name = host.trim().split(':').next().unwrap_or_default();
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let in_zone = name.rsplit_once('.').is_some_and(|(_, zone)| zone == ZONE);
    !in_zone || own == Some(name.as_str())
}

async fn dial(to: &Leads, rooms: &dyn Rooms) -> io::Result<TcpStream> {
    match &to.target {
        Some(target) if !(to.activity.is_asleep() || to.activity.is_starting()) => {
            rooms.dial(target).await
        }
        _ => {
            let target = rooms.wake(&to.id, &to.app).await.map_err(io::Error::other)?;
            rooms.dial(&target).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are(hosts: &[&str]) -> Hosts {
        Hosts::Are(hosts.iter().map(|host| (*host).to_owned()).collect())
    }

    #[test]
    fn a_request_tells_its_hosts_as_soon_as_it_can() {
        assert_eq!(hosts_in(b"GET / HTTP/1.1\r\nHo"), Hosts::Unknown);
        assert_eq!(hosts_in(b"GET / HTTP/1.1\r\nHOST: a:1\r\n\r\n"), are(&["a:1"]));
        assert_eq!(hosts_in(b"GET / HTTP/1.0\r\n\r\n"), are(&[]));
        assert_eq!(hosts_in(b"*1\r\n$4\r\nPING\r\n"), are(&[]));
        assert_eq!(hosts_in(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), are(&[]));
        let two = b"GET http://x@c.localhost/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n";
        assert_eq!(hosts_in(two), are(&["a", "b", "c.localhost"]));
        let many = format!("GET / HTTP/1.1\r\n{}Host: a\r\n\r\n", "a: b\r\n".repeat(200));
        assert_eq!(hosts_in(many.as_bytes()), Hosts::Unreadable);
        assert_eq!(hosts_in(b"GET / HTTP/1.1\r\nHost : a\r\n\r\n"), Hosts::Unreadable);
    }

    #[test]
    fn a_client_of_tls_tells_its_host_too() {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let config =
            builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
        let name = "hothouse.localhost".try_into().unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let mut hello = Vec::new();
        client.write_tls(&mut hello).unwrap();
        for end in 1..hello.len() {
            assert_eq!(hosts_in(&hello[..end]), Hosts::Unknown, "{end}");
        }
        assert_eq!(hosts_in(&hello), are(&["hothouse.localhost"]));
        assert_eq!(hosts_in(&[22, 3, 1, 0, 4, 9, 9, 9, 9]), Hosts::Unreadable);
    }

    #[tokio::test]
    async fn a_client_that_is_gone_does_not_hold_an_app_that_waits() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let pair = async || {
            let (one, other) = tokio::join!(TcpStream::connect(at), listener.accept());
            (one.unwrap(), other.unwrap().0)
        };
        let ((mut user, mut client), (mut app, mut service)) = (pair().await, pair().await);
        let relay = tokio::spawn(async move { relay(&mut client, &mut app, None).await });
        user.write_all(b"*1\r\n").await.unwrap();
        let mut heard = [0; 4];
        service.read_exact(&mut heard).await.unwrap();
        drop(user);
        // The service sees that the client has ended, and ignores it.
        assert_eq!(service.read(&mut heard).await.unwrap(), 0);
        relay.await.unwrap().unwrap_err();
    }

    /// Connects a user to an app through a relay.
    async fn joined(own: Option<&'static str>) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let pair = async || {
            let (one, other) = tokio::join!(TcpStream::connect(at), listener.accept());
            (one.unwrap(), other.unwrap().0)
        };
        let ((user, mut client), (mut app, service)) = (pair().await, pair().await);
        tokio::spawn(async move { relay(&mut client, &mut app, own).await });
        (user, service)
    }

    #[tokio::test]
    async fn an_app_that_answers_before_it_is_asked_reaches_no_client_of_another_name() {
        let answer = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n";
        for early in [&answer[..], &answer[..1], b"\r\n\r\nhttp/1.0 200", b"ICY 200 OK\r\n\r\n"] {
            for ends in [false, true] {
                let (mut user, mut service) = joined(Some("web.a.shop.localhost")).await;
                service.write_all(early).await.unwrap();
                if ends {
                    service.shutdown().await.unwrap();
                }
                // That a byte does not arrive cannot be awaited, so give the relay time to read it.
                tokio::time::sleep(Duration::from_millis(50)).await;
                assert!(user.try_read(&mut [0; 9]).is_err(), "{}", early.escape_ascii());
                user.write_all(b"GET / HTTP/1.1\r\nHost: hothouse.localhost\r\n\r\n")
                    .await
                    .unwrap();
                let mut heard = Vec::new();
                user.read_to_end(&mut heard).await.unwrap();
                assert!(heard.starts_with(b"HTTP/1.1 421 "), "{}", heard.escape_ascii());
                assert!(!heard.escape_ascii().to_string().contains("Set-Cookie"));
            }
        }
        let (mut user, mut service) = joined(Some("web.a.shop.localhost")).await;
        service.write_all(answer).await.unwrap();
        user.write_all(b"GET / HTTP/1.1\r\nHost: web.a.shop.localhost\r\n\r\n").await.unwrap();
        let mut heard = vec![0; answer.len()];
        user.read_exact(&mut heard).await.unwrap();
        assert_eq!(heard, answer, "its own name is answered, however early");
    }

    #[tokio::test]
    async fn an_app_may_greet_its_client_first() {
        let greetings = [
            &b"220 mail.example ESMTP\r\n"[..],
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"+OK\r\n",
            b"J\0\0\0\n8.0.36\0",
            b"220 host\r\n",
        ];
        for greeting in greetings {
            let (mut user, mut service) = joined(None).await;
            service.write_all(greeting).await.unwrap();
            let mut heard = vec![0; greeting.len()];
            user.read_exact(&mut heard).await.unwrap();
            assert_eq!(heard, greeting);
        }
        let (mut user, mut service) = joined(None).await;
        service.shutdown().await.unwrap();
        assert_eq!(user.read(&mut [0; 9]).await.unwrap(), 0, "an app that ends is heard");
    }

    #[test]
    fn a_port_answers_to_no_other_name_of_the_zone() {
        let own = Some("web.a.shop.localhost");
        for (host, allowed) in [
            ("127.0.0.1:43100", true),
            ("localhost:43100", true),
            ("my-host.example", true),
            ("web.a.shop.localhost:43100", true),
            ("WEB.a.shop.LOCALHOST.", true),
            ("hothouse.localhost:43100", false),
            ("web.b.shop.localhost:43100", false),
            ("evil.web.a.shop.localhost", false),
            ("hothouse.localhost:", false),
            ("hothouse.localhost:123456", false),
            ("HotHouse.Localhost..:80", false),
            ("0f0f.hothouse.localhost", false),
            ("[::1]:43100", true),
        ] {
            assert_eq!(is_allowed(host, own), allowed, "{host}");
        }
        assert!(!is_allowed("web.a.shop.localhost", None));
    }
}
