//! The kind of network that an address belongs to. Everything except the public Internet is out of reach by default.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// The kind of network of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sphere {
    Public,
    Unspecified,
    Loopback,
    Private,
    LinkLocal,
    /// Cloud metadata services, which hand out credentials.
    Metadata,
    /// Shared by the customers of one provider (RFC 6598).
    Shared,
    Multicast,
    /// Set aside: documentation, benchmarks, future use.
    Reserved,
    /// An address of this host.
    OwnHost,
}

impl Sphere {
    /// Returns whether a registry of the host's own tools may have such an address. Reserved addresses count: a mirror
    /// in a network without Internet access may use one.
    pub fn may_hold_registries(self) -> bool {
        matches!(self, Self::Private | Self::Shared | Self::Reserved)
    }
}

impl fmt::Display for Sphere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "a public address",
            Self::Unspecified => "not a host address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "a cloud metadata address",
            Self::Shared => "a provider's own address",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
            Self::OwnHost => "an address of this host",
        })
    }
}

/// The number of synthetic addresses of each version.
pub const STAND_INS: u32 = 16_384;

/// The first synthetic address of each version, which rooms get for names.
///
/// Apps' guards against SSRF refuse private and reserved addresses, so these look public. No host answers there: the
/// owner of the first block keeps it off the Internet, the second was returned when the 6bone ended (RFC 3701). Here
/// they are [`Sphere::Reserved`], so a connection to one that was not given out is denied, and none is ever dialled.
const STAND_IN_V4: u32 = u32::from_be_bytes([55, 233, 64, 0]);
const STAND_IN_V6: u128 = 0x3ffe << 112;

/// Returns the synthetic addresses for a number below [`STAND_INS`].
pub fn stand_ins(number: u32) -> [IpAddr; 2] {
    [
        Ipv4Addr::from_bits(STAND_IN_V4 + number).into(),
        Ipv6Addr::from_bits(STAND_IN_V6 + u128::from(number)).into(),
    ]
}

/// Returns the number of a synthetic address.
pub fn stand_in_number(address: IpAddr) -> Option<u32> {
    let number = match address.to_canonical() {
        IpAddr::V4(address) => address.to_bits().checked_sub(STAND_IN_V4)?,
        IpAddr::V6(address) => u32::try_from(address.to_bits().checked_sub(STAND_IN_V6)?).ok()?,
    };
    (number < STAND_INS).then_some(number)
}

fn is_stand_in(address: IpAddr) -> bool {
    stand_in_number(address).is_some()
}

/// Returns the kind of network of an address. One that embeds an IPv4 address is judged by that.
pub fn sphere_of(address: IpAddr) -> Sphere {
    match address.to_canonical() {
        IpAddr::V4(address) => sphere_of_v4(address),
        IpAddr::V6(address) => sphere_of_v6(address),
    }
}

fn sphere_of_v4(address: Ipv4Addr) -> Sphere {
    match address.octets() {
        [0, ..] => Sphere::Unspecified,
        [127, ..] => Sphere::Loopback,
        // AWS, GCP, Azure, OpenStack; Alibaba; Oracle; Azure's second.
        [169, 254, 169, 254] | [100, 100, 100, 200] | [192, 0, 0, 192] | [168, 63, 129, 16] => {
            Sphere::Metadata
        }
        [169, 254, ..] => Sphere::LinkLocal,
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] => Sphere::Private,
        [100, 64..=127, ..] => Sphere::Shared,
        [224..=239, ..] => Sphere::Multicast,
        [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [240..=255, ..] => Sphere::Reserved,
        _ if is_stand_in(IpAddr::V4(address)) => Sphere::Reserved,
        _ => Sphere::Public,
    }
}

fn sphere_of_v6(address: Ipv6Addr) -> Sphere {
    let segments = address.segments();
    if let Some(inside) = carried(address) {
        return sphere_of_v4(inside);
    }
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => Sphere::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Sphere::Loopback,
        [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254] => Sphere::Metadata,
        [0xfe80..=0xfebf, ..] => Sphere::LinkLocal,
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Sphere::Private,
        [0xff00..=0xffff, ..] => Sphere::Multicast,
        // Documentation, Teredo, ORCHID, SRv6 and discard-only blocks.
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] | [0x2001, 0..=0x01ff, ..] => {
            Sphere::Reserved
        }
        [0x5f00, ..] => Sphere::Reserved,
        _ if is_stand_in(IpAddr::V6(address)) => Sphere::Reserved,
        // The public Internet uses 2000::/3.
        [0x2000..=0x3fff, ..] => Sphere::Public,
        _ => Sphere::Reserved,
    }
}

/// Returns the embedded IPv4 address of forms that lead there: IPv4-compatible, NAT64 (RFC 6052, RFC 8215), 6to4.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 1, _, _, _, high, low]
        | [0x2002, high, low, ..] => Some(of(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_internet_is_public() {
        for (text, sphere) in [
            ("1.1.1.1", Sphere::Public),
            ("::ffff:1.1.1.1", Sphere::Public),
            ("2606:4700:4700::1111", Sphere::Public),
            ("64:ff9b::101:101", Sphere::Public),
            ("0.0.0.0", Sphere::Unspecified),
            ("0.1.2.3", Sphere::Unspecified),
            ("::", Sphere::Unspecified),
            ("127.8.0.1", Sphere::Loopback),
            ("::1", Sphere::Loopback),
            ("::ffff:127.0.0.1", Sphere::Loopback),
            ("::127.0.0.1", Sphere::Loopback),
            ("64:ff9b::7f00:1", Sphere::Loopback),
            ("2002:7f00:1::", Sphere::Loopback),
            ("::ffff:0:127.0.0.1", Sphere::Loopback),
            ("10.0.0.1", Sphere::Private),
            ("172.31.255.255", Sphere::Private),
            ("172.32.0.1", Sphere::Public),
            ("192.168.1.1", Sphere::Private),
            ("64:ff9b::a00:1", Sphere::Private),
            ("fd12::1", Sphere::Private),
            ("169.254.169.254", Sphere::Metadata),
            ("::ffff:169.254.169.254", Sphere::Metadata),
            ("fd00:ec2::254", Sphere::Metadata),
            ("168.63.129.16", Sphere::Metadata),
            ("169.254.0.1", Sphere::LinkLocal),
            ("fe80::1", Sphere::LinkLocal),
            ("100.64.0.1", Sphere::Shared),
            ("224.0.0.1", Sphere::Multicast),
            ("ff02::1", Sphere::Multicast),
            ("255.255.255.255", Sphere::Reserved),
            ("198.18.0.1", Sphere::Reserved),
            ("2001:db8::1", Sphere::Reserved),
            ("2001:0:4136::1", Sphere::Reserved),
            ("100::1", Sphere::Reserved),
            ("55.233.63.255", Sphere::Public),
            ("55.233.64.0", Sphere::Reserved),
            ("55.233.127.255", Sphere::Reserved),
            ("55.233.128.0", Sphere::Public),
            ("3ffe::3fff", Sphere::Reserved),
        ] {
            assert_eq!(sphere_of(text.parse().unwrap()), sphere, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_mapped_address_is_where_its_inner_one_is(bits: u32) {
            let inner = Ipv4Addr::from_bits(bits);
            prop_assert_eq!(sphere_of(inner.to_ipv6_mapped().into()), sphere_of(inner.into()));
        }
    }
}
