//! The listeners: TLS for requests, plain HTTP to send clients there.
//!
//! Everything runs on one thread of its own: crossing threads costs more than the request itself.

use std::{
    convert::Infallible,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener, TcpStream as StdStream},
    sync::{Arc, RwLock},
    thread,
    time::Duration,
};

use hothouse_host::{
    shares::{RoomShare, Shares},
    socket,
};
use hyper::{
    Request, Response,
    body::Incoming,
    header,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::{Builder, Handle},
    sync::oneshot,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    CertificateAuthority, Rooms, RouteTable, ca, pages,
    pool::Pool,
    proxy::{Body, Connection, OwnPages, Proxy},
};

/// How long a client may take for the TLS handshake, and for the head of a request.
const PATIENCE: Duration = Duration::from_secs(15);

/// The cost of a client's connection: a socket. Connections to apps are counted separately.
const COST: u64 = 1;

/// How often idle connections are closed.
const SWEEP: Duration = Duration::from_secs(5);

/// The ports to try, the best first.
#[derive(Clone, Debug)]
pub struct Ports {
    pub tls: Vec<u16>,
    pub plain: Vec<u16>,
}

impl Ports {
    /// Returns the default ports of URLs, then unprivileged ones, then any.
    pub fn usual() -> Self {
        Self { tls: vec![443, 8443, 0], plain: vec![80, 8080, 0] }
    }

    /// Tries remembered ports before the others.
    pub fn preferring(mut self, tls: Option<u16>, plain: Option<u16>) -> Self {
        self.tls.splice(0..0, tls);
        self.plain.splice(0..0, plain);
        self
    }
}

/// The parameters of a server.
pub struct ServerSpec {
    pub ports: Ports,
    pub ca: Arc<CertificateAuthority>,
    pub rooms: Arc<dyn Rooms>,
    pub own: Arc<dyn OwnPages>,
    pub shares: Arc<Shares>,
}

