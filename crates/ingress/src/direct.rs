//! Direct ports: a port of the host's loopback that leads to one app, byte for byte.
//!
//! Cookies know no ports: a browser that is led to `http://hothouse.localhost:PORT` would hand the cookies
//! of that name to the app behind the port, and let it set them. So the first bytes of a client are looked
//! at: a request for a name in our zone that is not the app's own is refused. Everything else passes.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{self, AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::{
    Activity, Rooms, Target,
    names::{ZONE, bare},
};

/// The longest head of a request that is looked at.
const HEAD_LIMIT: usize = 64 << 10;

const MISDIRECTED: &[u8] = b"HTTP/1.1 421 Misdirected Request\r\ncontent-type: text/plain\r\n\
    connection: close\r\n\r\nthis port is another app's; use its URL, or 127.0.0.1\n";

/// Where a direct port leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leads {
    /// The sandbox's public id.
    pub id: String,
    /// What it leads to, by the name that [`Rooms::wake`] knows.
    pub app: String,
    /// The name that the app has in our zone, if it has one.
    pub host: Option<String>,
    /// Where that answers, while the room is up.
    pub target: Option<Target>,
    pub activity: Arc<Activity>,
}

/// A port that is open for as long as this is held.
#[derive(Debug)]
pub struct DirectPort {
    pub port: u16,
    to: Arc<Mutex<Leads>>,
    task: JoinHandle<()>,
}

impl DirectPort {
    /// Opens a port of the loopback.
    pub async fn open(port: u16, to: Leads, rooms: Arc<dyn Rooms>) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let to = Arc::new(Mutex::new(to));
        let task = tokio::spawn(serve(listener, to.clone(), rooms));
        Ok(Self { port, to, task })
    }

    /// Leads elsewhere from now on. The port stays open: whoever waits at it is served.
    pub fn lead(&self, to: Leads) {
        *self.to.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }
}

impl Drop for DirectPort {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, to: Arc<Mutex<Leads>>, rooms: Arc<dyn Rooms>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // Out of descriptors, most likely: others must end first.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let to = to.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let rooms = rooms.clone();
        tokio::spawn(async move { connect(client, &to, &*rooms).await });
    }
}

async fn connect(mut client: TcpStream, to: &Leads, rooms: &dyn Rooms) {
    let _held = to.activity.enter();
    match dial(to, rooms).await {
        Ok(mut app) => {
            client.set_nodelay(true).ok();
            app.set_nodelay(true).ok();
            relay(&mut client, &mut app, to.host.as_deref()).await.ok();
        }
        // A reset says "nobody there", as a port without a listener would.
        Err(error) => {
            tracing::debug!(%error, app = to.app, "an app does not answer");
            client.set_zero_linger().ok();
        }
    }
}

/// Passes bytes both ways. The app may speak first; what the client says first is looked at.
async fn relay(client: &mut TcpStream, app: &mut TcpStream, own: Option<&str>) -> io::Result<()> {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_app, mut to_app) = app.split();
    let inward = async {
        let begun = begin(&mut from_client, own).await?.ok_or(Broken::Misdirected)?;
        to_app.write_all(&begun).await?;
        io::copy(&mut from_client, &mut to_app).await?;
        Ok(to_app.shutdown().await?)
    };
    let outward = async {
        io::copy(&mut from_app, &mut to_client).await?;
        Ok(to_client.shutdown().await?)
    };
    match tokio::try_join!(inward, outward) {
        Ok(((), ())) => Ok(()),
        Err(Broken::Off(error)) => Err(error),
        Err(Broken::Misdirected) => client.write_all(MISDIRECTED).await,
    }
}

/// Why bytes no longer pass.
enum Broken {
    Off(io::Error),
    /// A request for a name that is not the app's.
    Misdirected,
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Off(error)
    }
}

/// Reads until it is clear whose request it is, or that it is none. Nothing if it is not for the app.
async fn begin(
    client: &mut (impl AsyncRead + Unpin),
    own: Option<&str>,
) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(4 << 10);
    loop {
        if client.read_buf(&mut bytes).await? == 0 {
            return Ok(Some(bytes));
        }
        match host_in(&bytes) {
            Host::Unknown if bytes.len() < HEAD_LIMIT => {}
            Host::Unknown => return Ok(None),
            Host::Is(host) if !is_allowed(&host, own) => return Ok(None),
            Host::Is(_) | Host::NoRequest => return Ok(Some(bytes)),
        }
    }
}

/// The host of a request, as far as it was read.
#[derive(Debug, PartialEq, Eq)]
enum Host {
    Unknown,
    NoRequest,
    Is(String),
}

fn host_in(bytes: &[u8]) -> Host {
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => Host::Unknown,
        Ok(httparse::Status::Complete(_)) => {
            let mut named = request.headers.iter();
            let host = named.find(|header| header.name.eq_ignore_ascii_case("host"));
            let host = host.map(|header| String::from_utf8_lossy(header.value).into_owned());
            host.map_or(Host::NoRequest, Host::Is)
        }
        Err(_) => Host::NoRequest,
    }
}

/// Returns whether a port may answer to a host: one outside our zone, or the app's own.
fn is_allowed(host: &str, own: Option<&str>) -> bool {
    let host = bare(host.trim()).to_ascii_lowercase();
    let in_zone = host.rsplit_once('.').is_some_and(|(_, zone)| zone == ZONE);
    !in_zone || own == Some(host.as_str())
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

    #[test]
    fn a_request_tells_its_host_as_soon_as_it_can() {
        assert_eq!(host_in(b"GET / HTTP/1.1\r\nHo"), Host::Unknown);
        assert_eq!(host_in(b"GET / HTTP/1.1\r\nHOST: a:1\r\n\r\n"), Host::Is("a:1".into()));
        assert_eq!(host_in(b"GET / HTTP/1.0\r\n\r\n"), Host::NoRequest);
        assert_eq!(host_in(b"\x16\x03\x01\x02"), Host::NoRequest);
        assert_eq!(host_in(b"*1\r\n$4\r\nPING\r\n"), Host::NoRequest);
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
        ] {
            assert_eq!(is_allowed(host, own), allowed, "{host}");
        }
        assert!(!is_allowed("web.a.shop.localhost", None));
    }
}
