//! Queries the host's resolvers, and caches their answers.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hothouse_host::{files, random};
use hothouse_model::config::HostName;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    sync::Semaphore,
    time::timeout,
};

use crate::wire::dns::{self, Answered, Code, Question};

const RESOLV_CONF: &str = "/etc/resolv.conf";
/// How long an answer is cached.
const FRESH: Duration = Duration::from_secs(5);

/// The timeouts of a server, for the first and second attempt. Resolvers in rooms wait five
/// seconds.
const PATIENCE: [Duration; 2] = [Duration::from_millis(1500), Duration::from_millis(2500)];
const STREAM_PATIENCE: Duration = Duration::from_secs(3);
const SERVERS: usize = 3;

const CACHE: usize = 4096;
/// Answers are cached no longer than this, so that changes are noticed soon, and no shorter,
/// because a room can ask often.
const LONGEST: Duration = Duration::from_secs(300);
const SHORTEST: Duration = Duration::from_secs(1);
/// How long negative answers are cached.
const NOTHING: Duration = Duration::from_secs(10);

/// How many questions of one room may be in progress.
const IN_FLIGHT: usize = 256;

/// A cached answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Empty, if the name exists, means that it has only records of other types.
    pub addresses: Vec<IpAddr>,
    pub exists: bool,
    pub ttl: u32,
}

/// A question that got no answer.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    #[error("{RESOLV_CONF} names no resolver")]
    NoServer,
    #[error("no resolver of the host answered")]
    Silent,
    #[error("the host's resolver failed")]
    Failed,
    #[error("ask the host's resolver")]
    Talk(#[source] io::Error),
}

/// The servers to query: those that the user has set, or the host's.
#[derive(Debug, Default)]
pub struct Servers {
    set: Vec<SocketAddr>,
    system: Mutex<Option<(Instant, Vec<SocketAddr>)>>,
}

impl Servers {
    /// Uses these servers, or the host's if there are none.
    pub fn new(set: Vec<SocketAddr>) -> Self {
        Self { set, system: Mutex::default() }
    }

    fn list(&self) -> Vec<SocketAddr> {
        if !self.set.is_empty() {
            return self.set.clone();
        }
        let mut system = self.system.lock().unwrap_or_else(PoisonError::into_inner);
        match &*system {
            Some((read, servers)) if read.elapsed() < FRESH => servers.clone(),
            _ => {
                let text = files::read_text(Path::new(RESOLV_CONF)).unwrap_or_default();
                let servers = parse_servers(&text);
                *system = Some((Instant::now(), servers.clone()));
                servers
            }
        }
    }
}

/// Parses the servers of a `resolv.conf`.
fn parse_servers(text: &str) -> Vec<SocketAddr> {
    let words = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next()).flatten()
    });
    // A percent sign may be followed by an interface.
    let addresses = words.filter_map(|word| word.split('%').next()?.parse::<IpAddr>().ok());
    addresses.take(SERVERS).map(|address| SocketAddr::new(address, 53)).collect()
}

/// An answer, and for how long it may be cached.
#[derive(Debug)]
struct Remembered {
    noted: Instant,
    until: Instant,
    found: Found,
}

/// The resolver of one room.
#[derive(Debug)]
pub struct Resolver {
    servers: Arc<Servers>,
    cache: Mutex<HashMap<(HostName, u16), Remembered>>,
    in_flight: Semaphore,
}

impl Resolver {
    /// Creates a resolver that queries these servers.
    pub fn new(servers: Arc<Servers>) -> Self {
        Self { servers, cache: Mutex::default(), in_flight: Semaphore::new(IN_FLIGHT) }
    }

    /// Returns the cached answer for a name.
    pub fn remembered(&self, name: &HostName, kind: u16) -> Option<Found> {
        let now = Instant::now();
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let known = cache.get(&(name.clone(), kind)).filter(|known| known.until > now)?;
        let left = known.until.duration_since(now).as_secs();
        Some(Found { ttl: u32::try_from(left).unwrap_or(u32::MAX).max(1), ..known.found.clone() })
    }

