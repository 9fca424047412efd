//! SMTP sessions: `hothouse_sinks` is the server's state machine, this module adds socket, clock
//! and disk.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{Arc, PoisonError},
    time::Duration,
};

use hothouse_engine::Engine;
use hothouse_model::{
    SandboxRecord,
    config::{MailFault, MailFaultKind},
    ledger::RoomProcess,
    record::Kind,
};
use hothouse_sinks::{
    Taken,
    mail::{
        api::faults::{MailRefusal, refused},
        delivered,
        smtp::{Action, CallVerdict, Delivery, Fault, FaultRule, Faults, Session, SessionSpec},
    },
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep, timeout, timeout_at},
};

use super::RunSinks;

/// How long a client may be silent, or not read.
const IDLE: Duration = Duration::from_secs(5 * 60);

/// The time limit of a message so large that others wait for it.
const LARGE_TIME: Duration = Duration::from_secs(10 * 60);

/// How much of a message is held without a permit, in bytes.
const SMALL: usize = 1 << 20;

/// How many larger messages of a run are held at once.
const LARGE_AT_ONCE: usize = 2;

/// The default delay of a slow recipient.
const SLOW: Duration = Duration::from_secs(5);

/// How many greylisted recipients of a run are remembered.
const GREYLISTED: usize = 10_000;

/// How many links of a mail are checked.
const LINKS: usize = 20;

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// A connection, encrypted or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Negotiates TLS on a connection.
pub(crate) type StartTls<'a> = dyn Fn(Box<dyn Stream>) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send + 'a>>
    + Send
    + Sync
    + 'a;

/// The parameters of a session.
pub(crate) struct MailOrder<'a> {
    /// The server's own host name.
    pub(crate) host: String,
    pub(crate) lmtp: bool,
    /// Whether TLS starts immediately.
    pub(crate) tls_first: bool,
    pub(crate) start_tls: Option<&'a StartTls<'a>>,
    pub(crate) process: Option<RoomProcess>,
}

/// The memory budget of a run for large messages.
pub(super) struct LargeMessages(Arc<Semaphore>);

impl Default for LargeMessages {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LARGE_AT_ONCE)))
    }
}

