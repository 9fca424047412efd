//! The nftables rules of a room, as nf_tables messages.
//!
//! ```text
//! table inet hothouse {
//!   set datagrams { type inet_service; size 1024 }
//!   set echoes { type inet_proto; size 2 }
//!   chain redirect { type nat hook output priority -100
//!     udp dport 53 redirect to :15053
//!     tcp dport 53 redirect to :15053
//!     ip daddr 127.0.0.0/8 return
//!     ip daddr 198.51.100.2 return
//!     ip6 daddr ::1 return
//!     meta l4proto tcp redirect to :15001
//!     udp dport @datagrams redirect to :15002
//!   }
//!   chain gate { type filter hook output priority 0; policy drop
//!     icmp type echo-request meta l4proto @echoes limit rate 50/second burst 100 packets log group 2 snaplen 9216 accept
//!     icmpv6 type echo-request meta l4proto @echoes limit rate 50/second burst 100 packets log group 2 snaplen 9216 accept
//!     ct state established,related accept
//!     ip daddr 127.0.0.0/8 accept
//!     ip daddr 198.51.100.2 accept
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
//! Both sets are empty until the daemon fills them (`gate`) from allowlist entries that name a
//! transport. Every address is local here, so the room's own kernel would answer an echo request
//! that passes the gate: `silence` prevents that.
//!
//! The room's own address (`link`) reaches only the room, like loopback: programs that look up
//! their address reach each other through it.
//!
//! The rules are sent directly to the kernel: `nft` would cost a process per room, and may not be
//! installed. The expressions are those that `nft --debug=netlink` prints for this text.

use super::link;
use super::log::{self, Book};
use super::netfilter::*;
use super::netlink::{ACK, APPEND, CREATE, Message};
use super::{DATAGRAM_PORT, DNS_PORT, EGRESS_PORT};
use std::collections::BTreeSet;

const NEW_TABLE: u16 = message(NFT_MSG_NEWTABLE);
const NEW_CHAIN: u16 = message(NFT_MSG_NEWCHAIN);
const NEW_RULE: u16 = message(NFT_MSG_NEWRULE);
const NEW_SET: u16 = message(NFT_MSG_NEWSET);
const NEW_ELEMENT: u16 = message(NFT_MSG_NEWSETELEM);
const DELETE_ELEMENT: u16 = message(NFT_MSG_DELSETELEM);

const fn message(kind: u16) -> u16 {
    (NFNL_SUBSYS_NFTABLES << 8) | kind
}

const TABLE: &str = "hothouse";
/// The UDP ports that are redirected.
const DATAGRAMS: &str = "datagrams";
/// The protocols whose echo requests are logged for the daemon.
const ECHOES: &str = "echoes";

/// The capacity of the set of ports.
pub(super) const PORTS: usize = 1024;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;
/// The protocols of echo requests, and their ICMP type.
const ECHO_V4: (u8, u8) = (ICMP, 8);
const ECHO_V6: (u8, u8) = (ICMP_V6, 128);

/// The first byte of an IPv4 destination, which identifies loopback.
const DESTINATION_V4_NETWORK: Field = Field(NFT_PAYLOAD_NETWORK_HEADER, 16, 1);
const DESTINATION_V4: Field = Field(NFT_PAYLOAD_NETWORK_HEADER, 16, 4);
const DESTINATION_V6: Field = Field(NFT_PAYLOAD_NETWORK_HEADER, 24, 16);
const DESTINATION_PORT: Field = Field(NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2);
const ICMP_TYPE: Field = Field(NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1);

/// A field of a packet: header, offset, length.
#[derive(Clone, Copy)]
struct Field(u32, u32, u32);

/// Whether dropped packets are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Yes,
    No,
}