    /// Looks up the addresses of a name, of one type.
    pub async fn lookup(&self, name: &HostName, kind: u16) -> Result<Found, LookupError> {
        if let Some(found) = self.remembered(name, kind) {
            return Ok(found);
        }
        let id = u16::from_be_bytes(random::bytes());
        let question = dns::ask(id, name.as_str(), kind).ok_or(LookupError::Failed)?;
        let (_, answered) = self.ask(&question).await?;
        let (exists, life) = match answered.code {
            code if code == Code::Fine as u8 => {
                let life = answered.ttl.map_or(NOTHING, |ttl| Duration::from_secs(ttl.into()));
                (true, if answered.addresses.is_empty() { life.min(NOTHING) } else { life })
            }
            code if code == Code::NoName as u8 => (false, NOTHING),
            _ => return Err(LookupError::Failed),
        };
        let life = life.clamp(SHORTEST, LONGEST);
        let ttl = u32::try_from(life.as_secs()).unwrap_or(1);
        let found = Found { addresses: answered.addresses, exists, ttl };
        self.remember(name, kind, found.clone(), life);
        Ok(found)
    }

    /// Looks up both types of addresses in parallel. One type is enough.
    pub async fn addresses(&self, name: &HostName) -> Result<Vec<IpAddr>, LookupError> {
        let (v4, v6) =
            tokio::join!(self.lookup(name, dns::TYPE_A), self.lookup(name, dns::TYPE_AAAA));
        match (v4, v6) {
            (Ok(v4), Ok(v6)) => Ok([v4.addresses, v6.addresses].concat()),
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one.addresses),
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// Forwards a question of another type, and returns the raw answer.
    pub async fn relay(&self, question: &Question) -> Result<Vec<u8>, LookupError> {
        let asked = question.asked(u16::from_be_bytes(random::bytes()));
        let (answer, _) = self.ask(&asked).await?;
        question.relay(&answer).ok_or(LookupError::Failed)
    }

    fn remember(&self, name: &HostName, kind: u16, found: Found, life: Duration) {
        let now = Instant::now();
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= CACHE {
            cache.retain(|_, known| known.until > now);
        }
        if cache.len() >= CACHE
            && let Some(oldest) =
                cache.iter().min_by_key(|(_, known)| known.noted).map(|(key, _)| key.clone())
        {
            cache.remove(&oldest);
        }
        let known = Remembered { noted: now, until: now + life, found };
        cache.insert((name.clone(), kind), known);
    }

    async fn ask(&self, question: &[u8]) -> Result<(Vec<u8>, Answered), LookupError> {
        let Ok(_permit) = self.in_flight.acquire().await else { return Err(LookupError::Silent) };
        let servers = self.servers.list();
        if servers.is_empty() {
            return Err(LookupError::NoServer);
        }
        let mut last = LookupError::Silent;
        for patience in PATIENCE {
            for server in &servers {
                match timeout(patience, by_datagram(*server, question)).await {
                    Ok(Ok((_, answered))) if answered.cut => {
                        match timeout(STREAM_PATIENCE, by_stream(*server, question)).await {
                            Ok(Ok(answer)) => return Ok(answer),
                            Ok(Err(error)) => last = LookupError::Talk(error),
                            Err(_) => last = LookupError::Silent,
                        }
                    }
                    // Another server may have an answer.
                    Ok(Ok((_, answered)))
                        if answered.code == Code::Failed as u8
                            || answered.code == Code::Refused as u8 =>
                    {
                        last = LookupError::Failed
                    }
                    Ok(Ok(answer)) => return Ok(answer),
                    Ok(Err(error)) => last = LookupError::Talk(error),
                    Err(_) => {}
                }
            }
        }
        Err(last)
    }
}

async fn by_datagram(server: SocketAddr, question: &[u8]) -> io::Result<(Vec<u8>, Answered)> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // A new port for each question, so that a forger has to guess port and id.
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut buffer = vec![0; 4096];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if let Some(answered) = dns::read_answer(question, &buffer[..length]) {
            buffer.truncate(length);
            return Ok((buffer, answered));
        }
    }
}

