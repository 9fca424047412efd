//! One exchange with a terminated host, from the room's request to the host's response.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::{Bytes, BytesMut};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_http::{HostProblem, asked_upgrade, host_value, strip_hop_by_hop, strip_overrides};
use hothouse_model::{
    config::{HostName, LiveKeys, SecretForm},
    policy::{Answerer, RequestLine},
};
use http_body_util::{BodyExt, Empty};
use hyper::{
    Method, Request, Response, StatusCode, Version,
    body::{Body as _, Incoming},
    ext::ReasonPhrase,
    header::{self, HeaderValue},
    http::request::Parts,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{
    Endpoint,
    answer::Own,
    body::{self, Body, NotWhole, Watched, scrub},
    budget::{self, RoomBudget, Spent},
    decode::{self, Undecodable},
    finish::{AskedPart, finish, whole_values},
    frames::Frames,
    gate::Gate,
    meter::{self, Meter, Metered},
    outgoing::Outgoing,
    pulse::Pulse,
    record::{Draft, RecordSink, Side},
    scan::Echoes,
    secrets::{Held, Known},
    sigv4,
    stand_in::{self, BrokenOff, HeldWhole, StandIn},
    substitute,
    terms::{Admitted, Place, RoomTerms, Terms},
    test_keys,
    upstream::{Upstream, UpstreamError, Upstreams, Wanted},
};

/// The maximum size of a body that has to be buffered.
const BODY_LIMIT: usize = 8 << 20;

/// Headers that let a host compress each message of a body separately, or send only the difference
/// from the last response.
const NOT_WHOLE: [&str; 3] = ["grpc-accept-encoding", "connect-accept-encoding", "a-im"];

/// The state of one connection of a room to a host.
pub(crate) struct Exchange<U: Upstream> {
    pub(crate) host: HostName,
    pub(crate) target: Endpoint,
    pub(crate) upstreams: Upstreams<U>,
    pub(crate) terms: RoomTerms,
    /// Answers in place of the host, if set.
    pub(crate) stand_in: Option<Arc<dyn StandIn>>,
    pub(crate) held_whole: Arc<HeldWhole>,
    pub(crate) budget: RoomBudget,
    pub(crate) records: RecordSink,
    /// The host's side of a connection that is being upgraded.
    pub(crate) upgraded: Mutex<Option<Upgraded>>,
}

/// The host's side of an upgraded connection.
pub(crate) struct Upgraded {
    pub(crate) host: hyper::upgrade::Upgraded,
    pub(crate) looks: Looks,
    /// The request for it, which may be revoked.
    pub(crate) admitted: Option<Admitted>,
}

/// What WebSocket frames are scanned for.
#[derive(Clone, Default)]
pub(crate) struct Looks {
    /// Values that must not be sent back.
    pub(crate) echoes: Option<Arc<Echoes>>,
    /// Keys that must not be sent out.
    pub(crate) live_keys: Option<Arc<LiveKeys>>,
    /// The memory for messages that are held until they have been scanned.
    pub(crate) budget: RoomBudget,
}

/// The secrets of a host, and the values that it must not send back.
#[derive(Default)]
struct Guarded {
    held: Held,
    echoes: Option<Arc<Echoes>>,
}

/// A request that is ready to be sent.
struct Ready {
    request: Request<Body>,
    echoes: Option<Arc<Echoes>>,
    part: Option<AskedPart>,
}

impl<U: Upstream> Exchange<U> {
    /// Answers a request. Work in progress is counted in the connection's pulse, if it has one.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        pulse: Option<&Arc<Pulse>>,
    ) -> Result<Response<Body>, BrokenOff> {
        // Only WebSocket: after any other upgrade (`h2c`) requests would bypass us.
        let to =
            asked_upgrade(&request).filter(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
        let asked_host = host_value(&request);
        let (parts, incoming) = request.into_parts();
        let Endpoint { name, port, tls, .. } = &self.target;
        let terms = self.terms.now();
        let kept = terms.gate.kept_of_bodies(&self.host);
        let sink = (terms.secrets.clone(), self.records.clone(), kept);
        let draft = Draft::begin(&parts, (name, *port, *tls), HostClock.now(), sink);
        draft.belongs_to(terms.gate.integration(&self.host));
        let beat = || pulse.map(Pulse::begin);
        let (asking, answering) = (beat(), beat());
        let guarded = self.guarded(&terms).await;
        let sent = body::incoming(incoming);
        let sent = Watched::new(sent, draft.clone(), Side::Request, asking).boxed_unsync();
        let wanted = if parts.version == Version::HTTP_2 { Wanted::Http2 } else { Wanted::Http1 };
        let admitted = match self.budget.request() {
            Some(spent) => {
                draft.spends(spent);
                self.admit(&terms, &parts, asked_host, to.is_some())
            }
            None => Err(Own::too_many()),
        };
        let echoes = guarded.echoes.clone();
        let answered = match admitted {
            Err(own) => Err(own),
            Ok(admitted) => {
                let work = async {
                    match (&self.stand_in, to) {
                        (Some(stand_in), _) => {
                            let place = (&self.host, &self.target, &*self.held_whole);
                            let head = parts.method == Method::HEAD;
                            let played =
                                stand_in::play(&**stand_in, place, (parts, sent), &draft).await?;
                            Ok::<_, BrokenOff>(played.and_then(|response| {
                                finish(response, guarded.echoes, None, (head, &self.budget))
                            }))
                        }
                        (None, Some(to)) => Ok(self.upgrade(parts, to, guarded, &draft).await),
                        (None, None) => Ok(self.pass((parts, sent), wanted, guarded, &draft).await),
                    }
                };
                self.while_admitted(admitted, work).await?
            }
        };
        let response = answered.unwrap_or_else(|own| {
            let own = match &echoes {
                Some(echoes) => own.without(echoes),
                None => own,
            };
            draft.refused(own.status, &own.message);
            own.response(name)
        });
        draft.answered(&response);
        let watched = |inner| Watched::new(inner, draft, Side::Response, answering).boxed_unsync();
        Ok(response.map(watched))
    }

    /// Answers a request for as long as it is admitted: streams and upgrades end when the rules change.
    async fn while_admitted(
        &self,
        mut admitted: Admitted,
        work: impl Future<Output = Result<Result<Response<Body>, Own>, BrokenOff>>,
    ) -> Result<Result<Response<Body>, Own>, BrokenOff> {
        let answered = tokio::select! {
            answered = work => answered?,
            refusal = admitted.revoked() => Err(Own::denied(refusal)),
        };
        Ok(answered.map(|response| {
            if let Some(upgraded) = &mut *self.upgraded() {
                upgraded.admitted = Some(admitted);
                return response;
            }
            response.map(|body| {
                body::revocable(body, async move {
                    admitted.revoked().await;
                })
            })
        }))
    }

    /// Admits a request if it is for this host and allowed.
    fn admit(
        &self,
        terms: &Terms,
        parts: &Parts,
        host: Result<HeaderValue, HostProblem>,
        upgrades: bool,
    ) -> Result<Admitted, Own> {
        let host = host.map_err(|problem| Own::bad_request(&problem.to_string()))?;
        let asked = host.to_str().unwrap_or_default();
        if !self.is_own(asked) {
            return Err(Own::misdirected(asked, &self.target.name));
        }
        // CONNECT would lead elsewhere, and TRACE echoes the request.
        if parts.method == Method::CONNECT || parts.method == Method::TRACE {
            return Err(Own::method(parts.method.as_str()));
        }
        let by = match self.stand_in {
            Some(_) => Answerer::StandIn,
            None => Answerer::Host,
        };
        let place = Place { host: self.host.clone(), port: self.target.port, by };
        let line = RequestLine { method: parts.method.as_str(), path: parts.uri.path(), upgrades };
        Admitted::of(&self.terms, terms, place, &line).map_err(Own::denied)
    }

    /// Returns the gate of the current config.
    fn gate(&self) -> Arc<dyn Gate> {
        self.terms.now().gate.clone()
    }

    fn is_own(&self, asked: &str) -> bool {
        let (name, port) = match asked.rsplit_once(':') {
            Some((name, port)) => (name, port.parse().ok()),
            None => (asked, Some(self.target.port)),
        };
        let usual = if self.target.tls { 443 } else { 80 };
        let named = name.parse::<HostName>().is_ok_and(|name| name == self.host);
        // A host without a port means the default one, whatever port the connection uses.
        named && port.is_some_and(|port| port == self.target.port || port == usual)
    }

    async fn pass(
        &self,
        (parts, body): (Parts, Body),
        wanted: Wanted,
        guarded: Guarded,
        draft: &Draft,
    ) -> Result<Response<Body>, Own> {
        let head = parts.method == Method::HEAD;
        let meter = self.gate().meter(&self.host);
        let mut spent = self.room_for(&parts, body.size_hint().upper(), &guarded.held).await?;
        let (parts, body) = match &meter {
            Some(meter) => self.metered(&**meter, (parts, body), &guarded, draft).await?,
            None => (parts, body),
        };
        let Ready { request, echoes, part } = self.prepare(parts, body, guarded, draft).await?;
        // Model APIs have no test mode: the key that the wall inserts there is a live one.
        let request = match meter {
            Some(_) => request,
            None => self.without_live_keys(request).await?,
        };
        if let (Some(spent), Some(length)) = (&mut spent, request.body().size_hint().exact()) {
            budget::shrink(spent, usize::try_from(length).unwrap_or(usize::MAX));
        }
        let request = request.map(|body| body::spending(body, spent));
        let answered = self.upstreams.send(request, wanted).await;
        let response = answered.map_err(|error| Own::unreachable(&error))?;
        let response = response.map(body::incoming);
        finish(response, echoes, part, (head, &self.budget))
    }

    /// Takes the memory for a body that has to be buffered, twice: as sent, and decompressed or changed.
    async fn room_for(
        &self,
        parts: &Parts,
        length: Option<u64>,
        held: &Held,
    ) -> Result<Option<Spent>, Own> {
        let known = if self.target.tls { &held.known[..] } else { &[] };
        let is_read = self.gate().meter(&self.host).is_some()
            || self.gate().live_keys(&self.host).is_some()
            || is_changed_whole(parts, known);
        if !is_read {
            return Ok(None);
        }
        let is_packed = parts.headers.contains_key(header::CONTENT_ENCODING);
        let length = length.filter(|_| !is_packed);
        let length = length.and_then(|length| usize::try_from(length).ok());
        let most = length.unwrap_or(BODY_LIMIT).min(BODY_LIMIT);
        self.budget.body(most * 2).await.map(Some).ok_or_else(Own::no_memory)
    }

    /// Inserts values into a request.
    async fn prepare(
        &self,
        mut parts: Parts,
        body: Body,
        Guarded { held, echoes }: Guarded,
        draft: &Draft,
    ) -> Result<Ready, Own> {
        // Before signing again, which may cover the range as well.
        let part = echoes.as_ref().and_then(|echoes| whole_values(&mut parts, echoes));
        let put_in = self.put_in(&parts, &held)?;
        let (body, mut used) = self.body(&mut parts, body, put_in).await?;
        let done = substitute::head(&mut parts, put_in).map_err(|error| Own::unfit(&error))?;
        used.extend(done.used);
        let echoes = match done.echoes.is_empty() {
            true => echoes,
            false => Echoes::of(&held.all(), done.echoes).map(Arc::new),
        };
        if echoes.is_some() {
            // Compressed responses would have to be decompressed before they can be scanned.
            parts.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            for name in NOT_WHOLE {
                parts.headers.remove(name);
            }
        }
        draft.used(used);
        let trailers = parts.version == Version::HTTP_2 && parts.headers.contains_key(header::TE);
        strip_hop_by_hop(&mut parts.headers, trailers);
        // We have already sent `100 Continue`, by starting to read.
        parts.headers.remove(header::EXPECT);
        strip_overrides(&mut parts.headers);
        Ok(Ready { request: Request::from_parts(parts, body), echoes, part })
    }

    /// Refuses a request with a live key to a host used in test mode, even if the wall inserted it.
    async fn without_live_keys(&self, request: Request<Body>) -> Result<Request<Body>, Own> {
        let Some(settings) = self.gate().live_keys(&self.host) else { return Ok(request) };
        let (parts, bytes, plain) = self.whole(request).await?;
        match test_keys::find(&parts, &plain, &settings) {
            Some(found) => Err(Own::live_key(&self.target.name, &found)),
            None => Ok(Request::from_parts(parts, body::whole(bytes))),
        }
    }

    /// Meters a request that costs money; any key in it must be one that the wall inserts.
    async fn metered(
        &self,
        meter: &dyn Meter,
        (parts, body): (Parts, Body),
        Guarded { held, .. }: &Guarded,
        draft: &Draft,
    ) -> Result<(Parts, Body), Own> {
        let known = self.put_in(&parts, held)?;
        if let Some(place) = meter::own_key(&parts, known) {
            return Err(Own::own_key(&self.target.name, &place));
        }
        let (parts, bytes, plain) = self.whole(Request::from_parts(parts, body)).await?;
        let settings = self.gate().live_keys(&self.host).unwrap_or_default();
        let (clean, clean_body) = meter::without_placeholders(&parts, &plain, known);
        if let Some(found) = test_keys::find(&clean, &clean_body, &settings) {
            return Err(Own::live_key(&self.target.name, &found));
        }
        let headers = meter::headers(&parts);
        let charge = meter.begin(&Metered {
            host: self.host.as_str(),
            method: parts.method.as_str(),
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or_default(),
            headers: &headers,
            body: &plain,
        });
        draft.charged(charge.map_err(Own::denied)?);
        Ok((parts, body::whole(bytes)))
    }

    /// Reads a complete request: its body as sent, and decompressed.
    async fn whole(&self, request: Request<Body>) -> Result<(Parts, Bytes, Bytes), Own> {
        let not_whole = |why| match why {
            NotWhole::TooLong => Own::too_long(BODY_LIMIT),
            NotWhole::Broken => Own::broken_body(),
        };
        let (parts, body) = request.into_parts();
        let bytes = body::collect(body, BODY_LIMIT).await.map_err(not_whole)?;
        let codings = decode::codings(&parts.headers);
        let codings = codings.map_err(|Undecodable(coding)| Own::unknown_coding(coding))?;
        let mut plain = bytes.clone();
        if !codings.is_empty() && !bytes.is_empty() {
            let decoded = decode::decoded(body::whole(bytes.clone()), &codings, None);
            plain = body::collect(decoded, BODY_LIMIT).await.map_err(not_whole)?;
        }
        Ok((parts, bytes, plain))
    }

    /// Returns the secrets of the host, whose values must not be sent back on any connection.
    async fn guarded(&self, terms: &Terms) -> Guarded {
        if !terms.secrets.has_any_for(&self.host) {
            return Guarded::default();
        }
        let held = terms.secrets.of(&self.host).await;
        let echoes = Echoes::of(&held.all(), Vec::new()).map(Arc::new);
        Guarded { held, echoes }
    }

    /// Returns the secrets that may be inserted into a request; one whose placeholder occurs must
    /// have a value.
    fn put_in<'a>(&self, parts: &Parts, held: &'a Held) -> Result<&'a [Known], Own> {
        if !self.target.tls {
            return Ok(&[]);
        }
        let missed = held.missing.iter().find(|one| substitute::mentions(parts, &one.placeholder));
        match missed {
            Some(missed) => Err(Own::no_value(&missed.name, &missed.why)),
            None => Ok(&held.known),
        }
    }

    /// Inserts values into the body, or signs it again, if required; otherwise the body is
    /// streamed.
    async fn body(
        &self,
        parts: &mut Parts,
        body: Body,
        known: &[Known],
    ) -> Result<(Body, std::collections::BTreeSet<String>), Own> {
        let mut used = std::collections::BTreeSet::new();
        let has = |form| known.iter().any(|secret| secret.form == form);
        let kind = substitute::body_kind(&parts.headers).filter(|_| has(SecretForm::Body));
        let signers: Vec<_> =
            known.iter().filter(|secret| secret.form == SecretForm::SigV4).collect();
        let whole = is_changed_whole(parts, known);
        let (mut body, mut bytes) = (body, None);
        if whole {
            let read = body::collect(body, BODY_LIMIT).await.map_err(|why| match why {
                NotWhole::TooLong => Own::too_long(BODY_LIMIT),
                NotWhole::Broken => Own::broken_body(),
            })?;
            bytes = Some(read.clone());
            body = body::whole(read);
        }
        if let (Some(kind), Some(read)) = (kind, &bytes)
            && let Some(changed) = substitute::body(kind, read, known, &mut used)
        {
            parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(changed.len()));
            body = body::whole(changed.to_vec());
        }
        if !signers.is_empty() {
            let read = bytes.as_deref().unwrap_or_default();
            let signed = sigv4::resign(parts, &self.upstreams.authority(), read, &signers);
            let signed = signed.map_err(|error| Own::unfit(&error))?;
            used.extend(signed.used);
            if let Some(pieces) = signed.pieces {
                body = body::InPieces::new(body, pieces).boxed_unsync();
            }
        }
        Ok((body, used))
    }

    /// Forwards an upgrade request and, if the host accepts, the bytes of both sides.
    async fn upgrade(
        &self,
        parts: Parts,
        to: HeaderValue,
        guarded: Guarded,
        draft: &Draft,
    ) -> Result<Response<Body>, Own> {
        if self.gate().meter(&self.host).is_some() {
            return Err(Own::unmetered_upgrade());
        }
        let empty = || Empty::new().map_err(|never| match never {}).boxed_unsync();
        let Ready { request, echoes, part } = self.prepare(parts, empty(), guarded, draft).await?;
        let request = self.without_live_keys(request).await?;
        let mut request = self.upstreams.as_http1(request);
        let headers = request.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, to);
        let live_keys = self.gate().live_keys(&self.host);
        let is_looked_at = echoes.is_some() || live_keys.is_some();
        if is_looked_at {
            // One of the extensions is compression, which cannot be scanned.
            headers.remove(header::SEC_WEBSOCKET_EXTENSIONS);
        }
        let answered = self.upstreams.send_alone(request).await;
        let mut response = answered.map_err(|error| Own::unreachable(&error))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let response = response.map(body::incoming);
            return finish(response, echoes, part, (false, &self.budget));
        }
        if is_looked_at && response.headers().contains_key(header::SEC_WEBSOCKET_EXTENSIONS) {
            return Err(Own::extended());
        }
        let host = hyper::upgrade::on(&mut response).await;
        let host = host.map_err(|error| Own::unreachable(&UpstreamError::Talk(error)))?;
        let (mut parts, _) = response.into_parts();
        parts.extensions.remove::<ReasonPhrase>();
        if let Some(echoes) = &echoes {
            scrub(&mut parts.headers, echoes);
        }
        let looks = Looks { echoes, live_keys, budget: self.budget.clone() };
        *self.upgraded() = Some(Upgraded { host, looks, admitted: None });
        Ok(Response::from_parts(parts, empty()))
    }
}

