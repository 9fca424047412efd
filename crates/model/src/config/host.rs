//! Host names, and the patterns that rules use for them.

use std::{borrow::Cow, fmt, net::IpAddr, str::FromStr};

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

use super::{
    problem::{Complaint, shown},
    text::TextRule,
};

/// A host name in the only form that is compared: lower case, no trailing dot, ASCII.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

/// The hosts that a rule covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    /// Exactly this name.
    Name(HostName),
    /// Every name below this one, at any depth, but not the name itself: `*.example.com`.
    Below(HostName),
}

/// A block of addresses, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

pub const HOST_PATTERN: TextRule = TextRule {
    what: "a host such as `api.example.com` or `*.example.com`",
    pattern: Some(
        "^(\\*\\.)?[A-Za-z0-9_\\u0080-\\uFFFF-]+(\\.[A-Za-z0-9_\\u0080-\\uFFFF-]+)*\\.?$",
    ),
    check: |text| text.parse::<HostPattern>().map(|_| ()),
};

impl HostName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether this name is `suffix` or below it.
    pub fn is_within(&self, suffix: &Self) -> bool {
        let rest = self.0.strip_suffix(&suffix.0);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }
}

impl HostPattern {
    /// Returns whether the pattern matches `host`.
    pub fn matches(&self, host: &HostName) -> bool {
        match self {
            Self::Name(name) => name == host,
            Self::Below(name) => name != host && host.is_within(name),
        }
    }
}

impl HostPattern {
    /// Returns whether the pattern matches every host that `other` matches.
    pub fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Name(name)) => self.matches(name),
            (Self::Below(ours), Self::Below(theirs)) => theirs.is_within(ours),
            (Self::Name(_), Self::Below(_)) => false,
        }
    }
}

impl Network {
    /// Returns the first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the number of fixed leading bits.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Returns whether the block holds `address`; an IPv4-mapped address counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                masked_v4(theirs.to_bits(), self.prefix) == ours.to_bits()
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                masked_v6(theirs.to_bits(), self.prefix) == ours.to_bits()
            }
            _ => false,
        }
    }
}

fn masked_v4(bits: u32, prefix: u8) -> u32 {
    bits & u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

fn masked_v6(bits: u128, prefix: u8) -> u128 {
    bits & u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

impl FromStr for HostName {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        if text.is_empty() {
            return Err(Complaint::new("cannot be empty"));
        }
        let Some(ascii) = ascii_form(text) else {
            let message = format!(
                "must be a host, and `{}` is not a valid internationalized name",
                shown(text)
            );
            return Err(Complaint::new(message));
        };
        let name = ascii.strip_suffix('.').unwrap_or(&ascii).to_ascii_lowercase();
        if name.len() > 253 || !name.split('.').all(is_label) || ends_in_number(&name) {
            let message = format!("must be {}, not `{}`", HOST_PATTERN.what, shown(text));
            return Err(Complaint::new(message));
        }
        Ok(Self(name))
    }
}

/// Returns the ASCII form of an internationalized name (UTS 46, as in browsers), which is used for
/// comparisons and requests; `None` if the name has none. A name that is already ASCII is checked
/// only if it has a label such as `xn--…`.
pub(crate) fn ascii_form(text: &str) -> Option<Cow<'_, str>> {
    let stands_for_another =
        |label: &str| label.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case("xn--"));
    if text.is_ascii() && !text.split('.').any(stands_for_another) {
        return Some(Cow::Borrowed(text));
    }
    // The caller checks which ASCII characters are allowed.
    let (letters, hyphens) = (AsciiDenyList::EMPTY, Hyphens::Allow);
    Uts46::new().to_ascii(text.as_bytes(), letters, hyphens, DnsLength::Ignore).ok()
}

fn is_label(label: &str) -> bool {
    let alphabet = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&label.len())
        && label.bytes().all(alphabet)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Returns whether resolvers would treat the name as an address (`127.1`, `0x7f.1`): WHATWG URL,
/// "ends in a number".
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let hexadecimal =
        last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_hexdigit()));
    hexadecimal || last.bytes().all(|byte| byte.is_ascii_digit())
}

impl FromStr for HostPattern {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        if text == "*" {
            return Err(Complaint::new("must name its hosts: `*` is too wide here"));
        }
        let below = text.strip_prefix("*.");
        if below.unwrap_or(text).contains('*') {
            let message =
                format!("may have `*` only as its whole first label, unlike `{}`", shown(text));
            return Err(Complaint::new(message));
        }
        match below {
            Some(name) => name.parse().map(Self::Below),
            None => text.parse().map(Self::Name),
        }
    }
}

