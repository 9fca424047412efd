//! The listeners: TLS for requests, plain HTTP to send clients there.

use std::{
    convert::Infallible,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, RwLock},
    time::Duration,
};

use hyper::{Request, Response, body::Incoming, header, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    Authority, Rooms, RouteTable, authority, pages,
    pool::Pool,
    proxy::{Body, Connection, OwnPages, Proxy},
};

/// How long a client may take to greet, and to send the head of a request.
const PATIENCE: Duration = Duration::from_secs(15);

/// The ports to try, the best first.
#[derive(Clone, Debug)]
pub struct Ports {
    pub tls: Vec<u16>,
    pub plain: Vec<u16>,
}

impl Ports {
    /// Those that browsers need no number for, then those that need no privilege, then any.
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

/// What a server is made of.
pub struct ServerSpec {
    pub ports: Ports,
    pub authority: Arc<Authority>,
    pub rooms: Arc<dyn Rooms>,
    pub own: Arc<dyn OwnPages>,
}

/// A server that did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("open a port of the loopback for URLs")]
    Bind(#[source] io::Error),
    #[error("prepare TLS")]
    Tls(#[source] io::Error),
}

/// A server that runs until it is dropped.
pub struct Server {
    /// The port of `https` URLs.
    pub port: u16,
    /// The port that sends clients there.
    pub plain_port: u16,
    table: Arc<RwLock<Arc<RouteTable>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Opens the ports and begins to serve.
    pub async fn start(spec: ServerSpec) -> Result<Self, ServerError> {
        let (port, tls) = bind_first(&spec.ports.tls).await.map_err(ServerError::Bind)?;
        let (plain_port, plain) = bind_first(&spec.ports.plain).await.map_err(ServerError::Bind)?;
        let config = authority::server_config(spec.authority).map_err(ServerError::Tls)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let table: Arc<RwLock<Arc<RouteTable>>> = Arc::default();
        let pool = Pool::new(spec.rooms.clone());
        let proxy = Arc::new(Proxy {
            table: table.clone(),
            pool: pool.clone(),
            rooms: spec.rooms,
            own: spec.own,
        });
        let mut tasks = JoinSet::new();
        for listener in tls {
            tasks.spawn(serve_tls(listener, acceptor.clone(), proxy.clone(), port));
        }
        for listener in plain {
            tasks.spawn(serve_plain(listener, port));
        }
        tasks.spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(5)).await;
                pool.sweep();
            }
        });
        Ok(Self { port, plain_port, table, _tasks: tasks })
    }

    /// Replaces the routes.
    pub fn set_routes(&self, table: RouteTable) {
        if let Ok(mut current) = self.table.write() {
            *current = Arc::new(table);
        }
    }
}

/// Opens the first port that is free, on both loopbacks where there are two.
async fn bind_first(ports: &[u16]) -> io::Result<(u16, Vec<TcpListener>)> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for port in ports {
        match TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, *port))).await {
            Ok(listener) => {
                let port = listener.local_addr()?.port();
                let mut all = vec![listener];
                // A host without IPv6, or where somebody else has that port: one loopback will do.
                let second = TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).await;
                all.extend(second);
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
            // Out of descriptors, most likely: others must end first.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn serve_tls(listener: TcpListener, acceptor: TlsAcceptor, proxy: Arc<Proxy>, port: u16) {
    loop {
        let (stream, peer) = accept(&listener).await;
        let (acceptor, proxy) = (acceptor.clone(), proxy.clone());
        tokio::spawn(async move {
            stream.set_nodelay(true).ok();
            let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await
            else {
                return;
            };
            let server_name = stream.get_ref().1.server_name().map(str::to_owned);
            let from = Arc::new(Connection { peer, server_name, port });
            let service = service_fn(move |request: Request<Incoming>| {
                let (proxy, from) = (proxy.clone(), from.clone());
                async move { Ok::<_, Infallible>(proxy.answer(request, &from).await) }
            });
            let served =
                builder().serve_connection_with_upgrades(TokioIo::new(stream), service).await;
            if let Err(error) = served {
                tracing::debug!(%error, "a connection broke off");
            }
        });
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(256 << 10)
        .preserve_header_case(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .enable_connect_protocol()
        .max_concurrent_streams(256)
        .max_header_list_size(64 << 10)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    builder
}

/// Sends every request to the same address with TLS.
async fn serve_plain(listener: TcpListener, port: u16) {
    loop {
        let (stream, _) = accept(&listener).await;
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| async move {
                Ok::<_, Infallible>(to_tls(&request, port))
            });
            builder().serve_connection(TokioIo::new(stream), service).await.ok();
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
        _ => pages::plain(hyper::StatusCode::NOT_FOUND, "this is not a host of Hothouse"),
    }
}
