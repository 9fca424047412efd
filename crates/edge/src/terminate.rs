//! The interface to the terminator of TLS connections.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use hothouse_host::charged::Charged;
use hothouse_model::{
    config::{HostName, IntegrationClass},
    ledger::{RequestBodies, RoomProcess},
    policy::{Answerer, RequestLine},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::Sleep,
};

use crate::{RoomEdge, Sendable, pace::Paced};

/// Terminates connections to hosts that the config marks as mocked, recorded or secret-bearing.
pub trait Terminate: Send + Sync {
    /// Returns whether a host must be terminated.
    fn covers(&self, name: &str, port: u16) -> bool;

    /// Returns the hosts that are named exactly, whose addresses can be looked up in advance.
    fn names(&self) -> Vec<HostName>;

    /// Admits or refuses a request to a terminated host. Connections that were opened with an
    /// earlier terminator ask the current one.
    fn admits(
        &self,
        name: &HostName,
        port: u16,
        line: &RequestLine<'_>,
        by: Answerer,
    ) -> Result<(), String>;

    /// Serves one allowed connection, until it ends.
    fn serve(&self, client: Rewound, target: Endpoint, dial: Dial, note: Note) -> Sendable<'_, ()>;

    /// Serves one allowed connection to a mail server, until it ends. Without a mail sink it is
    /// closed immediately.
    fn serve_mail(&self, client: Rewound, _target: Endpoint) -> Sendable<'_, ()> {
        drop(client);
        Box::pin(std::future::ready(()))
    }
}

/// The destination of a terminated connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub name: String,
    pub port: u16,
    pub tls: bool,
    /// The process in the room that connected, if known and answered here.
    pub process: Option<RoomProcess>,
}

/// Connects to the host, at addresses that the policy allows, and within the room's share: one
/// connection of a client may need many.
pub type Dial = Arc<dyn Fn() -> Sendable<'static, io::Result<Charged<TcpStream>>> + Send + Sync>;

/// Records one request.
pub type Note = Arc<dyn Fn(RequestNote) + Send + Sync>;

/// A request that was seen by the terminator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestNote {
    pub method: String,
    pub path: String,
    pub status: Option<u16>,
    pub sent: u64,
    pub received: u64,
    pub duration: Duration,
    /// Why it was not forwarded, if it was not.
    pub refused: Option<String>,
    /// The integration that the host belongs to, and its class.
    pub integration: Option<(String, IntegrationClass)>,
    /// Whether a stand-in knew the answer, if one was asked.
    pub matched: Option<bool>,
    /// The fixture that the stand-in used.
    pub fixture: Option<String>,
    /// Headers and the beginning of bodies, redacted.
    pub detail: serde_json::Value,
    /// The kept parts of both bodies.
    pub bodies: Option<Arc<RequestBodies>>,
}

impl RequestNote {
    /// Converts it for the ledger; unknown fields are omitted.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let mut all = serde_json::json!({
            "method": self.method, "path": self.path, "status": self.status, "detail": self.detail,
        });
        let (name, class) = self.integration.clone().unzip();
        let text = |text: Option<String>| text.map(serde_json::Value::from);
        let known = [
            ("integration", text(name)),
            ("class", class.map(|class| class.as_str().into())),
            ("matched", self.matched.map(serde_json::Value::from)),
            ("fixture", text(self.fixture.clone())),
        ];
        for (key, value) in known {
            if let Some(value) = value {
                all[key] = value;
            }
        }
        all
    }
}

/// A connection whose first bytes were already read, and are read again.
#[derive(Debug)]
pub struct Rewound {
    first: Vec<u8>,
    at: usize,
    stream: TcpStream,
    /// The rate limit for records of its requests.
    pace: Option<Paced>,
    waits: Option<Pin<Box<Sleep>>>,
}

impl Rewound {
    /// Prepends bytes to a stream.
    pub fn new(first: Vec<u8>, stream: TcpStream) -> Self {
        Self { first, at: 0, stream, pace: None, waits: None }
    }

    /// Stops reading while the room exceeds its record limit.
    pub(crate) fn paced(self, edge: &RoomEdge) -> Self {
        Self { pace: Some(edge.records.clone()), ..self }
    }

    /// Waits for the rate limit.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(pace) = &self.pace else { return Poll::Ready(()) };
        loop {
            if let Some(waits) = &mut self.waits {
                ready!(waits.as_mut().poll(context));
                self.waits = None;
            }
            let wait = pace.wait();
            if wait.is_zero() {
                return Poll::Ready(());
            }
            self.waits = Some(Box::pin(tokio::time::sleep(wait)));
        }
    }

    /// Returns the unread first bytes, and the stream.
    pub fn into_parts(mut self) -> (Vec<u8>, TcpStream) {
        (self.first.split_off(self.at), self.stream)
    }
}

impl AsyncRead for Rewound {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.at == self.first.len() {
            ready!(self.poll_turn(context));
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let left = &self.first[self.at..];
        let count = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..count]);
        self.at += count;
        if self.at == self.first.len() {
            (self.first, self.at) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewound {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
