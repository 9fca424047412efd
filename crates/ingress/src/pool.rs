//! Connections to apps, kept for the next request.

use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hothouse_host::{charged::Charged, paced::Paced, shares::Shares};
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;

use crate::{RoomPort, Rooms, proxy::Body};

/// How many connections to one app are kept.
const KEPT_LIMIT: usize = 256;
/// How long an idle connection is kept. Most servers close theirs after five seconds or more.
const IDLE_TIME: Duration = Duration::from_secs(4);
/// The cost of a connection to an app: a socket.
const COST: u64 = 1;
/// How often an HTTP/2 connection is pinged.
const PING: Duration = Duration::from_secs(20);

/// A request that did not reach its app, or an app that did not answer.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    #[error("connect to the app")]
    Dial(#[source] io::Error),
    #[error("connect to the app: its sandbox has more connections open than its share")]
    Share,
    #[error("send the request to the app")]
    Talk(#[source] hyper::Error),
}

impl UpstreamError {
    /// Describes what the app did instead of answering; the text follows the app's name.
    pub(crate) fn fault(&self) -> &'static str {
        match self {
            Self::Dial(_) => "does not answer",
            Self::Share => "has more connections open than the share of its sandbox",
            Self::Talk(error) if error.is_parse_too_large() => {
                "answers with a response head that is too long"
            }
            Self::Talk(error) if error.is_parse() => "answers with something that is not HTTP",
            Self::Talk(_) => "closed the connection before it answered",
        }
    }
}

/// A connection, idle or busy: it is busy while its answer is read.
struct Kept {
    sender: http1::SendRequest<Body>,
    since: Instant,
}

/// The connections of all apps.
pub struct Pool {
    rooms: Arc<dyn Rooms>,
    shares: Arc<Shares>,
    kept: Mutex<HashMap<RoomPort, VecDeque<Kept>>>,
    /// One connection per app that speaks HTTP/2, for all its streams.
    shared: Mutex<HashMap<RoomPort, http2::SendRequest<Body>>>,
}

impl Pool {
    /// Creates an empty pool.
    pub fn new(rooms: Arc<dyn Rooms>, shares: Arc<Shares>) -> Arc<Self> {
        Arc::new(Self { rooms, shares, kept: Mutex::default(), shared: Mutex::default() })
    }