/// Returns the whole ruleset as one transaction, and the number of acknowledgements to expect.
pub(super) fn transaction(told: Told) -> (Vec<u8>, usize) {
    let mut batch = Batch::default();
    batch.add(NEW_TABLE, 0, |m| m.text(NFTA_TABLE_NAME, TABLE));
    batch.set(DATAGRAMS, 1, 2, PORTS);
    batch.set(ECHOES, 2, 1, 2);
    batch.chain("redirect", "nat", (NF_INET_LOCAL_OUT, -100), NF_ACCEPT);
    batch.chain("gate", "filter", (NF_INET_LOCAL_OUT, 0), NF_DROP);
    batch.chain("silence", "filter", (NF_INET_LOCAL_IN, 0), NF_ACCEPT);
    batch.rule("redirect", |e| redirect(to_port(e.protocol(UDP), 53), DNS_PORT));
    batch.rule("redirect", |e| redirect(to_port(e.protocol(TCP), 53), DNS_PORT));
    batch.rule("redirect", |e| to_loopback_v4(e).verdict(NFT_RETURN));
    batch.rule("redirect", |e| to_own_address(e).verdict(NFT_RETURN));
    batch.rule("redirect", |e| to_loopback_v6(e).verdict(NFT_RETURN));
    batch.rule("redirect", |e| redirect(e.protocol(TCP), EGRESS_PORT));
    batch.rule("redirect", |e| {
        let port = e.protocol(UDP).payload(DESTINATION_PORT).lookup(DATAGRAMS);
        redirect(port, DATAGRAM_PORT)
    });
    if told == Told::Yes {
        // These come first: once a request is answered, later ones belong to an established flow.
        for echo in [ECHO_V4, ECHO_V6] {
            batch.rule("gate", |e| {
                let open = is_echo(e, echo).meta(NFT_META_L4PROTO).lookup(ECHOES);
                open.limit(50, 100).log(&log::ECHOES).verdict(NF_ACCEPT)
            });
        }
    }
    batch.rule("gate", |e| e.known_connection().verdict(NF_ACCEPT));
    batch.rule("gate", |e| to_loopback_v4(e).verdict(NF_ACCEPT));
    batch.rule("gate", |e| to_own_address(e).verdict(NF_ACCEPT));
    batch.rule("gate", |e| to_loopback_v6(e).verdict(NF_ACCEPT));
    if told == Told::Yes {
        batch.rule("gate", |e| e.limit(20, 60).log(&log::DROPPED));
    }
    let loopback = std::net::Ipv6Addr::LOCALHOST.octets();
    batch.rule("silence", |e| {
        is_echo(e.family(NFPROTO_IPV4), ECHO_V4)
            .payload(DESTINATION_V4_NETWORK)
            .differs(&[127])
            .verdict(NF_DROP)
    });
    batch.rule("silence", |e| {
        is_echo(e.family(NFPROTO_IPV6), ECHO_V6)
            .payload(DESTINATION_V6)
            .differs(&loopback)
            .verdict(NF_DROP)
    });
    batch.finish()
}

/// Replaces the content of both sets in one transaction. Also returns the number of
/// acknowledgements to expect.
pub(super) fn opening(ports: &BTreeSet<u16>, echo: bool) -> (Vec<u8>, usize) {
    let mut batch = Batch::default();
    let ports = ports.iter().take(PORTS).map(|port| port.to_be_bytes().to_vec());
    batch.fill(DATAGRAMS, &ports.collect::<Vec<_>>());
    let echoes = [ICMP, ICMP_V6].map(|protocol| vec![protocol]);
    batch.fill(ECHOES, if echo { &echoes } else { &[] });
    batch.finish()
}

fn is_echo(expressions: Expressions, (protocol, kind): (u8, u8)) -> Expressions {
    expressions.protocol(protocol).payload(ICMP_TYPE).equals(&[kind])
}

fn to_loopback_v4(expressions: Expressions) -> Expressions {
    expressions.family(NFPROTO_IPV4).payload(DESTINATION_V4_NETWORK).equals(&[127])
}

fn to_own_address(expressions: Expressions) -> Expressions {
    let own = link::ADDRESS.octets();
    expressions.family(NFPROTO_IPV4).payload(DESTINATION_V4).equals(&own)
}

fn to_loopback_v6(expressions: Expressions) -> Expressions {
    expressions
        .family(NFPROTO_IPV6)
        .payload(DESTINATION_V6)
        .equals(&std::net::Ipv6Addr::LOCALHOST.octets())
}

