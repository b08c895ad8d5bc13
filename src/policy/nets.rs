//! Sets of networks.

use crate::net::{Address, Network};

/// As few networks as hold exactly the addresses of `all`, in order of address: nothing is added that was not there.
pub fn aggregate(all: impl IntoIterator<Item = Network>) -> Vec<Network> {
    let mut sorted: Vec<Network> = all.into_iter().collect();
    // Of networks that begin at one address the largest comes first.
    sorted.sort_by_key(|n| (n.ends().0, std::cmp::Reverse(n.ends().1)));
    let mut stack: Vec<Network> = Vec::new();
    for network in sorted {
        if stack.last().is_some_and(|top| top.covers(&network)) {
            continue;
        }
        stack.push(network);
        // Two halves of one network are that network.
        while let [.., left, right] = stack.as_slice() {
            let Some(both) = left.parent().filter(|p| left != right && right.parent() == Some(*p)) else { break };
            stack.truncate(stack.len() - 2);
            stack.push(both);
        }
    }
    stack
}

/// Those of aggregated networks that end at `one` or behind it.
fn from<'a>(all: &'a [Network], one: &Network) -> &'a [Network] {
    let first = one.ends().0;
    all.get(all.partition_point(|n| n.ends().1 < first)..).unwrap_or_default()
}

/// Whether aggregated networks hold all of `one`, which may take several of them.
pub fn covers(all: &[Network], one: &Network) -> bool {
    let (mut next, last) = one.ends();
    for network in from(all, one) {
        let (from, to) = network.ends();
        if from > next {
            return false;
        }
        if to >= last {
            return true;
        }
        next = Address(to.0.saturating_add(1));
    }
    false
}

/// Whether aggregated networks hold anything of `one`.
pub fn touches(all: &[Network], one: &Network) -> bool {
    from(all, one).first().is_some_and(|n| n.ends().0 <= one.ends().1)
}

/// The first of many, for people.
pub fn some(all: &[Network]) -> String {
    const MOST: usize = 8;
    match all.len().checked_sub(MOST).filter(|n| *n > 1) {
        Some(more) => format!("{} and {more} more", list(all.get(..MOST).unwrap_or_default(), ", ")),
        None => list(all, ", "),
    }
}

/// Those of one family: IPv4, or IPv6.
pub fn family(all: &[Network], v4: bool) -> Vec<Network> {
    all.iter().filter(|n| n.ends().0.is_v4() == v4).copied().collect()
}

/// Parted by commas, without or with spaces.
pub fn list(all: &[Network], between: &str) -> String {
    all.iter().map(Network::to_string).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(text: &str) -> Vec<Network> {
        text.split_whitespace().map(|t| t.parse().unwrap()).collect()
    }

    #[test]
    fn neighbours_are_joined_and_nothing_is_added() {
        let of = |text| list(&aggregate(nets(text)), " ");
        assert_eq!(of("192.0.2.11 192.0.2.12 192.0.2.13"), "192.0.2.11 192.0.2.12/31");
        assert_eq!(of("192.0.2.3 192.0.2.1 192.0.2.0 192.0.2.2 192.0.2.2"), "192.0.2.0/30");
        assert_eq!(of("192.0.2.0/24 192.0.2.9 192.0.3.0/24"), "192.0.2.0/23");
        assert_eq!(of("192.0.1.255 192.0.2.0"), "192.0.1.255 192.0.2.0");
        assert_eq!(of("2001:db8::1 2001:db8::"), "2001:db8::/127");
        let every: Vec<Network> = (0..=255u8).map(|i| Network::of(Address::v4([198, 51, 100, i]))).collect();
        assert_eq!(list(&aggregate(every), " "), "198.51.100.0/24");
    }

    #[test]
    fn several_may_hold_one() {
        assert!(covers(&nets("192.0.2.0/25 192.0.2.128/26 192.0.2.192/26"), &"192.0.2.0/24".parse().unwrap()));
        assert!(!covers(&nets("192.0.2.0/25 192.0.2.129"), &"192.0.2.0/24".parse().unwrap()));
        assert!(!covers(&[], &"192.0.2.1".parse().unwrap()));
        let two = nets("192.0.2.0/25 192.0.2.192/26");
        assert!(touches(&two, &"192.0.2.0/24".parse().unwrap()) && touches(&two, &"192.0.2.200".parse().unwrap()));
        assert!(!touches(&two, &"192.0.2.128/26".parse().unwrap()) && !touches(&two, &"192.0.3.0".parse().unwrap()));
    }
}
