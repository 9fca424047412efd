//! The addresses of this host, as the kernel lists them.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv6Addr},
    path::Path,
};

use crate::files;

/// Returns every address that this host has, of both kinds.
pub fn own() -> Vec<IpAddr> {
    let v4 = files::read_text(Path::new("/proc/net/fib_trie")).unwrap_or_default();
    let v6 = files::read_text(Path::new("/proc/net/if_inet6")).unwrap_or_default();
    let all: BTreeSet<IpAddr> = local_v4(&v4).into_iter().chain(local_v6(&v6)).collect();
    all.into_iter().collect()
}

/// Reads the local addresses out of the routing tree: an address, then `/32 host LOCAL`.
fn local_v4(text: &str) -> Vec<IpAddr> {
    let mut found = Vec::new();
    let mut last: Option<IpAddr> = None;
    for line in text.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ").and_then(|rest| rest.parse().ok()) {
            last = Some(address);
        } else if line.starts_with("/32 host LOCAL") {
            found.extend(last);
        }
    }
    found
}

fn local_v6(text: &str) -> Vec<IpAddr> {
    let words = text.lines().filter_map(|line| line.split_whitespace().next());
    let bits = words.filter_map(|word| u128::from_str_radix(word, 16).ok());
    bits.map(|bits| Ipv6Addr::from_bits(bits).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_read() {
        let text = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 192.0.2.0\n        /24 link UNICAST\n     \
                    |-- 192.0.2.2\n        /32 host LOCAL\n     |-- 192.0.2.255\n        /32 link BROADCAST\n";
        assert_eq!(local_v4(text), ["192.0.2.2".parse::<IpAddr>().unwrap()]);
        let text = "fd000000000000000000000000000002 02 40 00 80     eth0\nnonsense\n";
        assert_eq!(local_v6(text), ["fd00::2".parse::<IpAddr>().unwrap()]);
        assert!(own().contains(&"127.0.0.1".parse().unwrap()), "{:?}", own());
    }
}
