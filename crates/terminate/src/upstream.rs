//! The connections to a host, on behalf of one client connection.
//!
//! A client of HTTP/1.1 gets HTTP/1.1 to the host, a client of HTTP/2 gets HTTP/2 if the host
//! supports it. So streaming, trailers and upgrades mean the same on both sides.

use std::{
    future::Future,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hothouse_host::paced::Paced;
use hyper::{
    Request, Response, Uri, Version,
    body::Incoming,
    client::conn::{http1, http2},
    header::{self, HeaderValue},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use crate::{
    Endpoint,
    body::Body,
    idle::{IdlePool, Owner},
};

/// The timeout for connecting and the TLS handshake together.
const PATIENCE: Duration = Duration::from_secs(20);

/// Connects to a host, at addresses that the caller has allowed.
pub trait Upstream: Clone + Send + Sync + 'static {
    /// A connection, with everything that is released when it ends.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Opens a connection.
    fn dial(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// A request that did not reach its host, or a host that did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamError {
    #[error("connect to the host")]
    Dial(#[source] io::Error),
    #[error("TLS handshake with the host")]
    Tls(#[source] io::Error),
    #[error("the host did not answer within {} seconds", PATIENCE.as_secs())]
    TooSlow,
    #[error("exchange with the host")]
    Talk(#[source] hyper::Error),
}

/// The requested version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Http1,
    /// HTTP/2 if the host supports it.
    Http2,
}

/// TLS settings for verifying hosts.
pub(crate) struct ClientTls {
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
}

impl ClientTls {
    pub(crate) fn new(roots: Arc<RootCertStore>) -> io::Result<Self> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut http1 = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut http2 = http1.clone();
        http1.alpn_protocols = vec![b"http/1.1".to_vec()];
        http2.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { http1: Arc::new(http1), http2: Arc::new(http2) })
    }
}

/// Parses the certificates of a PEM bundle; invalid ones are skipped.
pub fn roots_of(bundle: &[u8]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(bundle).flatten());
    roots
}

/// Idle HTTP/1.1 connections.
pub(crate) type Idle = IdlePool<http1::SendRequest<Body>>;

/// The connections to one host.
pub(crate) struct Upstreams<U: Upstream> {
    upstream: U,
    target: Endpoint,
    tls: Option<Arc<ClientTls>>,
    idle: Arc<Idle>,
    owner: Owner,
    http2: tokio::sync::Mutex<Option<http2::SendRequest<Body>>>,
    only_http1: AtomicBool,
    /// A weak reference to this shows whether the client has left.
    here: Arc<()>,
}

impl<U: Upstream> Upstreams<U> {
    pub(crate) fn new(
        upstream: U,
        target: Endpoint,
        tls: Option<Arc<ClientTls>>,
        idle: Arc<Idle>,
    ) -> Self {
        Self {
            owner: idle.owner(),
            idle,
            upstream,
            target,
            tls,
            http2: tokio::sync::Mutex::default(),
            only_http1: AtomicBool::new(false),
            here: Arc::default(),
        }
    }

    /// Sends a request.
    pub(crate) async fn send(
        &self,
        request: Request<Body>,
        wanted: Wanted,
    ) -> Result<Response<Incoming>, UpstreamError> {
        if wanted == Wanted::Http2
            && !self.only_http1.load(Ordering::Relaxed)
            && let Some(mut sender) = self.http2_sender().await?
        {
            let request = self.as_http2(request);
            return sender.send_request(request).await.map_err(UpstreamError::Talk);
        }
        self.send_http1(self.as_http1(request)).await
    }

    /// Sends a request on its own connection, which may be upgraded.
    pub(crate) async fn send_alone(
        &self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, UpstreamError> {
        let mut sender = self.connect_http1().await?;
        sender.send_request(request).await.map_err(UpstreamError::Talk)
    }

    async fn send_http1(
        &self,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, UpstreamError> {
        while let Some(mut sender) = self.take() {
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.keep_when_done(sender);
                    return Ok(response);
                }
                // It was closed while idle, and nothing of the request was sent.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(UpstreamError::Talk(error.into_error())),
                },
            }
        }
        let mut sender = self.connect_http1().await?;
        let response = sender.send_request(request).await.map_err(UpstreamError::Talk)?;
        self.keep_when_done(sender);
        Ok(response)
    }

    /// Returns the HTTP/2 connection, opening it on first use; `None` if the host does not support
    /// it.
    async fn http2_sender(&self) -> Result<Option<http2::SendRequest<Body>>, UpstreamError> {
        let Some(tls) = &self.tls else {
            return Ok(None);
        };
        let mut known = self.http2.lock().await;
        if let Some(sender) = known.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(Some(sender.clone()));
        }
        let stream = self.within(self.connect_tls(tls.http2.clone())).await?;
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            self.only_http1.store(true, Ordering::Relaxed);
            let sender = handshake_http1(stream).await?;
            self.idle.put(self.owner, sender);
            return Ok(None);
        }
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            // Fixed, because whatever a host may send in advance takes up our memory; large enough for distant hosts.
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(1 << 20)
            .max_send_buf_size(64 << 10)
            .max_header_list_size(64 << 10)
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .handshake(TokioIo::new(Paced::new(stream)))
            .await
            .map_err(UpstreamError::Talk)?;
        tokio::spawn(async move {
            // It ends with the last stream, which has already received any error.
            connection.await.ok();
        });
        *known = Some(sender.clone());
        Ok(Some(sender))
    }

    async fn connect_http1(&self) -> Result<http1::SendRequest<Body>, UpstreamError> {
        match &self.tls {
            Some(tls) => {
                let stream = self.within(self.connect_tls(tls.http1.clone())).await?;
                handshake_http1(stream).await
            }
            None => handshake_http1(self.within(self.dial()).await?).await,
        }
    }

    async fn dial(&self) -> Result<U::Stream, UpstreamError> {
        self.upstream.dial().await.map_err(UpstreamError::Dial)
    }

    async fn connect_tls(
        &self,
        config: Arc<ClientConfig>,
    ) -> Result<tokio_rustls::client::TlsStream<U::Stream>, UpstreamError> {
        let stream = self.dial().await?;
        let name = ServerName::try_from(self.target.name.clone())
            .map_err(|error| UpstreamError::Tls(io::Error::other(error)))?;
        TlsConnector::from(config).connect(name, stream).await.map_err(UpstreamError::Tls)
    }

    async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, UpstreamError>>,
    ) -> Result<T, UpstreamError> {
        tokio::time::timeout(PATIENCE, work).await.unwrap_or(Err(UpstreamError::TooSlow))
    }

    fn take(&self) -> Option<http1::SendRequest<Body>> {
        std::iter::from_fn(|| self.idle.take(self.owner)).find(|sender| !sender.is_closed())
    }

    /// Returns a connection to the pool once its response was read to the end.
    fn keep_when_done(&self, mut sender: http1::SendRequest<Body>) {
        let (idle, owner) = (Arc::downgrade(&self.idle), self.owner);
        let here = Arc::downgrade(&self.here);
        tokio::spawn(async move {
            if sender.ready().await.is_ok()
                && let (Some(idle), Some(_)) = (idle.upgrade(), here.upgrade())
            {
                idle.put(owner, sender);
            }
        });
    }

    /// Returns the host as it appears in a request.
    pub(crate) fn authority(&self) -> String {
        let usual = if self.target.tls { 443 } else { 80 };
        match self.target.port {
            port if port == usual => self.target.name.clone(),
            port => format!("{}:{port}", self.target.name),
        }
    }

    pub(crate) fn as_http1<B>(&self, request: Request<B>) -> Request<B> {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        parts.uri = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
        parts.version = Version::HTTP_11;
        if let Ok(host) = HeaderValue::from_str(&self.authority()) {
            parts.headers.insert(header::HOST, host);
        }
        // HTTP/2 may send cookies separately (RFC 9113, section 8.2.3).
        let cookies: Vec<_> = parts.headers.get_all(header::COOKIE).iter().cloned().collect();
        if cookies.len() > 1 {
            let joined: Vec<_> = cookies.iter().map(HeaderValue::as_bytes).collect();
            if let Ok(joined) = HeaderValue::from_bytes(&joined.join(&b"; "[..])) {
                parts.headers.insert(header::COOKIE, joined);
            }
        }
        Request::from_parts(parts, body)
    }

    fn as_http2<B>(&self, request: Request<B>) -> Request<B> {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let uri =
            Uri::builder().scheme("https").authority(self.authority()).path_and_query(path).build();
        parts.uri = uri.unwrap_or(parts.uri);
        parts.version = Version::HTTP_2;
        parts.headers.remove(header::HOST);
        Request::from_parts(parts, body)
    }
}

impl<U: Upstream> Drop for Upstreams<U> {
    fn drop(&mut self) {
        self.idle.forget(self.owner);
    }
}

async fn handshake_http1<S>(stream: S) -> Result<http1::SendRequest<Body>, UpstreamError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
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
