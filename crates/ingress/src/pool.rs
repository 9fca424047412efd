//! Connections to apps, kept for the next request.

use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use crate::{RoomPort, Rooms, proxy::Body};

/// How many connections to one app are kept.
const KEPT_LIMIT: usize = 256;
/// How long an idle connection is kept. Most servers close theirs after five seconds or more.
const IDLE_TIME: Duration = Duration::from_secs(4);
/// How often an HTTP/2 connection is pinged.
const PING: Duration = Duration::from_secs(20);

/// A request that did not reach its app, or an app that did not answer.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    #[error("connect to the app")]
    Dial(#[source] io::Error),
    #[error("send the request to the app")]
    Talk(#[source] hyper::Error),
}

impl UpstreamError {
    /// Describes what the app did instead of answering; the text follows the app's name.
    pub(crate) fn fault(&self) -> &'static str {
        match self {
            Self::Dial(_) => "does not answer",
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
    kept: Mutex<HashMap<RoomPort, VecDeque<Kept>>>,
    /// One connection per app that speaks HTTP/2, for all its streams.
    shared: Mutex<HashMap<RoomPort, http2::SendRequest<Body>>>,
}

impl Pool {
    /// Makes an empty pool.
    pub fn new(rooms: Arc<dyn Rooms>) -> Arc<Self> {
        Arc::new(Self { rooms, kept: Mutex::default(), shared: Mutex::default() })
    }

    /// Sends a request over HTTP/1.1, on an idle connection or a new one.
    ///
    /// The app may have closed an idle connection; the request is then repeated on a new one if
    /// none of it was sent.
    pub async fn send(
        &self,
        target: &RoomPort,
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
        let mut sender = self.connect(target).await?;
        let response = sender.send_request(request).await.map_err(UpstreamError::Talk)?;
        self.keep(target, sender, &response);
        Ok(response)
    }

    /// Sends a request on its own connection, which may be upgraded.
    pub async fn send_alone(
        &self,
        target: &RoomPort,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, UpstreamError> {
        let mut sender = self.connect(target).await?;
        sender.send_request(request).await.map_err(UpstreamError::Talk)
    }

    /// Sends a request over HTTP/2 without TLS, as gRPC servers expect, on the one connection that
    /// all requests to this app share.
    pub async fn send_http2(
        &self,
        target: &RoomPort,
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
        let stream = self.rooms.dial(target).await.map_err(UpstreamError::Dial)?;
        stream.set_nodelay(true).ok();
        let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING)
            .handshake(TokioIo::new(stream))
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

    async fn connect(&self, target: &RoomPort) -> Result<http1::SendRequest<Body>, UpstreamError> {
        let stream = self.rooms.dial(target).await.map_err(UpstreamError::Dial)?;
        stream.set_nodelay(true).ok();
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
