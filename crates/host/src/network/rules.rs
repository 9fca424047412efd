//! The packet rules of a room, as nf_tables messages.
//!
//! ```text
//! table inet hothouse {
//!   set datagrams { type inet_service; size 1024 }
//!   set echoes { type inet_proto; size 2 }
//!   chain redirect { type nat hook output priority -100
//!     udp dport 53 redirect to :15053
//!     tcp dport 53 redirect to :15053
//!     ip daddr 127.0.0.0/8 return
//!     ip6 daddr ::1 return
//!     meta l4proto tcp redirect to :15001
//!     udp dport @datagrams redirect to :15002
//!   }
//!   chain gate { type filter hook output priority 0; policy drop
//!     icmp type echo-request meta l4proto @echoes limit rate 50/second burst 100 packets log group 2 snaplen 9216 accept
//!     icmpv6 type echo-request meta l4proto @echoes limit rate 50/second burst 100 packets log group 2 snaplen 9216 accept
//!     ct state established,related accept
//!     ip daddr 127.0.0.0/8 accept
//!     ip6 daddr ::1 accept
//!     limit rate 20/second burst 60 packets log group 1 snaplen 96
//!   }
//!   chain silence { type filter hook input priority 0; policy accept
//!     icmp type echo-request ip daddr != 127.0.0.0/8 drop
//!     icmpv6 type echo-request ip6 daddr != ::1 drop
//!   }
//! }
//! ```
//!
//! Both sets are empty until the daemon fills them (`gate`), by rules that name a transport. Every
//! address is local here, so the room's own kernel would answer an echo request that passes the gate:
//! `silence` keeps it from that.
//!
//! Sent straight to the kernel: `nft` would cost a program start per room, and need not be
//! installed. The expressions are those that `nft --debug=netlink` prints for this text.

use super::log::{self, Book};
use super::netlink::{ACK, APPEND, CREATE, Message};
use super::{DATAGRAM_PORT, DNS_PORT, EGRESS_PORT};
use std::collections::BTreeSet;

const SUBSYSTEM: u16 = 10;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = (SUBSYSTEM << 8) | 3;
const NEW_RULE: u16 = (SUBSYSTEM << 8) | 6;
const NEW_SET: u16 = (SUBSYSTEM << 8) | 9;
const NEW_ELEMENT: u16 = (SUBSYSTEM << 8) | 12;
const DELETE_ELEMENT: u16 = (SUBSYSTEM << 8) | 14;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;

const FAMILY_INET: u8 = 1;
const HOOK_INPUT: u32 = 1;
const HOOK_OUTPUT: u32 = 3;
const TABLE: &str = "hothouse";
/// The ports to which datagrams are caught.
const DATAGRAMS: &str = "datagrams";
/// The protocols whose echo requests are caught.
const ECHOES: &str = "echoes";

/// How many ports the set holds.
pub(super) const PORTS: usize = 1024;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;
/// The protocols of echo requests, and their kind.
const ECHO_V4: (u8, u8) = (ICMP, 8);
const ECHO_V6: (u8, u8) = (ICMP_V6, 128);
const IPV4: u8 = 2;
const IPV6: u8 = 10;

const DROP: i32 = 0;
const ACCEPT: i32 = 1;
const RETURN: i32 = -5;

/// Whether the kernel tells of packets, in what it is asked to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Yes,
    No,
}