fn to_port(expressions: Expressions, port: u16) -> Expressions {
    expressions.payload(DESTINATION_PORT).equals(&port.to_be_bytes())
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
            Message::new(kind, flags | CREATE | ACK, self.count).raw(&[NFPROTO_INET, 0, 0, 0]);
        self.bytes.extend(fill(message).finish());
    }

    fn set(&mut self, name: &str, id: u32, key_length: u32, size: usize) {
        /// Only used by `nft`, for printing.
        const NO_TYPE: u32 = 0;
        const NO_FLAGS: u32 = 0;
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.add(NEW_SET, 0, |m| {
            m.text(NFTA_SET_TABLE, TABLE)
                .text(NFTA_SET_NAME, name)
                .number(NFTA_SET_FLAGS, NO_FLAGS)
                .number(NFTA_SET_KEY_TYPE, NO_TYPE)
                .number(NFTA_SET_KEY_LEN, key_length)
                // Avoids a bitmap of all ports.
                .number(NFTA_SET_POLICY, NFT_SET_POL_MEMORY)
                .nest(NFTA_SET_DESC, |m| m.number(NFTA_SET_DESC_SIZE, size))
                .number(NFTA_SET_ID, id)
        });
    }

    /// Replaces the content of a set.
    fn fill(&mut self, set: &str, keys: &[Vec<u8>]) {
        let named =
            |m: Message| m.text(NFTA_SET_ELEM_LIST_TABLE, TABLE).text(NFTA_SET_ELEM_LIST_SET, set);
        self.add(DELETE_ELEMENT, 0, named);
        if keys.is_empty() {
            return;
        }
        let element = |m: Message, key: &Vec<u8>| {
            m.nest(NFTA_LIST_ELEM, |m| {
                m.nest(NFTA_SET_ELEM_KEY, |m| m.attribute(NFTA_DATA_VALUE, key))
            })
        };
        self.add(NEW_ELEMENT, 0, |m| {
            named(m).nest(NFTA_SET_ELEM_LIST_ELEMENTS, |m| keys.iter().fold(m, element))
        });
    }

    fn chain(&mut self, name: &str, kind: &str, (hook, priority): (u32, i32), policy: i32) {
        self.add(NEW_CHAIN, 0, |m| {
            m.text(NFTA_CHAIN_TABLE, TABLE)
                .text(NFTA_CHAIN_NAME, name)
                .nest(NFTA_CHAIN_HOOK, |m| {
                    m.number(NFTA_HOOK_HOOKNUM, hook)
                        .number(NFTA_HOOK_PRIORITY, priority.cast_unsigned())
                })
                .number(NFTA_CHAIN_POLICY, policy.cast_unsigned())
                .text(NFTA_CHAIN_TYPE, kind)
        });
    }

    fn rule(&mut self, chain: &str, fill: impl FnOnce(Expressions) -> Expressions) {
        self.add(NEW_RULE, APPEND, |m| {
            m.text(NFTA_RULE_TABLE, TABLE)
                .text(NFTA_RULE_CHAIN, chain)
                .nest(NFTA_RULE_EXPRESSIONS, |m| fill(Expressions(m)).0)
        });
    }

    fn finish(self) -> (Vec<u8>, usize) {
        let [_, subsystem] = NFNL_SUBSYS_NFTABLES.to_be_bytes();
        let edge = |kind| Message::new(kind, 0, 0).raw(&[0, 0, 0, subsystem]).finish();
        let bytes = [edge(NFNL_MSG_BATCH_BEGIN), self.bytes, edge(NFNL_MSG_BATCH_END)].concat();
        (bytes, self.count as usize)
    }
}

/// The expressions of one rule. All use register 1.
struct Expressions(Message);

const REGISTER: u32 = NFT_REG_1;

impl Expressions {
    fn add(self, name: &str, fill: impl FnOnce(Message) -> Message) -> Self {
        Self(
            self.0
                .nest(NFTA_LIST_ELEM, |m| m.text(NFTA_EXPR_NAME, name).nest(NFTA_EXPR_DATA, fill)),
        )
    }

    fn meta(self, key: u32) -> Self {
        self.add("meta", |m| m.number(NFTA_META_DREG, REGISTER).number(NFTA_META_KEY, key))
    }

