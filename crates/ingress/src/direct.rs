//! Direct ports: a loopback port of the host that forwards to one app, byte for byte.
//!
//! Cookies ignore ports: a browser that is sent to `http://hothouse.localhost:PORT` would give the cookies of that name
//! to the app behind the port, and let it set them. So every request, and every ClientHello, is read before it passes
//! (`requests`): one for a name in our zone other than the app's own is refused, and so is anything that could be one
//! but cannot be parsed. Until then the app may greet its client, but not answer. Other protocols pass.

use std::{
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hothouse_host::shares::Shares;
use tokio::{
    io::{self, AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
};

use crate::{
    Activity, RoomPort, Rooms,
    requests::{Misdirected, Requests},
};

/// The maximum length of an inspected response head.
const HEAD_LIMIT: usize = 64 << 10;

/// How much is read at once.
const PART: usize = 16 << 10;

/// The cost of a connection: a socket on each side.
const COST: u64 = 2;

/// How long a connection may be silent after one side has ended.
const HALF_IDLE: Duration = Duration::from_secs(30);

/// How many bytes before a response browsers ignore.
const SLOP: usize = 4;

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

/// Copies bytes both ways. The app may speak first, but not HTTP; the client's requests are inspected. When one side
/// has ended, the other may continue as long as it sends something: a client that is gone looks like one that only
/// listens, and an app may wait for its next message forever.
async fn relay(client: &mut TcpStream, app: &mut TcpStream, own: Option<&str>) -> io::Result<()> {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_app, mut to_app) = app.split();
    let (moved, judged, upgrade) = (AtomicU64::new(0), Notify::new(), Upgrade::default());
    let joined = {
        let inward = async {
            let mut requests = Requests::new(own);
            let mut bytes = Vec::new();
            loop {
                bytes.reserve(PART);
                let has_ended = from_client.read_buf(&mut bytes).await? == 0;
                if upgrade.is_made() {
                    requests.change();
                }
                let length = requests.read(&bytes, has_ended)?;
                if length > 0 || has_ended {
                    judged.notify_one();
                    upgrade.expect(requests.may_change());
                    to_app.write_all(&bytes[..length]).await?;
                    bytes.drain(..length);
                    moved.fetch_add(1, Ordering::Relaxed);
                }
                if has_ended {
                    return Ok(to_app.shutdown().await?);
                }
            }
        };
        let outward = async {
            let mut bytes = hear(&mut from_app, &judged).await?;
            loop {
                upgrade.answer(&bytes);
                to_client.write_all(&bytes).await?;
                moved.fetch_add(1, Ordering::Relaxed);
                bytes.clear();
                bytes.reserve(PART);
                if from_app.read_buf(&mut bytes).await? == 0 {
                    return Ok(to_client.shutdown().await?);
                }
            }
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
        Err(Broken::Misdirected(Misdirected(answer))) => {
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

/// Whether an app changes the protocol as its client has asked.
#[derive(Debug, Default)]
struct Upgrade(Mutex<Change>);

#[derive(Debug, Default)]
enum Change {
    #[default]
    No,
    /// The client has asked; so much of the answer has come.
    Asked(Vec<u8>),
    Made,
}

impl Upgrade {
    fn state(&self) -> MutexGuard<'_, Change> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_made(&self) -> bool {
        matches!(*self.state(), Change::Made)
    }

    /// Notes whether the last request asks for a change.
    fn expect(&self, asks: bool) {
        let mut state = self.state();
        match (asks, &*state) {
            (true, Change::No) => *state = Change::Asked(Vec::new()),
            (false, Change::Asked(_)) => *state = Change::No,
            _ => {}
        }
    }

    /// Reads what the app answers.
    fn answer(&self, bytes: &[u8]) {
        let mut state = self.state();
        let Change::Asked(answer) = &mut *state else { return };
        answer.extend_from_slice(bytes);
        match changes(answer) {
            None if answer.len() < HEAD_LIMIT => {}
            Some(true) => *state = Change::Made,
            None | Some(false) => *state = Change::No,
        }
    }
}

/// Returns whether an answer changes the protocol, once it is clear. Others that are not final may come before it.
fn changes(mut answer: &[u8]) -> Option<bool> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 128];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(answer) {
            Ok(httparse::Status::Partial) => return None,
            Ok(httparse::Status::Complete(length))
                if matches!(response.code, Some(100 | 102..=199)) =>
            {
                answer = &answer[length..];
            }
            Ok(httparse::Status::Complete(_)) => return Some(response.code == Some(101)),
            Err(_) => return Some(false),
        }
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

/// Why forwarding ended.
#[derive(Debug)]
enum Broken {
    Off(io::Error),
    Misdirected(Misdirected),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Off(error)
    }
}

impl From<Misdirected> for Broken {
    fn from(answer: Misdirected) -> Self {
        Self::Misdirected(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    async fn a_later_request_for_another_name_is_refused_too() {
        const OWN: &str = "web.a.shop.localhost";
        let request = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        let (mut user, mut service) = joined(Some(OWN)).await;
        for host in [OWN, "127.0.0.1", OWN] {
            user.write_all(request(host).as_bytes()).await.unwrap();
            let mut heard = vec![0; request(host).len()];
            service.read_exact(&mut heard).await.unwrap();
            service.write_all(answer).await.unwrap();
            let mut heard = vec![0; answer.len()];
            user.read_exact(&mut heard).await.unwrap();
        }
        user.write_all(request("hothouse.localhost").as_bytes()).await.unwrap();
        let mut heard = Vec::new();
        let ended = tokio::time::timeout(HALF_IDLE, user.read_to_end(&mut heard)).await;
        ended.expect("the connection ends").unwrap();
        assert!(heard.starts_with(b"HTTP/1.1 421 "), "{}", heard.escape_ascii());
        assert_eq!(service.read(&mut [0; 9]).await.unwrap(), 0, "the app hears nothing of it");
    }

    #[tokio::test]
    async fn an_upgraded_connection_passes_byte_by_byte() {
        let (mut user, mut service) = joined(None).await;
        let asks = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
        user.write_all(asks).await.unwrap();
        service.read_exact(&mut vec![0; asks.len()]).await.unwrap();
        let answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 x\r\n\r\n$";
        let (begin, rest) = answer.split_at(30);
        for part in [begin, rest] {
            service.write_all(part).await.unwrap();
            user.read_exact(&mut vec![0; part.len()]).await.unwrap();
        }
        let mut heard = [0];
        for key in [b"l", b"s"] {
            user.write_all(key).await.unwrap();
            service.read_exact(&mut heard).await.unwrap();
            assert_eq!(heard, *key);
        }
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
}
