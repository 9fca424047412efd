//! The ledger of what rooms tried to reach: one record per connection, lookup or request.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    policy::{ReasonCode, RecordedCode},
    words::word_type,
};

word_type! {
    /// What was tried.
    AttemptKind {
        Connection = "connection",
        /// A name was looked up. Only denials are recorded: the rest shows up as connections.
        Lookup = "lookup",
        /// Traffic without a connection: datagrams between two endpoints, or echo requests.
        Datagram = "datagram",
        /// A visible request: to a terminated host, or in plain HTTP.
        Request = "request",
    }
}

/// A process of the room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomProcess {
    /// Its pid in the room.
    pub pid: u32,
    pub name: String,
    /// The service that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// One record. A connection has two with the same `id`, one when it opens and one when it ends; the later one counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerRecord {
    /// Counts the records of a sandbox.
    pub seq: u64,
    pub id: String,
    pub time: Timestamp,
    #[serde(default)]
    pub run: String,
    pub kind: AttemptKind,
    pub allowed: bool,
    pub rule: String,
    /// The stable code of the reason.
    #[serde(default)]
    pub code: Option<RecordedCode>,
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub host: Option<String>,
    #[serde(default)]
    pub address: Option<IpAddr>,
    #[serde(default)]
    pub port: Option<u16>,
    #[serde(default)]
    pub protocol: Option<String>,
    /// Bytes sent by the room.
    #[serde(default)]
    pub sent: u64,
    /// Bytes received by the room.
    #[serde(default)]
    pub received: u64,
    #[serde(default)]
    pub duration_ms: u64,
    #[serde(default)]
    pub process: Option<RoomProcess>,
    #[serde(default)]
    pub open: bool,
    /// Whether its requests were visible and have their own records.
    #[serde(default)]
    pub inspected: bool,
    /// What went wrong although it was allowed.
    #[serde(default)]
    pub error: Option<String>,
    /// The request and its response, where visible; without secrets.
    #[serde(default)]
    pub request: Option<serde_json::Value>,
    /// The bodies of the request, for readers that keep more of a run than its ledger.
    #[serde(skip)]
    pub bodies: Option<Arc<RequestBodies>>,
}

/// What is kept of the bodies of a request and its response, as sent over the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestBodies {
    pub request: Vec<u8>,
    pub response: Vec<u8>,
    /// Whether their headers say that they may be compressed.
    pub packed: bool,
}

/// Proposes rules for what was denied: hosts, with a port unless it is one that is open anyway. A lookup is skipped if
/// a connection to the same host follows.
pub fn learn(records: &[LedgerRecord]) -> Vec<Learned> {
    let mut found: Vec<Learned> = Vec::new();
    let connects = |record: &&LedgerRecord| record.kind != AttemptKind::Lookup && !record.allowed;
    let connected: BTreeSet<_> =
        records.iter().filter(connects).filter_map(|record| record.host.as_deref()).collect();
    let is_more = |record: &&LedgerRecord| {
        let host = record.host.as_deref().unwrap_or_default();
        record.kind != AttemptKind::Lookup || !connected.contains(host)
    };
    for record in records.iter().filter(|record| !record.allowed).filter(is_more) {
        let Some(rule) = mending(record) else { continue };
        let process = record.process.as_ref().map(|process| process.name.clone());
        match found.iter_mut().find(|known| known.rule == rule) {
            Some(known) => {
                known.attempts += 1;
                known.last = known.last.max(record.time);
                if let Some(process) = process.filter(|name| !known.processes.contains(name)) {
                    known.processes.push(process);
                }
            }
            None => found.push(Learned {
                rule,
                attempts: 1,
                last: record.time,
                processes: process.into_iter().collect(),
            }),
        }
    }
    found
        .sort_by(|left, right| right.attempts.cmp(&left.attempts).then(left.rule.cmp(&right.rule)));
    found
}

/// Returns the rule that would allow an attempt. Reasons without a rule are attacks or mistakes, which a rule could not
/// or should not fix.
fn mending(record: &LedgerRecord) -> Option<String> {
    let port = record.port;
    match (record.kind, record.code.as_ref()?.known()?) {
        (AttemptKind::Datagram, ReasonCode::NotListed | ReasonCode::Datagram) => {
            let host = record.host.clone().or_else(|| Some(record.address?.to_string()))?;
            match (record.protocol.as_deref()?, port) {
                ("UDP", Some(port)) if host.contains(':') => Some(format!("[{host}]:{port}/udp")),
                ("UDP", Some(port)) => Some(format!("{host}:{port}/udp")),
                ("ICMP", _) => Some(format!("{host}/icmp")),
                _ => None,
            }
        }
        (AttemptKind::Datagram, _) => None,
        (_, ReasonCode::NotListed | ReasonCode::Port) => {
            let host = record.host.clone()?;
            let usual = |port: &u16| matches!(port, 22 | 80 | 443);
            match port.filter(|port| !usual(port)) {
                Some(port) => Some(format!("{host}:{port}")),
                None => Some(host),
            }
        }
        _ => None,
    }
}

