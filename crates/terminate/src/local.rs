//! HTTP on a port of the room itself, answered by a stand-in.

use std::{sync::Arc, time::Duration};

use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::config::HostName;
use hyper::{Request, Response, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    Endpoint,
    body::{self, Body},
    record::Draft,
    secrets::{NoVault, Secrets},
    stand_in::{self, BrokenOff, HeldWhole, StandIn},
};

/// The timeout for the head of a request.
const HEAD: Duration = Duration::from_secs(60);

/// How many requests of one connection are answered concurrently.
const STREAMS: u32 = 16;

/// Serves HTTP only through a stand-in. There is no host behind it, so nothing is dialled and no
/// secret is inserted.
pub struct LocalHttp {
    stand_in: Arc<dyn StandIn>,
    held_whole: HeldWhole,
    secrets: Arc<Secrets>,
}

impl LocalHttp {
    pub fn new(stand_in: Arc<dyn StandIn>) -> Arc<Self> {
        let secrets = Secrets::new(Vec::new(), Arc::new(NoVault));
        Arc::new(Self { stand_in, held_whole: HeldWhole::default(), secrets: Arc::new(secrets) })
    }

    /// Serves one connection until it ends, as a host.
    pub async fn serve<S>(self: &Arc<Self>, client: S, host: &HostName, endpoint: &Endpoint)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let own = (self.clone(), host.clone(), endpoint.clone());
        let service = service_fn(move |request| {
            let (own, host, endpoint) = own.clone();
            async move { own.answer(request, &host, &endpoint).await }
        });
        // gRPC clients start with HTTP/2 directly.
        let mut server = auto::Builder::new(TokioExecutor::new());
        server.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
        server.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
        if let Err(error) = server.serve_connection(TokioIo::new(client), service).await {
            tracing::debug!(%error, "a connection to a port of a room broke off");
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        host: &HostName,
        endpoint: &Endpoint,
    ) -> Result<Response<Body>, BrokenOff> {
        let (parts, incoming) = request.into_parts();
        let Endpoint { name, port, tls, .. } = endpoint;
        let nowhere = Arc::new(|_| {});
        let secrets = self.secrets.clone();
        let draft =
            Draft::begin(&parts, (name, *port, *tls), HostClock.now(), (secrets, nowhere, 0));
        let sent = body::incoming(incoming);
        let place = (host, endpoint, &self.held_whole);
        let played = stand_in::play(&*self.stand_in, place, (parts, sent), &draft).await?;
        Ok(played.unwrap_or_else(|own| own.response(name)))
    }
}