    /// Sends a request over HTTP/1.1, on an idle connection or a new one.
    ///
    /// The app may have closed an idle connection; the request is then repeated on a new one if
    /// none of it was sent.
    pub async fn send(
        &self,
        (id, target): (&str, &RoomPort),
        request: Request<Body>,
    ) -> Result<Response<Incoming>, UpstreamError> {
        let mut request = request;
        while let Some(mut sender) = self.take(target) {
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.keep(target, sender, &response);
                    return Ok(response);
                }
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(UpstreamError::Talk(error.into_error())),
                },
            }
        }
        let mut sender = self.connect(id, target).await?;
        let response = sender.send_request(request).await.map_err(UpstreamError::Talk)?;
        self.keep(target, sender, &response);
        Ok(response)
    }

    /// Sends a request on its own connection, which may be upgraded.
    pub async fn send_alone(
        &self,
        (id, target): (&str, &RoomPort),
        request: Request<Body>,
    ) -> Result<Response<Incoming>, UpstreamError> {
        let mut sender = self.connect(id, target).await?;
        sender.send_request(request).await.map_err(UpstreamError::Talk)
    }

    /// Sends a request over HTTP/2 without TLS, as gRPC servers expect, on the one connection that
    /// all requests to this app share.
    pub async fn send_http2(
        &self,
        (id, target): (&str, &RoomPort),
        request: Request<Body>,
    ) -> Result<Response<Incoming>, UpstreamError> {
        let mut request = request;
        if let Some(mut sender) = self.share(target)
            && sender.ready().await.is_ok()
        {
            match sender.try_send_request(request).await {
                Ok(response) => return Ok(response),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(UpstreamError::Talk(error.into_error())),
                },
            }
        }
        let stream = self.dial(id, target).await?;
        let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING)
            .handshake(TokioIo::new(Paced::new(stream)))
            .await
            .map_err(UpstreamError::Talk)?;
        tokio::spawn(async move {
            // It ends with the last stream, which has reported any error.
            connection.await.ok();
        });
        self.shared().insert(target.clone(), sender.clone());
        sender.send_request(request).await.map_err(UpstreamError::Talk)
    }

    fn share(&self, target: &RoomPort) -> Option<http2::SendRequest<Body>> {
        self.shared().get(target).filter(|sender| !sender.is_closed()).cloned()
    }

    /// Connects within the share of a sandbox, by its public id: over HTTP/2 one client may need many
    /// connections.
    async fn dial(&self, id: &str, target: &RoomPort) -> Result<Charged<TcpStream>, UpstreamError> {
        let permit = self.shares.of(id).take(COST).ok_or(UpstreamError::Share)?;
        let stream = self.rooms.dial(target).await.map_err(UpstreamError::Dial)?;
        stream.set_nodelay(true).ok();
        Ok(Charged::new(stream, permit))
    }

    async fn connect(
        &self,
        id: &str,
        target: &RoomPort,
    ) -> Result<http1::SendRequest<Body>, UpstreamError> {
        let stream = self.dial(id, target).await?;
        // Some old servers accept `Content-Length` but not `content-length`.
        let (sender, connection) = http1::Builder::new()
            .title_case_headers(true)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(UpstreamError::Talk)?;
        tokio::spawn(async move {
            connection.with_upgrades().await.ok();
        });
        Ok(sender)
    }

    /// Takes the connection that has been idle longest: newer ones may still be busy.
    fn take(&self, target: &RoomPort) -> Option<http1::SendRequest<Body>> {
        let mut kept = self.kept();
        let waiting = kept.get_mut(target)?;
        for _ in 0..waiting.len() {
            let Kept { sender, since } = waiting.pop_front()?;
            match () {
                () if sender.is_closed() => {}
                () if !sender.is_ready() => waiting.push_back(Kept { sender, since }),
                () if since.elapsed() < IDLE_TIME => return Some(sender),
                () => {}
            }
        }
        None
    }

    /// Keeps a connection, even while its answer is read. If dropped meanwhile, it closes after its
    /// answer.
    fn keep(
        &self,
        target: &RoomPort,
        sender: http1::SendRequest<Body>,
        response: &Response<Incoming>,
    ) {
        if response.status() == hyper::StatusCode::SWITCHING_PROTOCOLS || sender.is_closed() {
            return;
        }
        let mut kept = self.kept();
        let entry = Kept { sender, since: Instant::now() };
        match kept.get_mut(target) {
            Some(waiting) if waiting.len() < KEPT_LIMIT => waiting.push_back(entry),
            Some(_) => {}
            None => {
                kept.insert(target.clone(), VecDeque::from([entry]));
            }
        }
    }

    /// Closes connections that were idle too long.
    pub fn sweep(&self) {
        self.kept().retain(|_, waiting| {
            waiting.retain(|kept| kept.since.elapsed() < IDLE_TIME && !kept.sender.is_closed());
            !waiting.is_empty()
        });
        self.shared().retain(|_, sender| !sender.is_closed());
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<RoomPort, VecDeque<Kept>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shared(&self) -> MutexGuard<'_, HashMap<RoomPort, http2::SendRequest<Body>>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::{Route, Sendable, Told};

    /// Rooms whose apps all listen on one port.
    struct OnePort(u16);

    impl Rooms for OnePort {
        fn dial<'a>(&'a self, _: &'a RoomPort) -> Sendable<'a, io::Result<TcpStream>> {
            Box::pin(TcpStream::connect(("127.0.0.1", self.0)))
        }

        fn wake<'a>(&'a self, _: &'a str, _: &'a str) -> Sendable<'a, Result<RoomPort, String>> {
            Box::pin(std::future::ready(Err("nobody sleeps".into())))
        }

        fn explain<'a>(&'a self, _: &'a Route) -> Sendable<'a, Told> {
            Box::pin(std::future::ready(Told::default()))
        }
    }

    #[tokio::test]
    async fn requests_to_an_app_open_no_more_than_the_share_of_its_sandbox() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let pool = Pool::new(Arc::new(OnePort(port)), Shares::new(64));
        let target = RoomPort { runtime: "/nowhere".into(), port };
        let mut open = Vec::new();
        let refused = loop {
            match pool.connect("a", &target).await {
                Ok(sender) => open.push(sender),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, UpstreamError::Share), "{refused}");
        assert_eq!(open.len(), 12, "a quarter of 48");
        assert!(pool.connect("b", &target).await.is_ok(), "another sandbox has its own");
        drop(open);
        while pool.connect("a", &target).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
}
