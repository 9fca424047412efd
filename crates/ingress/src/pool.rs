//! Connections to apps, kept for the next request.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::{Rooms, Target, proxy::Body};

/// How many connections to one app wait for work.
const IDLE_LIMIT: usize = 128;
/// How long one waits. Most servers close after five seconds or more.
const IDLE_TIME: Duration = Duration::from_secs(4);

/// A request that did not reach its app, or an app that did not answer.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    #[error("connect to the app")]
    Dial(#[source] io::Error),
    #[error("talk to the app")]
    Talk(#[source] hyper::Error),
}

struct Idle {
    sender: http1::SendRequest<Body>,
    since: Instant,
}

/// The connections of all apps.
pub struct Pool {
    rooms: Arc<dyn Rooms>,
    idle: Mutex<HashMap<Target, Vec<Idle>>>,
}

impl Pool {
    /// Makes an empty pool.
    pub fn new(rooms: Arc<dyn Rooms>) -> Arc<Self> {
        Arc::new(Self { rooms, idle: Mutex::default() })
    }

    /// Sends a request over HTTP/1.1, on a connection that waits or on a new one.
    ///
    /// One that waited may have been closed meanwhile; then the request, if none of it was sent, is
    /// sent again on a new one.
    pub async fn send(
        self: &Arc<Self>,
        target: &Target,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, UpstreamError> {
        let mut request = request;
        while let Some(mut sender) = self.take(target) {
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.keep_when_done(target, sender, &response);
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
        self.keep_when_done(target, sender, &response);
        Ok(response)
    }

    /// Sends a request on a connection of its own, which may become something else than HTTP.
    pub async fn send_alone(
        &self,
        target: &Target,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, UpstreamError> {
        let mut sender = self.connect(target).await?;
        sender.send_request(request).await.map_err(UpstreamError::Talk)
    }

    /// Sends a request over HTTP/2 without TLS, as gRPC servers want it.
    pub async fn send_http2(
        &self,
        target: &Target,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, UpstreamError> {
        let stream = self.rooms.dial(target).await.map_err(UpstreamError::Dial)?;
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(UpstreamError::Talk)?;
        tokio::spawn(async move {
            // It ends with the last stream; what went wrong, the stream has been told.
            connection.await.ok();
        });
        sender.send_request(request).await.map_err(UpstreamError::Talk)
    }

    async fn connect(&self, target: &Target) -> Result<http1::SendRequest<Body>, UpstreamError> {
        let stream = self.rooms.dial(target).await.map_err(UpstreamError::Dial)?;
        stream.set_nodelay(true).ok();
        let (sender, connection) = http1::Builder::new()
            .preserve_header_case(true)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(UpstreamError::Talk)?;
        tokio::spawn(async move {
            connection.with_upgrades().await.ok();
        });
        Ok(sender)
    }

    fn take(&self, target: &Target) -> Option<http1::SendRequest<Body>> {
        let mut idle = self.idle();
        let waiting = idle.get_mut(target)?;
        while let Some(Idle { sender, since }) = waiting.pop() {
            if since.elapsed() < IDLE_TIME && !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }

    /// Keeps a connection once its answer is read to the end.
    fn keep_when_done(
        self: &Arc<Self>,
        target: &Target,
        mut sender: http1::SendRequest<Body>,
        response: &Response<Incoming>,
    ) {
        if response.status() == hyper::StatusCode::SWITCHING_PROTOCOLS {
            return;
        }
        let (pool, target) = (self.clone(), target.clone());
        tokio::spawn(async move {
            if sender.ready().await.is_ok() {
                pool.put(target, sender);
            }
        });
    }

    fn put(&self, target: Target, sender: http1::SendRequest<Body>) {
        let mut idle = self.idle();
        let waiting = idle.entry(target).or_default();
        if waiting.len() < IDLE_LIMIT {
            waiting.push(Idle { sender, since: Instant::now() });
        }
    }

    /// Closes what waited too long.
    pub fn sweep(&self) {
        self.idle().retain(|_, waiting| {
            waiting.retain(|idle| idle.since.elapsed() < IDLE_TIME && !idle.sender.is_closed());
            !waiting.is_empty()
        });
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, HashMap<Target, Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
