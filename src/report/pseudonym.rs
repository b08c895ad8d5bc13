//! Tokens in the place of names: the same wherever and whenever the same thing stands.

use std::net::{IpAddr, Ipv6Addr};

use sha2::{Digest, Sha256};

use crate::net::{Address, Endpoint};

/// Turns names, addresses and contents into tokens.
///
/// A token is a hash of a key and the thing. Without a key, whoever guesses the thing can check the guess; with one,
/// nobody can who lacks the key.
#[derive(Clone, Debug, Default)]
pub struct Pseudonyms {
    key: Vec<u8>,
    /// Names that go wherever they stand as words, the longest first: `node-10` before `node-1`.
    names: Vec<String>,
}

impl Pseudonyms {
    /// Tokens of this key; those of no key are of the empty one.
    pub fn new(key: &[u8]) -> Pseudonyms {
        Pseudonyms { key: key.to_vec(), names: Vec::new() }
    }

    /// The same, for texts in which these names may stand.
    pub fn with_names<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Pseudonyms {
        let wanted = |n: &&str| n.len() > 1 && n.parse::<IpAddr>().is_err();
        self.names.extend(names.into_iter().filter(wanted).map(str::to_string));
        self.names.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.names.dedup();
        self
    }

    /// A token for `thing`, which is one of `kind`: `host-1a2b3c4d`.
    pub fn token(&self, kind: &str, thing: impl AsRef<[u8]>) -> String {
        let [a, b, c, d] = self.digest(kind, thing.as_ref());
        format!("{kind}-{a:02x}{b:02x}{c:02x}{d:02x}")
    }

    /// A token for an address: `ip-1a2b3c4d`.
    pub fn address(&self, address: Address) -> String {
        self.token("ip", address.to_string())
    }

    /// An address for packets in which that one must not stand: `fd00::1a2b:3c4d` where texts have `ip-1a2b3c4d`.
    pub fn stand_in(&self, address: Address) -> Ipv6Addr {
        let low = u32::from_be_bytes(self.digest("ip", address.to_string().as_bytes()));
        Ipv6Addr::from((0xfd00_u128 << 112) | u128::from(low))
    }

    /// `ip-1a2b3c4d:29500`: ports stay.
    pub fn endpoint(&self, endpoint: Endpoint) -> String {
        format!("{}:{}", self.address(endpoint.address), endpoint.port)
    }

    /// A text without the names that are known, and without addresses.
    pub fn text(&self, text: &str) -> String {
        self.addresses_out(&self.names.iter().fold(text.to_string(), |t, name| self.name_out(&t, name)))
    }

    fn digest(&self, kind: &str, thing: &[u8]) -> [u8; 4] {
        let mut hash = Sha256::new();
        hash.update(b"rdzvscope redaction");
        hash.update((self.key.len() as u64).to_le_bytes());
        hash.update(&self.key);
        hash.update(kind.as_bytes());
        hash.update([0]);
        hash.update(thing);
        let digest = hash.finalize();
        [digest[0], digest[1], digest[2], digest[3]]
    }

    /// Replaces `name` where it stands as a word of its own.
    fn name_out(&self, text: &str, name: &str) -> String {
        if !text.contains(name) {
            return text.to_string();
        }
        let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(name) {
            let before = rest[..at].chars().next_back().or_else(|| out.chars().next_back());
            let after = rest[at + name.len()..].chars().next();
            out.push_str(&rest[..at]);
            if before.is_some_and(part_of_word) || after.is_some_and(part_of_word) {
                out.push_str(name);
            } else {
                out.push_str(&self.token("host", name));
            }
            rest = &rest[at + name.len()..];
        }
        out.push_str(rest);
        out
    }

    /// Replaces IPv4 and IPv6 addresses, with or without a port behind them.
    fn addresses_out(&self, text: &str) -> String {
        let of_address = |c: char| c.is_ascii_hexdigit() || c == '.' || c == ':';
        let mut out = String::with_capacity(text.len());
        let mut word = String::new();
        for c in text.chars().chain(std::iter::once('\0')) {
            if of_address(c) {
                word.push(c);
                continue;
            }
            out.push_str(&self.address_out(&word));
            word.clear();
            if c != '\0' {
                out.push(c);
            }
        }
        out
    }

    fn address_out(&self, word: &str) -> String {
        let parsed = |t: &str| -> Option<Address> {
            let ip: IpAddr = t.parse().ok()?;
            (t.contains('.') || t.matches(':').count() >= 2).then(|| Address::from(ip))
        };
        let trimmed = word.trim_end_matches([':', '.']);
        for (text, tail) in [(word, ""), (trimmed, &word[trimmed.len()..])] {
            if let Some(address) = parsed(text) {
                return format!("{}{tail}", self.address(address));
            }
            if let Some((address, port)) = text.rsplit_once(':')
                && let Some(address) = parsed(address)
                && port.parse::<u16>().is_ok()
            {
                return format!("{}:{port}{tail}", self.address(address));
            }
        }
        word.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_and_times_stay() {
        let veil = Pseudonyms::default();
        let text = veil.text("from 192.0.2.11:29500 (2001:db8::11) at 11:20:10.652448Z, 1.13.0 of 2001:db8::11:29500.");
        assert!(!text.contains("192.0.2") && !text.contains("db8"), "{text}");
        assert!(text.contains("11:20:10.652448Z") && text.contains("1.13.0") && text.contains(":29500"), "{text}");
        let address = Address::v4([192, 0, 2, 11]);
        assert_eq!(veil.text("192.0.2.11 "), format!("{} ", veil.address(address)));
        assert_eq!(veil.text("192.0.2.11:80: x"), format!("{}:80: x", veil.address(address)));
    }

    #[test]
    fn an_address_is_one_thing_however_it_is_spelt() {
        let veil = Pseudonyms::default();
        let short = veil.text("2001:db8::11");
        assert_eq!(short, veil.text("2001:0db8:0:0::11"));
        assert!(!veil.text("fe80:: or 2001:db8::").contains("::"), "an address may end in colons");
    }

    #[test]
    fn names_go_as_words() {
        let veil = Pseudonyms::default().with_names(["node-1", "node-10"]);
        let text = veil.text("node-1 and node-10, xnode-1x; node-1.pcap");
        assert!(!text.contains("node-10") && text.contains("xnode-1x") && text.ends_with(".pcap"), "{text}");
    }

    #[test]
    fn the_same_thing_has_the_same_token_for_the_same_key() {
        let (a, b) = (Pseudonyms::new(b"a"), Pseudonyms::new(b"b"));
        assert_eq!(a.token("host", "x"), Pseudonyms::new(b"a").token("host", "x"));
        assert_ne!(a.token("host", "x"), a.token("host", "y"));
        assert_ne!(a.token("host", "x"), b.token("host", "x"));
    }

    #[test]
    fn an_address_in_a_packet_is_that_of_the_token() {
        let veil = Pseudonyms::new(b"k");
        let address = Address::v4([192, 0, 2, 11]);
        let digits: String = veil.stand_in(address).octets().iter().skip(12).map(|b| format!("{b:02x}")).collect();
        assert_eq!(format!("ip-{digits}"), veil.address(address));
    }
}