/// A server that did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("listen on a loopback port for URLs")]
    Bind(#[source] io::Error),
    #[error("prepare TLS")]
    Tls(#[source] io::Error),
    #[error("start the router's thread")]
    Thread(#[source] io::Error),
}

/// A server that runs until it is dropped.
pub struct Server {
    /// The port of `https` URLs.
    pub port: u16,
    /// The port that redirects to it.
    pub plain_port: u16,
    table: Arc<RwLock<Arc<RouteTable>>>,
    desk: Arc<Desk>,
    handle: Handle,
    /// server --dropped--> its thread, which ends
    _end_tx: oneshot::Sender<()>,
}

/// What all connections share.
struct Desk {
    acceptor: TlsAcceptor,
    proxy: Proxy,
    port: u16,
}

impl Server {
    /// Opens the ports and starts to serve.
    pub fn start(spec: ServerSpec) -> Result<Self, ServerError> {
        let (port, tls) = bind_first(&spec.ports.tls).map_err(ServerError::Bind)?;
        let (plain_port, plain) = bind_first(&spec.ports.plain).map_err(ServerError::Bind)?;
        let config = ca::server_config(spec.ca).map_err(ServerError::Tls)?;
        let table: Arc<RwLock<Arc<RouteTable>>> = Arc::default();
        let desk = Arc::new(Desk {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            proxy: Proxy {
                table: table.clone(),
                pool: Pool::new(spec.rooms.clone(), spec.shares.clone()),
                rooms: spec.rooms,
                own: spec.own,
            },
            port,
        });
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(ServerError::Thread)?;
        let handle = runtime.handle().clone();
        let (end_tx, end_rx) = oneshot::channel();
        // Clients of the host are counted as if they were a room.
        let share = spec.shares.of("");
        let serving = serve(desk.clone(), tls, plain, share);
        let body = move || {
            runtime.block_on(async move {
                tokio::select! {
                    _ = end_rx => {}
                    served = serving => tracing::error!(?served, "the router ended"),
                }
            });
            runtime.shutdown_background();
        };
        thread::Builder::new().name("router".into()).spawn(body).map_err(ServerError::Thread)?;
        Ok(Self { port, plain_port, table, desk, handle, _end_tx: end_tx })
    }

    /// Replaces the routes.
    pub fn set_routes(&self, table: RouteTable) {
        if let Ok(mut current) = self.table.write()
            && **current != table
        {
            *current = Arc::new(table);
        }
    }

    /// Serves a connection from inside the room of a sandbox, which sees only itself.
    pub fn serve_room(&self, stream: StdStream, id: String, permit: impl Send + 'static) {
        let desk = self.desk.clone();
        self.handle.spawn(async move {
            if let Ok(stream) = TcpStream::from_std(stream) {
                let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                serve_stream(&desk, stream, peer, Some(id)).await;
            }
            drop(permit);
        });
    }
}

async fn serve(
    desk: Arc<Desk>,
    tls: Vec<StdListener>,
    plain: Vec<StdListener>,
    share: RoomShare,
) -> io::Result<()> {
    for listener in tls {
        tokio::spawn(serve_tls(TcpListener::from_std(listener)?, desk.clone(), share.clone()));
    }
    for listener in plain {
        tokio::spawn(serve_plain(TcpListener::from_std(listener)?, desk.port, share.clone()));
    }
    loop {
        tokio::time::sleep(SWEEP).await;
        desk.proxy.pool.sweep();
    }
}

/// Listens on the first free port, on both loopback addresses if there are two.
fn bind_first(ports: &[u16]) -> io::Result<(u16, Vec<StdListener>)> {
    let bind = |address: SocketAddr| {
        let listener = StdListener::bind(address)?;
        socket::lengthen_queue(&listener)?;
        listener.set_nonblocking(true)?;
        Ok::<_, io::Error>(listener)
    };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for port in ports {
        match bind(SocketAddr::from((Ipv4Addr::LOCALHOST, *port))) {
            Ok(listener) => {
                let port = listener.local_addr()?.port();
                let mut all = vec![listener];
                // Without IPv6, or if that port is taken there, one loopback address is enough.
                all.extend(bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port))));
                return Ok((port, all));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // Most likely out of file descriptors: other connections must end first.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn serve_tls(listener: TcpListener, desk: Arc<Desk>, share: RoomShare) {
    loop {
        let (stream, peer) = accept(&listener).await;
        let Some(permit) = share.take(COST) else {
            stream.set_zero_linger().ok();
            continue;
        };
        let desk = desk.clone();
        tokio::spawn(async move {
            serve_stream(&desk, stream, peer, None).await;
            drop(permit);
        });
    }
}

/// Serves one connection to its end.
async fn serve_stream(desk: &Arc<Desk>, stream: TcpStream, peer: SocketAddr, room: Option<String>) {
    stream.set_nodelay(true).ok();
    let greeting = tokio::time::timeout(PATIENCE, desk.acceptor.accept(stream));
    let Ok(Ok(stream)) = greeting.await else { return };
    let (_, session) = stream.get_ref();
    let server_name = session.server_name().map(str::to_owned);
    let two = session.alpn_protocol() == Some(b"h2");
    let from = Arc::new(Connection::new(peer, server_name, desk.port, room));
    let desk = desk.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (desk, from) = (desk.clone(), from.clone());
        async move { Ok::<_, Infallible>(desk.proxy.answer(request, &from).await) }
    });
    let stream: TokioIo<TlsStream<TcpStream>> = TokioIo::new(stream);
    let served = match two {
        true => second().serve_connection(stream, service).await,
        false => first().serve_connection(stream, service).with_upgrades().await,
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection failed");
    }
}

/// Returns the settings for HTTP/1.1.
fn first() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(256 << 10);
    builder
}

/// Returns the settings for HTTP/2.
fn second() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .enable_connect_protocol()
        .max_concurrent_streams(256)
        .max_header_list_size(64 << 10)
        .max_send_buf_size(64 << 10)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    builder
}

/// Redirects every request to the same URL with TLS.
async fn serve_plain(listener: TcpListener, port: u16, share: RoomShare) {
    loop {
        let (stream, _) = accept(&listener).await;
        let Some(permit) = share.take(COST) else {
            stream.set_zero_linger().ok();
            continue;
        };
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| async move {
                Ok::<_, Infallible>(to_tls(&request, port))
            });
            first().serve_connection(TokioIo::new(stream), service).await.ok();
            drop(permit);
        });
    }
}

fn to_tls<B>(request: &Request<B>, port: u16) -> Response<Body> {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    match host.map(crate::names::parse) {
        Some(Ok(address)) => {
            let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
            let to = format!("https://{address}{}{path}", pages::shown_port(port));
            let mut response = pages::redirect(&to, None);
            *response.status_mut() = hyper::StatusCode::PERMANENT_REDIRECT;
            response
        }
        _ => pages::plain(hyper::StatusCode::NOT_FOUND, "no running app at this address"),
    }
}