async fn by_stream(server: SocketAddr, question: &[u8]) -> io::Result<(Vec<u8>, Answered)> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], question].concat()).await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; length.into()];
    stream.read_exact(&mut answer).await?;
    let answered = dns::read_answer(question, &answer);
    let answered = answered.ok_or_else(|| io::Error::other("it answered something else"))?;
    Ok((answer, answered))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_of_a_host_are_read() {
        let text = "# comment\nsearch lan\nnameserver 127.0.0.53\nnameserver fe80::1%eth0\n\
                    options edns0\nnameserver nonsense\nnameserver 9.9.9.9\nnameserver 8.8.8.8\n";
        let expected: Vec<SocketAddr> = ["127.0.0.53:53", "[fe80::1]:53", "9.9.9.9:53"]
            .map(|text| text.parse().unwrap())
            .into();
        assert_eq!(parse_servers(text), expected);
        assert_eq!(parse_servers(""), []);
    }

    /// Starts a server that answers with one address, only over TCP if the name says so.
    async fn server() -> SocketAddr {
        let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = tcp.local_addr().unwrap();
        let udp = UdpSocket::bind(at).await.unwrap();
        let answer = |bytes: &[u8]| {
            let question = Question::read(bytes).unwrap();
            match &question.claim {
                claim if claim.name().is_some_and(|name| name.as_str() == "none.example") => {
                    question.empty(Code::NoName)
                }
                _ => question.addresses(&["1.2.3.4".parse().unwrap()], 30),
            }
        };
        tokio::spawn(async move {
            let mut buffer = [0; 1500];
            while let Ok((length, from)) = udp.recv_from(&mut buffer).await {
                let mut bytes = answer(&buffer[..length]);
                if buffer[..length].windows(5).any(|part| part == b"large") {
                    bytes[2] |= 2;
                    bytes[7] = 0;
                    bytes.truncate(bytes.len() - 16 - 11);
                    bytes[11] = 0;
                }
                udp.send_to(&bytes, from).await.unwrap();
            }
        });
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = tcp.accept().await {
                let length = stream.read_u16().await.unwrap();
                let mut bytes = vec![0; length.into()];
                stream.read_exact(&mut bytes).await.unwrap();
                let bytes = answer(&bytes);
                stream.write_u16(u16::try_from(bytes.len()).unwrap()).await.unwrap();
                stream.write_all(&bytes).await.unwrap();
            }
        });
        at
    }

    #[tokio::test]
    async fn answers_come_by_datagram_or_stream_and_are_remembered() {
        let resolver = Resolver::new(Arc::new(Servers::new(vec![server().await])));
        for name in ["a.example", "large.example"] {
            let name = name.parse().unwrap();
            assert_eq!(resolver.remembered(&name, dns::TYPE_A), None);
            let found = resolver.lookup(&name, dns::TYPE_A).await.unwrap();
            assert_eq!(found.addresses, ["1.2.3.4".parse::<IpAddr>().unwrap()]);
            assert_eq!(resolver.remembered(&name, dns::TYPE_A).unwrap().addresses, found.addresses);
        }
        let none = "none.example".parse().unwrap();
        let found = resolver.lookup(&none, dns::TYPE_A).await.unwrap();
        assert!(!found.exists && found.addresses.is_empty());
    }

    #[test]
    fn the_memory_is_bounded() {
        let resolver = Resolver::new(Arc::default());
        for number in 0..CACHE + 10 {
            let name = format!("h{number}.example").parse().unwrap();
            let found = Found { addresses: Vec::new(), exists: true, ttl: 60 };
            resolver.remember(&name, dns::TYPE_A, found, Duration::from_secs(60));
        }
        assert_eq!(resolver.cache.lock().unwrap().len(), CACHE);
    }
}