impl RunSinks {
    /// Serves a mail client until its session ends.
    pub(crate) async fn serve_mail<'a>(
        self: &'a Arc<Self>,
        client: Box<dyn Stream>,
        order: MailOrder<'a>,
    ) -> io::Result<()> {
        let client = match (order.tls_first, order.start_tls) {
            (true, Some(start_tls)) => start_tls(client).await?,
            (true, None) => return Err(io::ErrorKind::Unsupported.into()),
            (false, _) => client,
        };
        let (own, faults) = (self.clone(), Faults::default());
        let faults = tokio::task::spawn_blocking(move || own.faults()).await.unwrap_or(faults);
        let (session, greeting) = Session::new(SessionSpec {
            faults,
            hostname: order.host.clone(),
            lmtp: order.lmtp,
            encrypted: order.tls_first,
            can_start_tls: order.start_tls.is_some(),
        });
        let mut talk = Talk { sinks: self, order, client, session, large: None };
        let ended = talk.run(greeting).await;
        self.remember_greylisted(talk.session.greylisted().iter().cloned());
        ended
    }

    /// Returns the injected faults, from the worktree's current config.
    fn faults(&self) -> Faults {
        let rule = |one: MailFault| FaultRule {
            recipient: one.to.to_string(),
            fault: match one.fault {
                MailFaultKind::Reject => Fault::Reject,
                MailFaultKind::Defer => Fault::Defer,
                MailFaultKind::Greylist => Fault::Greylist,
                MailFaultKind::Slow => Fault::Slow(one.after.unwrap_or(SLOW)),
            },
        };
        let rules = self.flags.mail_faults(&self.sandbox).into_iter().map(rule).collect();
        let known = self.greylisted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Faults { rules, known }
    }

    /// Injects faults into a call of a mail API, as configured for its recipients.
    pub(super) fn with_faults(&self, vendor: &str, mut taken: Taken) -> Taken {
        let mails = || taken.records.iter().filter(|record| record.kind == Kind::Mail);
        if mails().next().is_none() {
            return taken;
        }
        let faults = self.faults();
        let from = |body: &Value| body["envelope"]["from"].as_str().unwrap_or_default().to_owned();
        let envelopes: Vec<(String, Vec<String>)> = mails()
            .map(|record| {
                let to = record.body["envelope"]["to"].as_array().into_iter().flatten();
                let to = to.filter_map(Value::as_str).map(str::to_owned).collect();
                (from(&record.body), to)
            })
            .collect();
        let mut late = Duration::ZERO;
        for (from, to) in envelopes {
            match faults.decide_call(&from, to.iter().map(String::as_str)) {
                CallVerdict::Accept { after } => late = late.max(after),
                CallVerdict::Reject { recipient } => {
                    let answer = refused(vendor, &taken, MailRefusal::Reject, &recipient);
                    return Taken { answer, records: Vec::new() };
                }
                CallVerdict::Defer { recipient, greylisted } => {
                    self.remember_greylisted(greylisted);
                    let answer = refused(vendor, &taken, MailRefusal::Defer, &recipient);
                    return Taken { answer, records: Vec::new() };
                }
            }
        }
        taken.answer.latency += late;
        taken
    }

    fn remember_greylisted(&self, keys: impl IntoIterator<Item = String>) {
        let mut known = self.greylisted.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < GREYLISTED {
            known.extend(keys);
        }
    }

    /// Stores a message; returns the id of its record.
    async fn deliver(
        self: &Arc<Self>,
        delivery: Delivery,
        process: Option<RoomProcess>,
    ) -> Result<String, String> {
        let own = self.clone();
        let prepared = tokio::task::spawn_blocking(move || {
            let recorded = delivered(&delivery);
            own.prepared(vec![recorded], process)
        });
        let prepared = prepared.await.map_err(|_| "the message cannot be read".to_owned())?;
        let kept = self.keep_prepared(prepared).await;
        let kept = kept.map_err(|error| format!("not accepted: {error}"))?;
        Ok(kept.into_iter().next().map(|record| record.id).unwrap_or_default())
    }
}

/// Adds to the checks of a mail which of its links lead to no app of the sandbox, or to one that
/// its reader cannot reach. Links are not requested: some are valid only once.
pub(super) fn check_links(engine: &Engine, sandbox: &SandboxRecord, mail: &mut Value) {
    let links = mail["links"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let own: Vec<(&str, OwnHost)> =
        links.filter_map(|link| Some((link, own_host(link)?))).take(LINKS).collect();
    if own.is_empty() {
        return;
    }
    // The current record: the given one may be older than the sandbox's services.
    let Ok(Some(sandbox)) = engine.sandbox(sandbox.key) else { return };
    let (mut broken, mut inside) = (Vec::new(), Vec::new());
    for (link, host) in own {
        match (host, engine.webhook_url(&sandbox, link)) {
            (OwnHost::Loopback, Some(_)) => inside.push(shown(link)),
            (_, None) => broken.push(shown(link)),
            _ => {}
        }
    }
    let found = [
        ("broken-link", "no app of the sandbox is at the address of links", broken),
        ("loopback-link", "links that only work inside the room", inside),
    ];
    let found = found.into_iter().filter(|(_, _, links)| !links.is_empty());
    if let Some(checks) = mail["checks"].as_array_mut() {
        checks.extend(found.map(|(check, text, links)| {
            json!({ "check": check, "text": format!("{text}: {}", links.join(", ")) })
        }));
    }
}

/// How a link refers to this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnHost {
    Loopback,
    /// A name below `.localhost`, as sandbox apps have.
    Routed,
}

