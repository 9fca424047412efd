//! Refuses connections, with a reason that the client can act on.

mod spoken;

use std::{io, net::SocketAddr, time::Duration};

use hothouse_model::policy::{Protocol, Reason, Verdict};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use self::spoken::{SpokenDenial, refusal};
use crate::{room::About, wire::sniff::Sniffed};

/// A fatal alert, access denied (RFC 8446, section 6).
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// For how long, and how much, further input of a client is discarded, so that it reads the answer
/// before the connection is reset.
const DRAIN: Duration = Duration::from_millis(500);
const DRAIN_LIMIT: usize = 256 << 10;

/// How many messages a client may send before it is refused, how long each, and for how long in total.
const ROUNDS: usize = 4;
const FIRST_LIMIT: usize = 1 << 10;
const PATIENCE: Duration = Duration::from_secs(5);

/// A denial, as its client is told.
pub(crate) struct Denial<'a> {
    pub(crate) verdict: &'a Verdict,
    pub(crate) host: Option<&'a str>,
    pub(crate) target: SocketAddr,
}

impl Denial<'_> {
    fn shown_host(&self) -> String {
        self.host.map_or_else(|| self.target.ip().to_string(), str::to_owned)
    }

    /// Returns the allowlist entry that the user would have to add. Private destinations must be
    /// named by address.
    fn grant(&self) -> String {
        let host = match self.verdict.reason {
            Some(Reason::Sphere { address, .. }) => address.to_string(),
            _ => self.shown_host(),
        };
        let port = self.target.port();
        match (Protocol::expected_on(port), host.contains(':')) {
            (None, true) => format!("[{host}]:{port}"),
            (None, false) => format!("{host}:{port}"),
            (Some(_), _) => host,
        }
    }

    fn ask(&self, about: &About) -> String {
        format!("hothouse egress allow {} -w {}", self.grant(), about.sandbox)
    }

    /// Formats the denial in one line.
    fn line(&self, about: &About) -> String {
        let (host, port, why) = (self.shown_host(), self.target.port(), self.verdict.why());
        format!("Hothouse denied {host}:{port}: {why}; a user can allow it: {}", self.ask(about))
    }

    /// Builds the body of a 403.
    pub(crate) fn body(&self, about: &About, json: bool) -> (String, &'static str) {
        let (host, why) = (self.shown_host(), self.verdict.why());
        if json {
            let body = serde_json::json!({ "error": {
                "code": self.verdict.reason.as_ref().map(|reason| reason.code()),
                "message": format!("Hothouse denied this connection: {why}"),
                "host": host, "port": self.target.port(), "rule": self.verdict.rule,
                "ask": format!("a user can allow it on the host: `{}`", self.ask(about)),
            } });
            return (format!("{body}\n"), "application/json");
        }
        let text = format!(
            "Hothouse denied this connection.\nhost: {host}\nport: {}\nrule: {}\nwhy:  {why}\n\
             ask:  a user can allow it on the host with `{}`\n",
            self.target.port(),
            self.verdict.rule,
            self.ask(about)
        );
        (text, "text/plain; charset=utf-8")
    }
}

/// Closes a connection with a reset.
pub(crate) fn reset(stream: TcpStream) {
    // Closing with a linger of zero sends RST. A peer that is already gone needs none.
    stream.set_zero_linger().ok();
}

/// Refuses a connection in its own protocol.
pub(crate) async fn refuse(
    stream: TcpStream,
    sniffed: &Sniffed,
    first: Vec<u8>,
    about: &About,
    denial: &Denial<'_>,
) {
    match sniffed {
        Sniffed::Http(head) => {
            let (body, kind) = denial.body(about, head.wants_json);
            answer(stream, "403 Forbidden", kind, &body, head.method == "HEAD").await;
        }
        Sniffed::Broken(Protocol::Http) => {
            let (body, kind) = denial.body(about, false);
            answer(stream, "400 Bad Request", kind, &body, false).await;
        }
        Sniffed::Tls(_) | Sniffed::Broken(Protocol::Tls) => {
            finish(stream, &ALERT).await;
        }
        _ => {
            let reason = denial.line(about);
            let talk = spoken(stream, first, &reason, denial.target.port());
            // A client that does not read it is reset when the socket is dropped.
            timeout(PATIENCE, talk).await.ok();
        }
    }
}

/// Refuses a connection of another protocol, if that has error messages.
async fn spoken(mut stream: TcpStream, mut first: Vec<u8>, reason: &str, port: u16) {
    for _ in 0..ROUNDS {
        match refusal(port, &first, reason) {
            SpokenDenial::Say(words) => return finish(stream, &words).await,
            SpokenDenial::Reset => break,
            SpokenDenial::Continue(words) => {
                first = vec![0; FIRST_LIMIT];
                let read = async {
                    stream.write_all(&words).await?;
                    stream.read(&mut first).await
                };
                match read.await {
                    Ok(0) | Err(_) => break,
                    Ok(count) => first.truncate(count),
                }
            }
        }
    }
    reset(stream);
}

/// Reports that an allowed host could not be reached.
pub(crate) async fn unreachable(
    stream: TcpStream,
    sniffed: &Sniffed,
    host: &str,
    error: &io::Error,
) {
    match sniffed {
        Sniffed::Http(head) => {
            let body = format!("Hothouse allowed this, but {host} was not reached: {error}\n");
            let kind = "text/plain; charset=utf-8";
            answer(stream, "502 Bad Gateway", kind, &body, head.method == "HEAD").await;
        }
        _ => reset(stream),
    }
}

/// Answers an HTTP request and closes the connection.
pub(crate) async fn answer(stream: TcpStream, status: &str, kind: &str, body: &str, head: bool) {
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Hothouse: denied\r\nConnection: close\r\n\r\n{}",
        body.len(),
        if head { "" } else { body }
    );
    finish(stream, text.as_bytes()).await;
}

/// Sends final bytes, then waits a moment for the client to read them.
async fn finish(mut stream: TcpStream, words: &[u8]) {
    let talk = async {
        stream.write_all(words).await?;
        stream.shutdown().await?;
        let mut waste = vec![0; 16 << 10];
        let mut total = 0;
        while total < DRAIN_LIMIT {
            match stream.read(&mut waste).await? {
                0 => break,
                count => total += count,
            }
        }
        io::Result::Ok(())
    };
    // It does not matter whether the client reads it.
    timeout(DRAIN, talk).await.ok();
}