/// The whole rule set as one transaction, and how many verdicts to expect.
pub(super) fn transaction(told: Told) -> (Vec<u8>, usize) {
    let mut batch = Batch::default();
    batch.add(NEW_TABLE, 0, |m| m.text(1, TABLE));
    batch.set(DATAGRAMS, 1, 2, PORTS);
    batch.set(ECHOES, 2, 1, 2);
    batch.chain("redirect", "nat", (HOOK_OUTPUT, -100), ACCEPT);
    batch.chain("gate", "filter", (HOOK_OUTPUT, 0), DROP);
    batch.chain("silence", "filter", (HOOK_INPUT, 0), ACCEPT);
    batch.rule("redirect", |e| redirect(to_port(e.protocol(UDP), 53), DNS_PORT));
    batch.rule("redirect", |e| redirect(to_port(e.protocol(TCP), 53), DNS_PORT));
    batch.rule("redirect", |e| to_loopback_v4(e).verdict(RETURN));
    batch.rule("redirect", |e| to_loopback_v6(e).verdict(RETURN));
    batch.rule("redirect", |e| redirect(e.protocol(TCP), EGRESS_PORT));
    batch.rule("redirect", |e| {
        let port = e.protocol(UDP).payload(2, 2, 2).lookup(DATAGRAMS);
        redirect(port, DATAGRAM_PORT)
    });
    if told == Told::Yes {
        // First of all: once one of them is answered, the others are of a known connection.
        for echo in [ECHO_V4, ECHO_V6] {
            batch.rule("gate", |e| {
                let open = is_echo(e, echo).meta(PROTOCOL).lookup(ECHOES);
                open.limit(50, 100).log(&log::ECHOES).verdict(ACCEPT)
            });
        }
    }
    batch.rule("gate", |e| e.known_connection().verdict(ACCEPT));
    batch.rule("gate", |e| to_loopback_v4(e).verdict(ACCEPT));
    batch.rule("gate", |e| to_loopback_v6(e).verdict(ACCEPT));
    if told == Told::Yes {
        batch.rule("gate", |e| e.limit(20, 60).log(&log::DROPPED));
    }
    let loopback = std::net::Ipv6Addr::LOCALHOST.octets();
    batch.rule("silence", |e| {
        is_echo(e.family(IPV4), ECHO_V4).payload(1, 16, 1).differs(&[127]).verdict(DROP)
    });
    batch.rule("silence", |e| {
        is_echo(e.family(IPV6), ECHO_V6).payload(1, 24, 16).differs(&loopback).verdict(DROP)
    });
    batch.finish()
}

/// What is open besides, as one transaction, and how many verdicts to expect. What was open before
/// and is not named is shut.
pub(super) fn opening(ports: &BTreeSet<u16>, echo: bool) -> (Vec<u8>, usize) {
    let mut batch = Batch::default();
    let ports = ports.iter().take(PORTS).map(|port| port.to_be_bytes().to_vec());
    batch.fill(DATAGRAMS, &ports.collect::<Vec<_>>());
    let echoes = [ICMP, ICMP_V6].map(|protocol| vec![protocol]);
    batch.fill(ECHOES, if echo { &echoes } else { &[] });
    batch.finish()
}

fn is_echo(expressions: Expressions, (protocol, kind): (u8, u8)) -> Expressions {
    expressions.protocol(protocol).payload(2, 0, 1).equals(&[kind])
}

fn to_loopback_v4(expressions: Expressions) -> Expressions {
    expressions.family(IPV4).payload(1, 16, 1).equals(&[127])
}

fn to_loopback_v6(expressions: Expressions) -> Expressions {
    expressions.family(IPV6).payload(1, 24, 16).equals(&std::net::Ipv6Addr::LOCALHOST.octets())
}

fn to_port(expressions: Expressions, port: u16) -> Expressions {
    expressions.payload(2, 2, 2).equals(&port.to_be_bytes())
}

fn redirect(expressions: Expressions, port: u16) -> Expressions {
    expressions.load(&port.to_be_bytes()).redirect()
}

#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    count: u32,
}

impl Batch {
    fn add(&mut self, kind: u16, flags: u16, fill: impl FnOnce(Message) -> Message) {
        self.count += 1;
        let message =
            Message::new(kind, flags | CREATE | ACK, self.count).raw(&[FAMILY_INET, 0, 0, 0]);
        self.bytes.extend(fill(message).finish());
    }

    fn set(&mut self, name: &str, id: u32, key_length: u32, size: usize) {
        /// Spares the bitmap of all ports.
        const FOR_MEMORY: u32 = 1;
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.add(NEW_SET, 0, |m| {
            m.text(1, TABLE)
                .text(2, name)
                .number(3, 0)
                .number(4, 0)
                .number(5, key_length)
                .number(8, FOR_MEMORY)
                .nest(9, |m| m.number(1, size))
                .number(10, id)
        });
    }

    /// Replaces what a set holds.
    fn fill(&mut self, set: &str, keys: &[Vec<u8>]) {
        self.add(DELETE_ELEMENT, 0, |m| m.text(1, TABLE).text(2, set));
        if keys.is_empty() {
            return;
        }
        self.add(NEW_ELEMENT, 0, |m| {
            m.text(1, TABLE).text(2, set).nest(3, |m| {
                keys.iter().fold(m, |m, key| m.nest(1, |m| m.nest(1, |m| m.attribute(1, key))))
            })
        });
    }

