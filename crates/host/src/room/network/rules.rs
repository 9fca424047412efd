//! The packet rules of a room, as nf_tables messages.
//!
//! ```text
//! table inet hothouse {
//!   chain redirect { type nat hook output priority -100
//!     udp dport 53 redirect to :15053
//!     tcp dport 53 redirect to :15053
//!     ip daddr 127.0.0.0/8 return
//!     ip6 daddr ::1 return
//!     meta l4proto tcp redirect to :15001
//!   }
//!   chain gate { type filter hook output priority 0; policy drop
//!     ct state established,related accept
//!     ip daddr 127.0.0.0/8 accept
//!     ip6 daddr ::1 accept
//!     limit rate 20/second burst 60 packets log group 1 snaplen 96
//!   }
//! }
//! ```
//!
//! Sent straight to the kernel: `nft` would cost a program start per room, and need not be
//! installed. The expressions are those that `nft --debug=netlink` prints for this text.

use super::netlink::{ACK, APPEND, CREATE, Message};
use super::{DNS_PORT, EGRESS_PORT};

const SUBSYSTEM: u16 = 10;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = (SUBSYSTEM << 8) | 3;
const NEW_RULE: u16 = (SUBSYSTEM << 8) | 6;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;

const FAMILY_INET: u8 = 1;
const HOOK_OUTPUT: u32 = 3;
const TABLE: &str = "hothouse";

const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV4: u8 = 2;
const IPV6: u8 = 10;

const ACCEPT: i32 = 1;
const RETURN: i32 = -5;

/// Whether the kernel tells what it drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Yes,
    No,
}

/// The whole rule set as one transaction, and how many verdicts to expect.
pub(super) fn transaction(told: Told) -> (Vec<u8>, usize) {
    let mut batch = Batch::default();
    batch.add(NEW_TABLE, 0, |m| m.text(1, TABLE));
    batch.chain("redirect", "nat", -100, ACCEPT);
    batch.chain("gate", "filter", 0, 0);
    batch.rule("redirect", |e| redirect(to_port(e.protocol(UDP), 53), DNS_PORT));
    batch.rule("redirect", |e| redirect(to_port(e.protocol(TCP), 53), DNS_PORT));
    batch.rule("redirect", |e| to_loopback_v4(e).verdict(RETURN));
    batch.rule("redirect", |e| to_loopback_v6(e).verdict(RETURN));
    batch.rule("redirect", |e| redirect(e.protocol(TCP), EGRESS_PORT));
    batch.rule("gate", |e| e.known_connection().verdict(ACCEPT));
    batch.rule("gate", |e| to_loopback_v4(e).verdict(ACCEPT));
    batch.rule("gate", |e| to_loopback_v6(e).verdict(ACCEPT));
    if told == Told::Yes {
        batch.rule("gate", |e| e.limit(20, 60).log());
    }
    batch.finish()
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

    fn chain(&mut self, name: &str, kind: &str, priority: i32, policy: i32) {
        self.add(NEW_CHAIN, 0, |m| {
            m.text(1, TABLE)
                .text(3, name)
                .nest(4, |m| m.number(1, HOOK_OUTPUT).number(2, priority.cast_unsigned()))
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

impl Expressions {
    fn add(self, name: &str, fill: impl FnOnce(Message) -> Message) -> Self {
        Self(self.0.nest(1, |m| m.text(1, name).nest(2, fill)))
    }

    fn meta(self, key: u32) -> Self {
        self.add("meta", |m| m.number(1, REGISTER).number(2, key))
    }

    fn protocol(self, protocol: u8) -> Self {
        self.meta(16).equals(&[protocol])
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

    fn log(self) -> Self {
        self.add("log", |m| {
            m.attribute(1, &super::log::GROUP.to_be_bytes())
                .number(3, super::log::SNAP)
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
        masked.compare(1, &[0; 4])
    }
}
