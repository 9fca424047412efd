//! The proxy port, for tools that need a proxy: HTTP CONNECT and SOCKS 5 on the room's loopback.
//!
//! It leads to where the tool would have connected without it, and bypasses nothing: the target is
//! resolved as our DNS would, and the connection is served as if it had been redirected.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hothouse_model::policy::{Claim, Reason, Verdict};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

use crate::{
    budget,
    connection::{self, Way},
    entry::Entry,
    refuse::{self, Denial},
    room::RoomEdge,
    wire::{
        Read,
        head::{self, HEAD_LIMIT, Head},
        socks::{self, Answer, Asked},
    },
};

/// How long a tool may take to name its target.
const ASKING: Duration = Duration::from_secs(10);

/// Serves the proxy port.
pub(crate) async fn serve(edge: Arc<RoomEdge>, listener: TcpListener) {
    let mut tasks = JoinSet::new();
    loop {
        while tasks.try_join_next().is_some() {}
        let Some((stream, _)) = crate::serve::accept(&listener).await else { return };
        let Some(permit) = edge.take(budget::CONNECTION) else {
            refuse::reset(stream);
            continue;
        };
        let edge = edge.clone();
        tasks.spawn(async move {
            // A tool that disconnects needs no answer.
            open(edge, stream).await.ok();
            drop(permit);
        });
    }
}

async fn open(edge: Arc<RoomEdge>, mut stream: TcpStream) -> io::Result<()> {
    let mut first = Vec::new();
    let asking = async {
        stream.read_buf(&mut first).await?;
        match first.first() {
            Some(&socks::VERSION) => by_socks(&mut stream, &mut first).await.map(Wish::Socks),
            _ => by_head(&mut stream, &mut first).await.map(Wish::Http),
        }
    };
    match timeout(ASKING, asking).await?? {
        Wish::Socks(Asked::Connect { claim, port }) => match target(&edge, &claim, port).await {
            Ok(target) => {
                stream.write_all(&Answer::Granted.bytes()).await?;
                connection::serve(edge, stream, target, first, Way::Caught).await;
            }
            Err(refused) => {
                refused.note(&edge, &stream, port).await;
                stream.write_all(&refused.answer().bytes()).await?;
            }
        },
        Wish::Socks(Asked::Refused(answer)) => stream.write_all(&answer.bytes()).await?,
        Wish::Http(Some((head, length))) => {
            return by_http(edge, stream, first, head, length).await;
        }
        Wish::Http(None) => {
            let text = "This is Hothouse's proxy port: HTTP CONNECT, absolute requests, SOCKS 5.\n";
            refuse::answer(stream, "400 Bad Request", "text/plain; charset=utf-8", text, false)
                .await;
        }
    }
    Ok(())
}

enum Wish {
    Socks(Asked),
    Http(Option<(Head, usize)>),
}

/// Why a target cannot be reached.
enum Refused {
    Denied(Verdict, String),
    NoAddress(String),
}

impl Refused {
    fn answer(&self) -> Answer {
        match self {
            Self::Denied(..) => Answer::Denied,
            Self::NoAddress(_) => Answer::Failed,
        }
    }

    async fn note(&self, edge: &Arc<RoomEdge>, stream: &TcpStream, port: u16) {
        let Self::Denied(verdict, host) = self else { return };
        let target = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), port);
        let mut entry = Entry::begin(edge.clone(), stream.peer_addr().ok(), target);
        entry.host = Some(host.clone());
        entry.denied(verdict).await;
    }
}

/// Finds the address to which the room itself would have connected.
async fn target(edge: &RoomEdge, claim: &Claim, port: u16) -> Result<SocketAddr, Refused> {
    let denied =
        |reason, host: &str| Err(Refused::Denied(Verdict::refused(reason), host.to_owned()));
    match claim {
        Claim::Name(name) => {
            let policy = edge.policy();
            let verdict = policy.decide_name(name);
            if !verdict.allowed && !policy.answers_for(name) {
                return Err(Refused::Denied(verdict, name.to_string()));
            }
            let address = edge.address_for(name).await;
            let address = address.ok_or_else(|| Refused::NoAddress(name.to_string()))?;
            Ok(SocketAddr::new(address, port))
        }
        Claim::Address(address) => Ok(SocketAddr::new(address.to_canonical(), port)),
        Claim::Bad(text) => denied(Reason::BadName(text.clone()), text),
        Claim::None => denied(Reason::BadName(String::new()), ""),
    }
}

async fn by_socks(stream: &mut TcpStream, first: &mut Vec<u8>) -> io::Result<Asked> {
    let (without, length) = more(stream, first, socks::read_greeting).await?;
    first.drain(..length);
    if !without {
        stream.write_all(&socks::NO_WAY).await?;
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.write_all(&socks::WELCOME).await?;
    let (asked, length) = more(stream, first, socks::read_request).await?;
    first.drain(..length.min(first.len()));
    Ok(asked)
}

async fn by_head(stream: &mut TcpStream, first: &mut Vec<u8>) -> io::Result<Option<(Head, usize)>> {
    let read = |bytes: &[u8]| match head::is_start(bytes) {
        true => head::read(bytes),
        false => Read::Broken,
    };
    match more(stream, first, read).await {
        Ok(head) => {
            let end = first.windows(4).position(|part| part == b"\r\n\r\n");
            Ok(end.map(|end| (head, end + 4)))
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads until a decoder succeeds.
async fn more<T>(
    stream: &mut TcpStream,
    first: &mut Vec<u8>,
    read: impl Fn(&[u8]) -> Read<T>,
) -> io::Result<T> {
    loop {
        match read(first) {
            Read::Done(value) => return Ok(value),
            Read::More if first.len() <= HEAD_LIMIT => {}
            Read::More | Read::Broken => return Err(io::ErrorKind::InvalidData.into()),
        }
        if stream.read_buf(first).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Opens a tunnel for CONNECT; any other request is served at its target.
async fn by_http(
    edge: Arc<RoomEdge>,
    mut stream: TcpStream,
    mut first: Vec<u8>,
    head: Head,
    length: usize,
) -> io::Result<()> {
    let connect = head.method == "CONNECT";
    let kind = "text/plain; charset=utf-8";
    if head.contradicts || (!connect && !head.target.starts_with("http://")) {
        let text = "The proxy port takes CONNECT, or a URL that begins with http://.\n";
        refuse::answer(stream, "400 Bad Request", kind, text, false).await;
        return Ok(());
    }
    let port = head.port.unwrap_or(if connect { 443 } else { 80 });
    match target(&edge, &head.claim, port).await {
        Ok(target) if connect => {
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            first.drain(..length);
            connection::serve(edge, stream, target, first, Way::Caught).await;
        }
        Ok(target) => connection::serve(edge, stream, target, first, Way::Asked).await,
        Err(refused) => {
            refused.note(&edge, &stream, port).await;
            match refused {
                Refused::Denied(verdict, host) => {
                    let target = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), port);
                    let denial = Denial { verdict: &verdict, host: Some(&host), target };
                    let (body, kind) = denial.body(&edge.about, head.wants_json);
                    refuse::answer(stream, "403 Forbidden", kind, &body, false).await;
                }
                Refused::NoAddress(host) => {
                    let text = format!("Hothouse found no address of {host}.\n");
                    refuse::answer(stream, "502 Bad Gateway", kind, &text, false).await;
                }
            }
        }
    }
    Ok(())
}