    fn chain(&mut self, name: &str, kind: &str, (hook, priority): (u32, i32), policy: i32) {
        self.add(NEW_CHAIN, 0, |m| {
            m.text(1, TABLE)
                .text(3, name)
                .nest(4, |m| m.number(1, hook).number(2, priority.cast_unsigned()))
                .number(5, policy.cast_unsigned())
                .text(7, kind)
        });
    }

    fn rule(&mut self, chain: &str, fill: impl FnOnce(Expressions) -> Expressions) {
        self.add(NEW_RULE, APPEND, |m| {
            m.text(1, TABLE).text(2, chain).nest(4, |m| fill(Expressions(m)).0)
        });
    }

    fn finish(self) -> (Vec<u8>, usize) {
        let edge =
            |kind| Message::new(kind, 0, 0).raw(&[0, 0, 0, SUBSYSTEM.to_be_bytes()[1]]).finish();
        let bytes = [edge(BATCH_BEGIN), self.bytes, edge(BATCH_END)].concat();
        (bytes, self.count as usize)
    }
}

/// The expressions of one rule; all work on register 1.
struct Expressions(Message);

const REGISTER: u32 = 1;

/// The key of what carries a packet.
const PROTOCOL: u32 = 16;

impl Expressions {
    fn add(self, name: &str, fill: impl FnOnce(Message) -> Message) -> Self {
        Self(self.0.nest(1, |m| m.text(1, name).nest(2, fill)))
    }

    fn meta(self, key: u32) -> Self {
        self.add("meta", |m| m.number(1, REGISTER).number(2, key))
    }

    fn protocol(self, protocol: u8) -> Self {
        self.meta(PROTOCOL).equals(&[protocol])
    }

    /// Goes on if a set holds what was loaded last.
    fn lookup(self, set: &str) -> Self {
        self.add("lookup", |m| m.text(1, set).number(2, REGISTER))
    }

    fn family(self, family: u8) -> Self {
        self.meta(15).equals(&[family])
    }

    fn payload(self, base: u32, offset: u32, length: u32) -> Self {
        self.add("payload", |m| {
            m.number(1, REGISTER).number(2, base).number(3, offset).number(4, length)
        })
    }

    fn equals(self, value: &[u8]) -> Self {
        self.compare(0, value)
    }

    fn differs(self, value: &[u8]) -> Self {
        self.compare(1, value)
    }

    fn compare(self, operator: u32, value: &[u8]) -> Self {
        self.add("cmp", |m| {
            m.number(1, REGISTER).number(2, operator).nest(3, |m| m.attribute(1, value))
        })
    }

    fn load(self, value: &[u8]) -> Self {
        self.add("immediate", |m| m.number(1, REGISTER).nest(2, |m| m.attribute(1, value)))
    }

    fn redirect(self) -> Self {
        const PORT_GIVEN: u32 = 2;
        self.add("redir", |m| m.number(1, REGISTER).number(3, PORT_GIVEN))
    }

    /// Goes on for so many packets a second, and for some more at once.
    fn limit(self, rate: u64, burst: u32) -> Self {
        const PACKETS: u32 = 0;
        let second = 1_u64.to_be_bytes();
        self.add("limit", |m| {
            m.attribute(1, &rate.to_be_bytes())
                .attribute(2, &second)
                .number(3, burst)
                .number(4, PACKETS)
                .number(5, 0)
        })
    }

    fn log(self, book: &Book) -> Self {
        self.add("log", |m| {
            m.attribute(1, &book.group.to_be_bytes())
                .number(3, book.snap)
                .attribute(4, &1_u16.to_be_bytes())
        })
    }

    fn verdict(self, code: i32) -> Self {
        self.add("immediate", |m| {
            m.number(1, 0).nest(2, |m| m.nest(2, |m| m.number(1, code.cast_unsigned())))
        })
    }

    fn known_connection(self) -> Self {
        const ESTABLISHED_OR_RELATED: u32 = 6;
        let mask = ESTABLISHED_OR_RELATED.to_ne_bytes();
        let state = self.add("ct", |m| m.number(1, REGISTER).number(2, 0));
        let masked = state.add("bitwise", |m| {
            m.number(1, REGISTER)
                .number(2, REGISTER)
                .number(3, 4)
                .nest(4, |m| m.attribute(1, &mask))
                .nest(5, |m| m.attribute(1, &[0; 4]))
        });
        masked.differs(&[0; 4])
    }
}