impl FromStr for Network {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        let wrong = || {
            Complaint::new(format!(
                "must be an address or a block such as `10.0.0.0/8`, not `{}`",
                shown(text)
            ))
        };
        let (address, prefix) =
            text.split_once('/').map_or((text, None), |(left, right)| (left, Some(right)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(most), |prefix| prefix.parse::<u8>().map_err(|_| wrong()))?;
        if prefix > most {
            return Err(wrong());
        }
        let network = Self { address: first_address(address, prefix), prefix };
        if network.address == address {
            return Ok(network);
        }
        Err(Complaint::new(format!(
            "has bits below its prefix: write `{network}`, not `{}`",
            shown(text)
        )))
    }
}

fn first_address(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4(masked_v4(address.to_bits(), prefix).into()),
        IpAddr::V6(address) => IpAddr::V6(masked_v6(address.to_bits(), prefix).into()),
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Below(name) => write!(f, "*.{name}"),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.address.is_ipv4() { 32 } else { 128 };
        match self.prefix {
            prefix if prefix == whole => self.address.fmt(f),
            prefix => write!(f, "{}/{prefix}", self.address),
        }
    }
}

/// Implements serde for a type as text, with `FromStr` and `Display`.
macro_rules! serde_as_text {
    ($($name:ty),+) => { $(
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+ };
}
pub(super) use serde_as_text;

serde_as_text!(HostName, HostPattern);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_includes_what_is_narrower() {
        for (wide, narrow, includes) in [
            ("*.example.com", "api.example.com", true),
            ("*.example.com", "*.eu.example.com", true),
            ("*.example.com", "*.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.eu.example.com", "*.example.com", false),
            ("example.com", "*.example.com", false),
            ("example.com", "example.com", true),
        ] {
            let pattern = |text: &str| text.parse::<HostPattern>().unwrap();
            assert_eq!(pattern(wide).includes(&pattern(narrow)), includes, "{wide} {narrow}");
        }
    }

    #[test]
    fn a_host_has_one_written_form() {
        for (text, form) in [
            ("API.Example.com.", "api.example.com"),
            ("*.Example.com", "*.example.com"),
            ("localhost", "localhost"),
            ("_dmarc.example.com", "_dmarc.example.com"),
            ("Bücher.de", "xn--bcher-kva.de"),
            ("*.ｂücher。de", "*.xn--bcher-kva.de"),
        ] {
            assert_eq!(text.parse::<HostPattern>().unwrap().to_string(), form);
        }
        let long = format!("{}.com", "a".repeat(64));
        for bad in [
            "",
            ".",
            "a..b",
            "-a.com",
            "a-.com",
            "*",
            "a.*.com",
            "*a.com",
            "xn--bücher.de",
            "xn--github-.com",
            "a\u{fffd}.de",
            "a b",
            "127.1",
            "0x7f.1",
            "a/b",
            "a:1",
            &long,
        ] {
            assert!(bad.parse::<HostPattern>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_wildcard_means_what_is_below_it_and_not_itself() {
        let pattern: HostPattern = "*.example.com".parse().unwrap();
        for (host, hit) in [
            ("a.example.com", true),
            ("a.b.example.com", true),
            ("example.com", false),
            ("badexample.com", false),
        ] {
            assert_eq!(pattern.matches(&host.parse().unwrap()), hit, "{host}");
        }
    }

    #[test]
    fn a_network_contains_its_addresses_and_mapped_ones() {
        let network: Network = "10.0.0.0/8".parse().unwrap();
        for (address, hit) in
            [("10.1.2.3", true), ("11.0.0.1", false), ("::ffff:10.0.0.1", true), ("::1", false)]
        {
            assert_eq!(network.contains(address.parse().unwrap()), hit, "{address}");
        }
        assert!("0.0.0.0/0".parse::<Network>().unwrap().contains("1.2.3.4".parse().unwrap()));
        assert!("::/0".parse::<Network>().unwrap().contains("2001:db8::1".parse().unwrap()));
        for bad in ["10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0/8", "", "/8", "::1/129"] {
            assert!(bad.parse::<Network>().is_err(), "{bad:?}");
        }
    }
}