    fn protocol(self, protocol: u8) -> Self {
        self.meta(NFT_META_L4PROTO).equals(&[protocol])
    }

    /// Continues if a set contains the loaded value.
    fn lookup(self, set: &str) -> Self {
        self.add("lookup", |m| m.text(NFTA_LOOKUP_SET, set).number(NFTA_LOOKUP_SREG, REGISTER))
    }

    fn family(self, family: u8) -> Self {
        self.meta(NFT_META_NFPROTO).equals(&[family])
    }

    fn payload(self, Field(base, offset, length): Field) -> Self {
        self.add("payload", |m| {
            m.number(NFTA_PAYLOAD_DREG, REGISTER)
                .number(NFTA_PAYLOAD_BASE, base)
                .number(NFTA_PAYLOAD_OFFSET, offset)
                .number(NFTA_PAYLOAD_LEN, length)
        })
    }

    fn equals(self, value: &[u8]) -> Self {
        self.compare(NFT_CMP_EQ, value)
    }

    fn differs(self, value: &[u8]) -> Self {
        self.compare(NFT_CMP_NEQ, value)
    }

    fn compare(self, operator: u32, value: &[u8]) -> Self {
        self.add("cmp", |m| {
            m.number(NFTA_CMP_SREG, REGISTER)
                .number(NFTA_CMP_OP, operator)
                .nest(NFTA_CMP_DATA, |m| m.attribute(NFTA_DATA_VALUE, value))
        })
    }

    fn load(self, value: &[u8]) -> Self {
        self.add("immediate", |m| {
            m.number(NFTA_IMMEDIATE_DREG, REGISTER)
                .nest(NFTA_IMMEDIATE_DATA, |m| m.attribute(NFTA_DATA_VALUE, value))
        })
    }

    fn redirect(self) -> Self {
        self.add("redir", |m| {
            m.number(NFTA_REDIR_REG_PROTO_MIN, REGISTER)
                .number(NFTA_REDIR_FLAGS, NF_NAT_RANGE_PROTO_SPECIFIED)
        })
    }

    /// Continues up to this rate of packets per second, with a burst.
    fn limit(self, rate: u64, burst: u32) -> Self {
        const NO_FLAGS: u32 = 0;
        let second = 1_u64.to_be_bytes();
        self.add("limit", |m| {
            m.attribute(NFTA_LIMIT_RATE, &rate.to_be_bytes())
                .attribute(NFTA_LIMIT_UNIT, &second)
                .number(NFTA_LIMIT_BURST, burst)
                .number(NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS)
                .number(NFTA_LIMIT_FLAGS, NO_FLAGS)
        })
    }

    fn log(self, book: &Book) -> Self {
        self.add("log", |m| {
            m.attribute(NFTA_LOG_GROUP, &book.group.to_be_bytes())
                .number(NFTA_LOG_SNAPLEN, book.snap)
                .attribute(NFTA_LOG_QTHRESHOLD, &1_u16.to_be_bytes())
        })
    }

    fn verdict(self, code: i32) -> Self {
        self.add("immediate", |m| {
            m.number(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT).nest(NFTA_IMMEDIATE_DATA, |m| {
                m.nest(NFTA_DATA_VERDICT, |m| m.number(NFTA_VERDICT_CODE, code.cast_unsigned()))
            })
        })
    }

    fn known_connection(self) -> Self {
        const LENGTH: u32 = 4;
        let mask = (CT_STATE_BIT_ESTABLISHED | CT_STATE_BIT_RELATED).to_ne_bytes();
        let state =
            self.add("ct", |m| m.number(NFTA_CT_DREG, REGISTER).number(NFTA_CT_KEY, NFT_CT_STATE));
        let masked = state.add("bitwise", |m| {
            m.number(NFTA_BITWISE_SREG, REGISTER)
                .number(NFTA_BITWISE_DREG, REGISTER)
                .number(NFTA_BITWISE_LEN, LENGTH)
                .nest(NFTA_BITWISE_MASK, |m| m.attribute(NFTA_DATA_VALUE, &mask))
                .nest(NFTA_BITWISE_XOR, |m| m.attribute(NFTA_DATA_VALUE, &[0; 4]))
        });
        masked.differs(&[0; 4])
    }
}
