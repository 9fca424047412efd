//! Sessions of mail clients: `hothouse_sinks` is the server's side, here are the socket, the clock and the disk.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{Arc, PoisonError},
    time::Duration,
};

use hothouse_model::{
    config::{MailFault, MailFaultKind},
    ledger::RoomProcess,
};
use hothouse_sinks::mail::{
    delivered,
    smtp::{Action, Delivery, Fault, FaultRule, Faults, Session, SessionSpec},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep, timeout, timeout_at},
};

use super::RunSinks;

/// How long a client may be silent, or take nothing.
const IDLE: Duration = Duration::from_secs(5 * 60);

/// How long a message may take that is so large that others wait for it.
const LARGE_TIME: Duration = Duration::from_secs(10 * 60);

/// How much of a message is held without asking, in bytes.
const SMALL: usize = 1 << 20;

/// How many messages of a run that are larger are held at once.
const LARGE_AT_ONCE: usize = 2;

/// How late a slow recipient is accepted, where nobody says.
const SLOW: Duration = Duration::from_secs(5);

/// How many greylisted recipients of a run are remembered.
const GREYLISTED: usize = 10_000;

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// A connection, whatever it is encrypted by.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Negotiates TLS on a connection.
pub(crate) type StartTls<'a> = dyn Fn(Box<dyn Stream>) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send + 'a>>
    + Send
    + Sync
    + 'a;

/// A session to be.
pub(crate) struct MailOrder<'a> {
    /// The name that the server has for itself.
    pub(crate) host: String,
    pub(crate) lmtp: bool,
    /// Whether TLS comes first.
    pub(crate) tls_first: bool,
    pub(crate) start_tls: Option<&'a StartTls<'a>>,
    pub(crate) process: Option<RoomProcess>,
}

/// What a run may have of memory for large messages.
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
        let mut known = self.greylisted.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < GREYLISTED {
            known.extend(talk.session.greylisted().iter().cloned());
        }
        ended
    }

    /// Returns what breaks on purpose, as the config of the worktree says now.
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

    /// Keeps a message; returns the id of its record.
    async fn deliver(
        self: &Arc<Self>,
        delivery: Delivery,
        process: Option<RoomProcess>,
    ) -> Result<String, String> {
        let recorded = tokio::task::spawn_blocking(move || delivered(&delivery)).await;
        let recorded = recorded.map_err(|_| "the message cannot be read".to_owned())?;
        let kept = self.keep(vec![recorded], process).await;
        let kept = kept.map_err(|error| format!("not accepted: {error}"))?;
        Ok(kept.into_iter().next().map(|record| record.id).unwrap_or_default())
    }
}

/// One session.
struct Talk<'a> {
    sinks: &'a Arc<RunSinks>,
    order: MailOrder<'a>,
    client: Box<dyn Stream>,
    session: Session,
    /// The right to hold a large message, and until when.
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

    /// Does what the session says; returns what follows.
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

    /// Waits for the right to hold a message that has become large, and gives it back after it.
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
