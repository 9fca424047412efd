//! The network of a room: loopback, every address local, a dummy link, and sockets that receive
//! redirected outgoing traffic. Runs in the wall, before any process of the room.

mod gate;
mod link;
mod log;
mod netfilter;
mod netlink;
mod rules;
mod tracking;

use crate::system_error::{Context, SystemError};
use netlink::{ACK, CREATE, Message, REPLACE};
use rules::Told;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto,
    netlink as families,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub use gate::PacketGate;
pub use tracking::{Tracked, read_tracked};

/// The port to which TCP is redirected.
const EGRESS_PORT: u16 = 15_001;

/// The port to which UDP datagrams are redirected.
const DATAGRAM_PORT: u16 = 15_002;

/// The port to which DNS is redirected.
const DNS_PORT: u16 = 15_053;

const LOOPBACK_INDEX: u32 = 1;

/// The sockets that receive the room's outgoing traffic.
pub struct Catch {
    pub tcp: Vec<OwnedFd>,
    pub dns_datagram: Vec<OwnedFd>,
    pub dns_stream: Vec<OwnedFd>,
    /// Inactive until a daemon takes them: each is connected to itself, so the kernel refuses other
    /// senders.
    pub datagrams: Vec<OwnedFd>,
    /// Reports packets that the nftables rules dropped. `None` if the kernel does not support it.
    pub dropped: Option<OwnedFd>,
    /// Reports echo requests that a rule may allow. `None` if the kernel does not support it.
    pub echoes: Option<OwnedFd>,
    /// Sends packets with custom headers into the room, to answer echo requests.
    pub raw: Vec<OwnedFd>,
    /// The netlink socket for the nftables rules. Whoever uses it needs CAP_NET_ADMIN over the namespace too.
    pub rules: OwnedFd,
    pub has_ipv6: bool,
    /// Why the room lacks the link that makes it look online, if it does.
    pub no_link: Option<String>,
}

/// Brings the network up.
pub fn apply() -> Result<Catch, SystemError> {
    let route = open(None).context("open a route socket")?;
    talk(&route, &loopback_up(), 1).context("bring loopback up")?;
    talk(&route, &every_address_is_local(AddressFamily::INET), 1)
        .context("make every IPv4 address local")?;
    let has_ipv6 = talk(&route, &every_address_is_local(AddressFamily::INET6), 1).is_ok();
    let no_link = link::add(&route).err().map(|errno| std::io::Error::from(errno).to_string());
    let books = log::DROPPED.open().and_then(|dropped| Ok((dropped, log::ECHOES.open()?))).ok();
    let netfilter = open(Some(families::NETFILTER)).context("open a netfilter socket")?;
    let set = |told| {
        let (transaction, verdicts) = rules::transaction(told);
        talk(&netfilter, &transaction, verdicts)
    };
    // A kernel may support only one half of logging. Packets are dropped in any case.
    let books = match books {
        Some(books) if set(Told::Yes).is_ok() => Some(books),
        _ => {
            set(Told::No).context("set the nftables rules")?;
            None
        }
    };
    Ok(Catch { no_link, ..catch(has_ipv6, books, netfilter)? })
}

/// Binds to loopback addresses, never to the wildcard address: answers to redirected datagrams
/// would otherwise have the wrong port.
fn catch(
    has_ipv6: bool,
    books: Option<(OwnedFd, OwnedFd)>,
    rules: OwnedFd,
) -> Result<Catch, SystemError> {
    let v6 = has_ipv6.then_some(IpAddr::V6(Ipv6Addr::LOCALHOST));
    let addresses: Vec<IpAddr> = [IpAddr::V4(Ipv4Addr::LOCALHOST)].into_iter().chain(v6).collect();
    let all = |kind, port| -> Result<Vec<OwnedFd>, SystemError> {
        addresses
            .iter()
            .map(|address| bind(*address, port, kind).context("listen for the room's traffic"))
            .collect()
    };
    let datagrams = all(SocketType::DGRAM, DATAGRAM_PORT)?;
    for (socket, address) in datagrams.iter().zip(&addresses) {
        rustix::net::connect(socket, &SocketAddr::new(*address, DATAGRAM_PORT))
            .context("shut the socket of datagrams")?;
    }
    let (dropped, echoes) = books.unzip();
    // Without them, only echo requests remain unanswered.
    let raw = addresses.iter().map(|address| raw(*address)).collect::<Result<_, _>>();
    Ok(Catch {
        tcp: all(SocketType::STREAM, EGRESS_PORT)?,
        dns_datagram: all(SocketType::DGRAM, DNS_PORT)?,
        dns_stream: all(SocketType::STREAM, DNS_PORT)?,
        datagrams,
        dropped,
        echoes,
        raw: raw.unwrap_or_default(),
        rules,
        has_ipv6,
        no_link: None,
    })
}

fn raw(address: IpAddr) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family(address), SocketType::RAW, flags, Some(ipproto::RAW))
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn bind(address: IpAddr, port: u16, kind: SocketType) -> Result<OwnedFd, Errno> {
    let socket = rustix::net::socket_with(family(address), kind, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddr::new(address, port))?;
    if kind == SocketType::STREAM {
        rustix::net::listen(&socket, 4096)?;
    }
    Ok(socket)
}

fn loopback_up() -> Vec<u8> {
    const NEW_LINK: u16 = 16;
    const UP: u32 = 1;
    let words = [0, LOOPBACK_INDEX, UP, UP].map(u32::to_ne_bytes).concat();
    Message::new(NEW_LINK, ACK, 1).raw(&words).finish()
}

fn every_address_is_local(family: AddressFamily) -> Vec<u8> {
    const NEW_ROUTE: u16 = 24;
    const TABLE_LOCAL: u8 = 255;
    const BY_BOOT: u8 = 3;
    const SCOPE_HOST: u8 = 254;
    const TYPE_LOCAL: u8 = 2;
    const OUTPUT_INTERFACE: u16 = 4;
    let family = family.as_raw().to_ne_bytes()[0];
    let scope =
        if family == AddressFamily::INET.as_raw().to_ne_bytes()[0] { SCOPE_HOST } else { 0 };
    let head = [family, 0, 0, 0, TABLE_LOCAL, BY_BOOT, scope, TYPE_LOCAL, 0, 0, 0, 0];
    Message::new(NEW_ROUTE, ACK | CREATE | REPLACE, 1)
        .raw(&head)
        .attribute(OUTPUT_INTERFACE, &LOOPBACK_INDEX.to_ne_bytes())
        .finish()
}

/// Opens a netlink socket. `None` is the route family.
fn open(protocol: Option<Protocol>) -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        protocol,
    )
}

/// Sends one transaction and waits for its acknowledgements; returns the first failure.
fn talk(socket: &OwnedFd, transaction: &[u8], mut expected: usize) -> Result<(), Errno> {
    rustix::net::send(socket, transaction, SendFlags::empty())?;
    let mut answer = vec![0_u8; 32 << 10];
    while expected > 0 {
        let (length, _) = rustix::net::recv(socket, &mut answer[..], RecvFlags::empty())?;
        let verdicts = netlink::verdicts(&answer[..length]);
        if let Some(failed) = verdicts.iter().find(|verdict| verdict.errno != 0) {
            return Err(Errno::from_raw_os_error(failed.errno));
        }
        expected = expected.saturating_sub(verdicts.len());
    }
    Ok(())
}
