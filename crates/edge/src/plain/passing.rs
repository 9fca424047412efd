//! A request in progress: its record is written with the last byte of its response, including the
//! kept parts of both bodies.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, ready},
    time::Instant,
};

use bytes::Bytes;
use hothouse_http::plain_trailers;
use hothouse_model::ledger::{LedgerRecord, RequestBodies};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use serde_json::json;

use super::Answered;
use crate::room::RoomEdge;

/// How much of each body is kept.
const KEPT: usize = 64 << 10;

/// Which of the two bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Request,
    Response,
}

/// What is known of a request so far. It is recorded when the last reference is dropped.
pub(super) struct Passing {
    edge: Weak<RoomEdge>,
    inner: Mutex<Inner>,
}

struct Inner {
    /// `None` once it is recorded elsewhere.
    record: Option<LedgerRecord>,
    begun: Instant,
    bodies: RequestBodies,
    /// The bytes of both bodies so far.
    passed: (u64, u64),
}

impl Passing {
    pub(super) fn new(record: LedgerRecord, edge: &Arc<RoomEdge>) -> Self {
        let inner = Inner {
            record: Some(record),
            begun: Instant::now(),
            bodies: RequestBodies { packed: true, ..RequestBodies::default() },
            passed: (0, 0),
        };
        Self { edge: Arc::downgrade(edge), inner: Mutex::new(inner) }
    }

    pub(super) fn answered(&self, answered: Answered, begun: Instant) {
        let mut inner = self.inner();
        inner.begun = begun;
        let Some(record) = &mut inner.record else { return };
        record.received = answered.length;
        if let Some(request) = &mut record.request {
            request["status"] = answered.status.into();
            request["detail"]["response"]["headers"] = json!(answered.headers);
        }
    }

    /// Leaves the record to someone else.
    pub(super) fn forget(&self) {
        self.inner().record = None;
    }

    fn passed(&self, side: Side, bytes: &[u8]) {
        let mut inner = self.inner();
        let Inner { bodies, passed, .. } = &mut *inner;
        let (kept, count) = match side {
            Side::Request => (&mut bodies.request, &mut passed.0),
            Side::Response => (&mut bodies.response, &mut passed.1),
        };
        *count += bytes.len() as u64;
        let left = KEPT.saturating_sub(kept.len());
        kept.extend_from_slice(&bytes[..bytes.len().min(left)]);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        let Some(edge) = self.edge.upgrade() else { return };
        let mut inner = self.inner();
        let (bodies, (sent, received)) = (std::mem::take(&mut inner.bodies), inner.passed);
        let taken = inner.begun.elapsed().as_millis();
        let Some(mut record) = inner.record.take() else { return };
        // The announced length counts if nothing is read, as with `HEAD`.
        (record.sent, record.received) = (record.sent.max(sent), record.received.max(received));
        record.duration_ms = u64::try_from(taken).unwrap_or(u64::MAX);
        record.bodies = Some(Arc::new(bodies));
        edge.append(&mut record);
    }
}

/// A body that is recorded in transit.
pub(super) struct Watched {
    inner: Incoming,
    passing: Arc<Passing>,
    side: Side,
}

impl Watched {
    pub(super) fn new(inner: Incoming, passing: &Arc<Passing>, side: Side) -> Self {
        Self { inner, passing: passing.clone(), side }
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(bytes) = frame.data_ref()
        {
            self.passing.passed(self.side, bytes);
        }
        Poll::Ready(match self.side {
            Side::Request => frame.map(|frame| frame.map(plain_trailers)),
            Side::Response => frame,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
