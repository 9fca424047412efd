//! Built-in lists of hosts: common development hosts, and public resolvers.

use crate::config::{Destination, HostName};

/// The bundled list, one host per line. Package registries are not on it: `@toolchain` asks the
/// host's own tools which ones they use.
pub const COMMON_HOSTS: &str = include_str!("common-hosts.txt");

/// Resolvers over TLS or HTTPS, with which a room could look up names unseen.
const PUBLIC_RESOLVERS: &[&str] = &[
    "dns.google",
    "dns64.dns.google",
    "8888.google",
    "cloudflare-dns.com",
    "one.one.one.one",
    "cloudflare-gateway.com",
    "quad9.net",
    "dns.opendns.com",
    "doh.opendns.com",
    "umbrella.com",
    "nextdns.io",
    "adguard-dns.com",
    "adguard-dns.io",
    "dns.adguard.com",
    "cleanbrowsing.org",
    "controld.com",
    "dns.mullvad.net",
    "doh.mullvad.net",
    "dns0.eu",
    "joindns4.eu",
    "dns.sb",
    "doh.sb",
    "dns.alidns.com",
    "doh.pub",
    "dot.pub",
    "doh.360.cn",
    "doh.libredns.gr",
    "dns.digitale-gesellschaft.ch",
    "doh.applied-privacy.net",
    "doh.ffmuc.net",
    "dnsforge.de",
    "dns.switch.ch",
    "doh.li",
    "wikimedia-dns.org",
    "doh.xfinity.com",
    "dns.njal.la",
    "doh.dnscrypt.ca",
    "odoh.cloudflare-dns.com",
];

/// Parses the bundled list.
pub fn common_hosts() -> Vec<Destination> {
    let lines = COMMON_HOSTS.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).filter_map(|line| line.parse().ok()).collect()
}

/// Returns whether a name is a public resolver, or below one.
pub fn is_public_resolver(name: &HostName) -> bool {
    PUBLIC_RESOLVERS.iter().any(|known| {
        let rest = name.as_str().strip_suffix(known);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_line_of_the_bundled_list_is_a_host_and_none_stands_twice() {
        let lines = COMMON_HOSTS.lines().map(|line| line.split('#').next().unwrap().trim());
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        assert_eq!(common_hosts().len(), lines.len(), "a line is no host");
        assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), lines.len(), "a line stands twice");
        assert!((140..=170).contains(&lines.len()), "{} hosts", lines.len());
        assert!(!lines.contains(&"*"), "the list names its hosts");
    }

    #[test]
    fn resolvers_are_known_with_what_is_below_them() {
        let is = |text: &str| is_public_resolver(&text.parse().unwrap());
        assert!(is("dns.google") && is("mozilla.cloudflare-dns.com") && is("dns.quad9.net"));
        assert!(!is("google") && !is("github.com") && !is("notdns.sb.example"));
    }
}