fn own_host(link: &str) -> Option<OwnHost> {
    let (scheme, rest) = link.split_once("://")?;
    if !matches!(scheme, "http" | "https") {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).to_ascii_lowercase();
    match name.as_str() {
        "localhost" | "127.0.0.1" | "[::1]" | "0.0.0.0" => Some(OwnHost::Loopback),
        name if name.ends_with(".localhost") => Some(OwnHost::Routed),
        _ => None,
    }
}

/// Returns a link without its query and fragment, which may be sensitive.
fn shown(link: &str) -> String {
    let plain = link.split(['?', '#']).next().unwrap_or_default();
    format!("`{}`", plain.chars().take(120).collect::<String>())
}

/// One session.
struct Talk<'a> {
    sinks: &'a Arc<RunSinks>,
    order: MailOrder<'a>,
    client: Box<dyn Stream>,
    session: Session,
    /// The permit for a large message, and its deadline.
    large: Option<(OwnedSemaphorePermit, Instant)>,
}

impl Talk<'_> {
    async fn run(&mut self, greeting: Vec<Action>) -> io::Result<()> {
        let mut actions = VecDeque::from(greeting);
        let mut buffer = vec![0; CHUNK];
        loop {
            while let Some(action) = actions.pop_front() {
                if let Action::Close = action {
                    return timeout(IDLE, self.client.shutdown()).await?;
                }
                actions.extend(self.obey(action).await?);
            }
            self.weigh().await?;
            let until = Instant::now() + IDLE;
            let until = self.large.as_ref().map_or(until, |(_, by)| until.min(*by));
            let length = timeout_at(until, self.client.read(&mut buffer)).await??;
            if length == 0 {
                return Ok(());
            }
            actions.extend(self.session.on_bytes(&buffer[..length]));
        }
    }

    /// Performs an action of the session; returns the next actions.
    async fn obey(&mut self, action: Action) -> io::Result<Vec<Action>> {
        match action {
            Action::Send(bytes) => {
                timeout(IDLE, self.client.write_all(&bytes)).await??;
                timeout(IDLE, self.client.flush()).await??;
            }
            Action::Wait(time) => sleep(time.min(IDLE)).await,
            Action::Deliver(delivery) => {
                let process = self.order.process.clone();
                let outcome = self.sinks.deliver(*delivery, process).await;
                return Ok(self.session.on_delivered(outcome));
            }
            Action::StartTls => {
                let start_tls = self.order.start_tls.ok_or(io::ErrorKind::Unsupported)?;
                let plain = std::mem::replace(&mut self.client, Box::new(tokio::io::empty()));
                self.client = start_tls(plain).await?;
                return Ok(self.session.on_encrypted());
            }
            Action::Close => {}
        }
        Ok(Vec::new())
    }

    /// Waits for a permit once a message becomes large, and releases it afterwards.
    async fn weigh(&mut self) -> io::Result<()> {
        match (self.session.held() > SMALL, &self.large) {
            (true, None) => {
                let places = self.sinks.large.0.clone();
                let place = timeout(IDLE, places.acquire_owned()).await?;
                let place = place.map_err(io::Error::other)?;
                self.large = Some((place, Instant::now() + LARGE_TIME));
            }
            (false, Some(_)) => self.large = None,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_this_machine_are_told_from_others() {
        for (link, expected) in [
            ("https://api.a.shop.localhost:8443/x", Some(OwnHost::Routed)),
            ("http://localhost:3000/x", Some(OwnHost::Loopback)),
            ("http://user@127.0.0.1/x", Some(OwnHost::Loopback)),
            ("https://shop.example/?u=http://localhost", None),
            ("mailto:a@localhost", None),
            ("https://notlocalhost/", None),
        ] {
            assert_eq!(own_host(link), expected, "{link}");
        }
        assert_eq!(shown("http://localhost/x?token=1"), "`http://localhost/x`");
    }
}
