//! Fault injection, by recipient.

use std::{collections::BTreeSet, time::Duration};

/// The faults of a mail server. The first matching rule applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub rules: Vec<FaultRule>,
    /// What was greylisted in earlier sessions, as keys of [`greylist_key`]: it is accepted now.
    pub known: BTreeSet<String>,
}

/// A fault for some recipients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRule {
    /// An address, in which `*` matches any part, such as `*@example.com`.
    pub recipient: String,
    pub fault: Fault,
}

/// What breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Refused permanently, like an unknown mailbox.
    Reject,
    /// Refused temporarily, every time.
    Defer,
    /// Refused temporarily, the first time.
    Greylist,
    /// Accepted, but late.
    Slow(Duration),
}

/// The result for a recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept { after: Duration },
    Refuse(&'static str),
    Greylist { key: String },
}

/// The result for a mail sent through an API, which accepts all recipients or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallVerdict {
    Accept {
        after: Duration,
    },
    Reject {
        recipient: String,
    },
    /// With the keys of greylisted recipients, which are accepted the next time.
    Defer {
        recipient: String,
        greylisted: Vec<String>,
    },
}

impl Faults {
    /// Decides on all recipients of a mail. The worst result counts.
    pub fn decide_call<'a>(
        &self,
        from: &str,
        recipients: impl IntoIterator<Item = &'a str>,
    ) -> CallVerdict {
        let (mut late, mut greylisted, mut deferred) = (Duration::ZERO, Vec::new(), None);
        for to in recipients {
            match self.decide(from, to) {
                Verdict::Accept { after } => late = late.max(after),
                Verdict::Refuse(reply) if reply.starts_with('5') => {
                    return CallVerdict::Reject { recipient: to.to_owned() };
                }
                Verdict::Refuse(_) => deferred = deferred.or_else(|| Some(to.to_owned())),
                Verdict::Greylist { key } => {
                    greylisted.push(key);
                    deferred = deferred.or_else(|| Some(to.to_owned()));
                }
            }
        }
        match deferred {
            Some(recipient) => CallVerdict::Defer { recipient, greylisted },
            None => CallVerdict::Accept { after: late },
        }
    }

    /// Decides on a recipient.
    pub(super) fn decide(&self, from: &str, to: &str) -> Verdict {
        let rule = self.rules.iter().find(|rule| fits(&rule.recipient, to));
        let key = greylist_key(from, to);
        match rule.map(|rule| rule.fault) {
            Some(Fault::Reject) => Verdict::Refuse("550 5.1.1 No such mailbox (fault: reject)"),
            Some(Fault::Defer) => Verdict::Refuse("451 4.3.0 Try again later (fault: defer)"),
            Some(Fault::Greylist) if !self.known.contains(&key) => Verdict::Greylist { key },
            Some(Fault::Slow(after)) => Verdict::Accept { after },
            Some(Fault::Greylist) | None => Verdict::Accept { after: Duration::ZERO },
        }
    }
}

/// Returns the greylisting key of a sender and a recipient.
pub fn greylist_key(from: &str, to: &str) -> String {
    format!("{} {}", from.to_ascii_lowercase(), to.to_ascii_lowercase())
}

/// Returns whether an address matches a pattern with `*`.
fn fits(pattern: &str, address: &str) -> bool {
    let (pattern, address) = (pattern.to_ascii_lowercase(), address.to_ascii_lowercase());
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == address };
    let Some(mut left) = address.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_whole_addresses_in_any_case() {
        for (pattern, address, expected) in [
            ("*", "a@b.example", true),
            ("*@b.example", "A@B.example", true),
            ("a@b.example", "aa@b.example", false),
            ("a*@*.example", "abc@d.example", true),
            ("a*a", "a", false),
            ("*@b.example", "a@b.example.com", false),
        ] {
            assert_eq!(fits(pattern, address), expected, "{pattern} {address}");
        }
    }

    #[test]
    fn a_call_is_taken_for_all_recipients_or_none() {
        let rule = |recipient: &str, fault| FaultRule { recipient: recipient.into(), fault };
        let faults = Faults {
            rules: vec![
                rule("no@*", Fault::Reject),
                rule("later@*", Fault::Defer),
                rule("grey@*", Fault::Greylist),
                rule("slow@*", Fault::Slow(Duration::from_secs(2))),
            ],
            known: BTreeSet::new(),
        };
        let of = |all: &[&str]| faults.decide_call("f@x", all.iter().copied());
        assert_eq!(of(&["a@y"]), CallVerdict::Accept { after: Duration::ZERO });
        assert_eq!(of(&["a@y", "slow@y"]), CallVerdict::Accept { after: Duration::from_secs(2) });
        assert_eq!(of(&["later@y", "no@y"]), CallVerdict::Reject { recipient: "no@y".into() });
        let CallVerdict::Defer { recipient, greylisted } = of(&["a@y", "grey@y"]) else { panic!() };
        assert_eq!((recipient.as_str(), greylisted), ("grey@y", vec!["f@x grey@y".to_owned()]));
    }

    #[test]
    fn the_first_rule_counts_and_greylisting_ends() {
        let rule = |recipient: &str, fault| FaultRule { recipient: recipient.into(), fault };
        let mut faults = Faults {
            rules: vec![rule("ok@*", Fault::Slow(Duration::ZERO)), rule("*", Fault::Greylist)],
            known: BTreeSet::new(),
        };
        let accept = Verdict::Accept { after: Duration::ZERO };
        assert_eq!(faults.decide("f@x", "ok@y"), accept);
        let Verdict::Greylist { key } = faults.decide("f@x", "b@y") else {
            panic!("not greylisted")
        };
        faults.known.insert(key);
        assert_eq!(faults.decide("F@x", "B@y"), accept);
    }
}
