//! Sinks on ports of a room, for apps whose development config expects one.

use std::{pin::Pin, sync::Arc};

use hothouse_edge::Processes;
use hothouse_model::{
    config::{HostName, SinkRecipe},
    ledger::RoomProcess,
};
use hothouse_sinks::{HostSink, find, traces};
use hothouse_terminate::{Endpoint, LocalHttp, StandIn, StandInAnswer, StandInRequest, Streamed};
use tokio::net::TcpStream;

use super::{LONG_BODY, RunSinks, mail::MailOrder};
use crate::mocks::failed;

/// The sink behind one port of a room.
#[derive(Clone)]
pub(crate) struct LocalSink {
    sinks: Arc<RunSinks>,
    speaks: Speaks,
    /// Identifies the process of a connection.
    room: Option<Arc<dyn Processes>>,
}

/// The protocol of a port.
#[derive(Clone)]
enum Speaks {
    Smtp,
    Http(Arc<LocalHttp>),
    /// No sink accepts it.
    Nothing,
}

impl LocalSink {
    pub(crate) fn new(
        sinks: Arc<RunSinks>,
        takes: SinkRecipe,
        room: Option<Arc<dyn Processes>>,
    ) -> Self {
        let http = |sink: Option<HostSink>| match sink {
            Some(sink) => {
                Speaks::Http(LocalHttp::new(Arc::new(Local { sinks: sinks.clone(), sink })))
            }
            None => Speaks::Nothing,
        };
        // Accepts what the vendor's host accepts, under any host name.
        let speaks = match takes {
            SinkRecipe::Mailbox => Speaks::Smtp,
            SinkRecipe::Errors => http(find("o0.ingest.sentry.io")),
            SinkRecipe::Otel => http(Some(traces::OTLP)),
            SinkRecipe::Objects => {
                Speaks::Http(LocalHttp::new(Arc::new(LocalObjects { sinks: sinks.clone() })))
            }
        };
        Self { sinks, speaks, room }
    }

    /// Serves a connection until it ends; its permit is released then.
    pub(crate) async fn serve(self, client: TcpStream, _permit: impl Send) {
        client.set_nodelay(true).ok();
        let process = self.process(&client).await;
        let port = client.local_addr().map_or(0, |own| own.port());
        let host: HostName = "localhost".parse().expect("a plain name");
        let name = host.to_string();
        match &self.speaks {
            Speaks::Http(http) => {
                let endpoint = Endpoint { name, port, tls: false, process };
                http.serve(client, &host, &endpoint).await;
            }
            Speaks::Smtp => {
                let order = MailOrder {
                    host: name,
                    lmtp: false,
                    tls_first: false,
                    start_tls: None,
                    process,
                };
                if let Err(error) = self.sinks.serve_mail(Box::new(client), order).await {
                    tracing::debug!(%error, "a session of a mail client broke off");
                }
            }
            Speaks::Nothing => client.set_zero_linger().unwrap_or_default(),
        }
    }

    async fn process(&self, client: &TcpStream) -> Option<RoomProcess> {
        let (from, to) = (client.peer_addr().ok()?, client.local_addr().ok()?);
        let room = self.room.clone()?;
        tokio::task::spawn_blocking(move || room.owner(from, to)).await.ok()?
    }
}

/// A single sink, for any host name.
struct Local {
    sinks: Arc<RunSinks>,
    sink: HostSink,
}

impl StandIn for Local {
    fn answers(&self, _host: &HostName) -> bool {
        true
    }

    fn body_limit(&self, _host: &HostName) -> usize {
        LONG_BODY
    }

    fn answer(
        &self,
        request: StandInRequest,
    ) -> Pin<Box<dyn Future<Output = StandInAnswer> + Send + '_>> {
        Box::pin(self.sinks.clone().answer_by(self.sink, request))
    }
}

/// The object store of a sandbox, on a port of its room.
struct LocalObjects {
    sinks: Arc<RunSinks>,
}

impl StandIn for LocalObjects {
    fn answers(&self, _host: &HostName) -> bool {
        true
    }

    fn streamed(&self, _host: &HostName) -> Option<Arc<dyn Streamed>> {
        Some(self.sinks.objects())
    }

    fn answer(
        &self,
        _request: StandInRequest,
    ) -> Pin<Box<dyn Future<Output = StandInAnswer> + Send + '_>> {
        Box::pin(async { failed("objects are taken as they come") })
    }
}
