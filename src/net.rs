//! Addresses and endpoints, in one form for IPv4 and IPv6.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP address. IPv4 is held in its IPv4-mapped form (`::ffff:a.b.c.d`), which no packet on a wire may carry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Address(pub u128);

const MAPPED: u128 = 0xffff_0000_0000;

impl Address {
    /// From the four bytes of an IPv4 header, network order.
    #[inline]
    pub fn v4(bytes: [u8; 4]) -> Self {
        Address(MAPPED | u32::from_be_bytes(bytes) as u128)
    }

    /// From the sixteen bytes of an IPv6 header, network order.
    #[inline]
    pub fn v6(bytes: [u8; 16]) -> Self {
        Address(u128::from_be_bytes(bytes))
    }

    /// Whether this is an IPv4 address.
    pub fn is_v4(self) -> bool {
        self.0 >> 32 == 0xffff
    }

    /// The standard library's form.
    pub fn ip(self) -> IpAddr {
        if self.is_v4() { IpAddr::V4(Ipv4Addr::from(self.0 as u32)) } else { IpAddr::V6(Ipv6Addr::from(self.0)) }
    }

    /// Whether it names the host itself (127.0.0.0/8 or ::1).
    pub fn is_loopback(self) -> bool {
        self.ip().is_loopback()
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(a) => Address::v4(a.octets()),
            IpAddr::V6(a) => Address::v6(a.octets()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ip().fmt(f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ip().fmt(f)
    }
}

impl serde::Serialize for Address {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// An address and a TCP port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, serde::Serialize)]
pub struct Endpoint {
    /// The address.
    pub address: Address,
    /// The TCP port.
    pub port: u16,
}

impl Endpoint {
    /// An endpoint.
    #[inline]
    pub fn new(address: Address, port: u16) -> Self {
        Endpoint { address, port }
    }
}

/// `address:port`, IPv6 without brackets, as the contract has it.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.address, self.port)
    }
}

/// A network: an address and the length of its prefix, `192.0.2.0/24`. A bare address is a network of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: Address,
    /// Of the 128 bits of an [`Address`].
    prefix: u32,
}

/// A text that is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an address or a network such as 192.0.2.0/24 was required, {found:?} was there")]
pub struct NetworkError {
    /// What was there.
    pub found: String,
}

impl Network {
    /// The network of one address.
    pub fn of(address: Address) -> Network {
        Network { address, prefix: 128 }
    }

    /// Its first and its last address.
    pub fn ends(&self) -> (Address, Address) {
        let low = u128::MAX.checked_shr(self.prefix).unwrap_or(0);
        (Address(self.address.0 & !low), Address(self.address.0 | low))
    }

    /// Whether all of `other` lies in it.
    pub fn covers(&self, other: &Network) -> bool {
        let (first, last) = other.ends();
        self.contains(first) && self.contains(last)
    }

    /// The network of twice the size that it is a half of.
    pub fn parent(&self) -> Option<Network> {
        let least = if self.address.is_v4() { 96 } else { 0 };
        let prefix = self.prefix.checked_sub(1).filter(|p| *p >= least)?;
        let wide = Network { address: self.address, prefix };
        Some(Network { address: wide.ends().0, prefix })
    }

    /// Whether the address lies in it.
    pub fn contains(&self, address: Address) -> bool {
        let beside = 128 - self.prefix;
        beside >= 128 || (address.0 >> beside) == (self.address.0 >> beside)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.ends().0;
        let (bits, above) = if self.address.is_v4() && self.prefix >= 96 { (32, 96) } else { (128, 0) };
        match self.prefix.saturating_sub(above) {
            length if length == bits => first.fmt(f),
            length => write!(f, "{first}/{length}"),
        }
    }
}

impl std::str::FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let error = || NetworkError { found: text.chars().take(80).collect() };
        let (address, length) = match text.trim().split_once('/') {
            Some((a, l)) => (a, Some(l)),
            None => (text.trim(), None),
        };
        let ip: IpAddr = address.parse().map_err(|_| error())?;
        let bits: u32 = if ip.is_ipv4() { 32 } else { 128 };
        let length = match length {
            Some(l) => l.parse().ok().filter(|l| *l <= bits).ok_or_else(error)?,
            None => bits,
        };
        Ok(Network { address: ip.into(), prefix: 128 - bits + length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_print_as_people_write_them() {
        assert_eq!(Endpoint::new(Address::v4([192, 0, 2, 11]), 29500).to_string(), "192.0.2.11:29500");
        let six: IpAddr = "2001:db8::11".parse().unwrap();
        assert_eq!(Endpoint::new(six.into(), 1).to_string(), "2001:db8::11:1");
        assert!(Address::from(six).0 != 0 && !Address::from(six).is_v4());
    }

    #[test]
    fn a_network_holds_its_addresses() {
        let net: Network = "192.0.2.0/24".parse().unwrap();
        assert!(net.contains(Address::v4([192, 0, 2, 250])) && !net.contains(Address::v4([192, 0, 3, 1])));
        let one: Network = "2001:db8::1".parse().unwrap();
        let of = |t: &str| Address::from(t.parse::<IpAddr>().unwrap());
        assert!(one.contains(of("2001:db8::1")) && !one.contains(of("2001:db8::2")));
        assert!("0.0.0.0/0".parse::<Network>().unwrap().contains(Address::v4([8, 8, 8, 8])));
        assert!("::/0".parse::<Network>().unwrap().contains(Address::v4([8, 8, 8, 8])));
        assert!("192.0.2.0/24".parse::<Network>().unwrap().covers(&"192.0.2.128/25".parse().unwrap()));
        assert!(!"192.0.2.128/25".parse::<Network>().unwrap().covers(&net));
        for text in ["192.0.2.0/24", "0.0.0.0/0", "192.0.2.7", "2001:db8::/64", "2001:db8::7", "::/0"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        let parent = |t: &str| t.parse::<Network>().unwrap().parent().map(|n| n.to_string());
        assert_eq!(parent("192.0.2.7"), Some("192.0.2.6/31".to_owned()));
        assert_eq!((parent("0.0.0.0/0"), parent("::/0")), (None, None));
        for bad in ["", "192.0.2.0/33", "node-a", "192.0.2.0/"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