/// A rule that would allow what was denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learned {
    pub rule: String,
    pub attempts: usize,
    pub last: Timestamp,
    pub processes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(host: &str, port: u16, code: Option<&str>) -> LedgerRecord {
        LedgerRecord {
            seq: 1,
            id: "1".into(),
            time: Timestamp::UNIX_EPOCH,
            run: String::new(),
            kind: AttemptKind::Connection,
            allowed: code.is_none(),
            rule: "r".into(),
            code: code.map(|word| RecordedCode::read(word.to_owned())),
            reason: None,
            host: Some(host.into()),
            address: None,
            port: Some(port),
            protocol: None,
            sent: 0,
            received: 0,
            duration_ms: 0,
            process: Some(RoomProcess { pid: 2, name: "curl".into(), service: None }),
            open: false,
            inspected: false,
            error: None,
            request: None,
            bodies: None,
        }
    }

    #[test]
    fn rules_are_learned_from_what_a_rule_would_allow() {
        let learned = learn(&[
            record("a.example", 443, Some("not-listed")),
            record("a.example", 80, Some("not-listed")),
            record("b.example", 5432, Some("port")),
            record("c.example", 443, None),
            record("d.example", 443, Some("name-mismatch")),
        ]);
        let rules: Vec<_> =
            learned.iter().map(|rule| (rule.rule.as_str(), rule.attempts)).collect();
        assert_eq!(rules, [("a.example", 2), ("b.example:5432", 1)]);
        assert_eq!(learned[0].processes, ["curl"]);
    }

    #[test]
    fn a_lookup_and_the_connection_after_it_make_one_rule() {
        let lookup = |host: &str| LedgerRecord {
            kind: AttemptKind::Lookup,
            port: None,
            ..record(host, 0, Some("not-listed"))
        };
        let learned = learn(&[
            lookup("a.example"),
            record("a.example", 8080, Some("not-listed")),
            lookup("b.example"),
        ]);
        let rules: Vec<_> = learned.iter().map(|rule| rule.rule.as_str()).collect();
        assert_eq!(rules, ["a.example:8080", "b.example"]);
    }

    #[test]
    fn rules_for_datagrams_are_learned_but_not_for_places_that_are_closed() {
        let sent =
            |host: Option<&str>, protocol: &str, port: Option<u16>, code: &str| LedgerRecord {
                kind: AttemptKind::Datagram,
                host: host.map(str::to_owned),
                address: Some("2001:4860::1".parse().unwrap()),
                protocol: Some(protocol.into()),
                port,
                ..record("", 0, Some(code))
            };
        let learned = learn(&[
            sent(Some("time.example"), "UDP", Some(123), "datagram"),
            sent(Some("new.example"), "UDP", Some(443), "not-listed"),
            sent(None, "UDP", Some(9), "datagram"),
            sent(Some("a.example"), "ICMP", None, "datagram"),
            sent(None, "UDP", Some(5353), "not-public"),
            sent(None, "IP protocol 132", None, "datagram"),
            sent(Some("key.example"), "UDP", Some(443), "sealed"),
        ]);
        let mut rules: Vec<_> = learned.iter().map(|rule| rule.rule.as_str()).collect();
        rules.sort_unstable();
        assert_eq!(
            rules,
            [
                "[2001:4860::1]:9/udp",
                "a.example/icmp",
                "new.example:443/udp",
                "time.example:123/udp"
            ]
        );
        for rule in rules {
            assert!(rule.parse::<crate::config::Destination>().is_ok(), "{rule}");
        }
    }

    #[test]
    fn a_record_of_an_older_release_can_be_read() {
        let text = r#"{"seq":1,"id":"x","time":"2026-01-01T00:00:00Z","kind":"lookup","allowed":false,"rule":"r"}"#;
        let record: LedgerRecord = serde_json::from_str(text).unwrap();
        assert_eq!(record.kind, AttemptKind::Lookup);
    }

    #[test]
    fn an_unknown_code_is_read_and_written_as_it_is() {
        for (word, known) in [("sealed", Some(ReasonCode::Sealed)), ("of-tomorrow", None)] {
            let written = serde_json::to_string(&record("a.example", 443, Some(word))).unwrap();
            assert!(written.contains(&format!(r#""code":"{word}""#)), "{written}");
            let read: LedgerRecord = serde_json::from_str(&written).unwrap();
            let code = read.code.clone().unwrap();
            assert_eq!((code.as_str(), code.known()), (word, known));
            assert_eq!(serde_json::to_string(&read).unwrap(), written);
            assert_eq!(learn(&[read]), []);
        }
    }
}