impl<U: Upstream> Exchange<U> {
    /// Returns the host's side if the connection was upgraded.
    pub(crate) fn take_upgraded(&self) -> Option<Upgraded> {
        self.upgraded().take()
    }

    fn upgraded(&self) -> MutexGuard<'_, Option<Upgraded>> {
        self.upgraded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether values are inserted into a request's body, or its signature covers it, so that it has to be
/// buffered.
fn is_changed_whole(parts: &Parts, known: &[Known]) -> bool {
    let has = |form| known.iter().any(|secret| secret.form == form);
    has(SecretForm::Body) && substitute::body_kind(&parts.headers).is_some()
        || has(SecretForm::SigV4) && sigv4::needs_body(parts)
}

/// Copies bytes in one direction, filtered by `look`.
async fn carry<F, T>(
    from: &mut F,
    to: &mut T,
    mut look: impl FnMut(Bytes) -> io::Result<Bytes>,
) -> io::Result<()>
where
    F: AsyncRead + Unpin,
    T: AsyncWrite + Unpin,
{
    let mut piece = BytesMut::with_capacity(16 << 10);
    while from.read_buf(&mut piece).await.is_ok_and(|read| read > 0) {
        to.write_all(&look(piece.split().freeze())?).await?;
        to.flush().await?;
        piece.reserve(16 << 10);
    }
    to.shutdown().await.ok();
    Ok(())
}

/// Copies bytes both ways until either side ends, scanning them as `looks` requires.
pub(crate) async fn join<C, H>(mut client: C, mut host: H, looks: Looks)
where
    C: AsyncRead + AsyncWrite + Unpin,
    H: AsyncRead + AsyncWrite + Unpin,
{
    let Looks { echoes, live_keys, budget } = looks;
    if echoes.is_none() && live_keys.is_none() {
        // Either side may disconnect without notice.
        tokio::io::copy_bidirectional(&mut client, &mut host).await.ok();
        return;
    }
    let (mut client_from, mut client_to) = tokio::io::split(client);
    let (mut host_from, mut host_to) = tokio::io::split(host);
    let mut frames_out = live_keys.map(|keys| Outgoing::new(keys, budget));
    let outward = carry(&mut client_from, &mut host_to, |bytes| match &mut frames_out {
        Some(frames) => frames.push(&bytes).map_err(io::Error::other),
        None => Ok(bytes),
    });
    let mut frames_in = echoes.map(Frames::new);
    let inward = carry(&mut host_from, &mut client_to, |bytes| match &mut frames_in {
        Some(frames) => Ok(frames.push(&bytes).map_err(io::Error::other)?),
        None => Ok(bytes),
    });
    // An error in one direction ends both.
    if let Err(error) = tokio::try_join!(outward, inward) {
        tracing::debug!(%error, "a WebSocket of a terminated host broke off");
    }
}
