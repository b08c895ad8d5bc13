//! What the kernel is asked for: BPF from ports.

use crate::stream::PortSet;

/// A filter for all segments from and to `ports`, and for those of any port that open and end connections: scans, deaths
/// and the records of all flows need no more. Fragments are let through, because they have no ports.
pub fn filter_of(ports: &PortSet) -> String {
    // tcp[13]: CWR ECE URG ACK PSH RST SYN FIN. libpcap reads tcp[] in IPv4 only.
    let mut terms = vec![
        "(tcp[13] & 7 != 0)".to_string(),
        "(ip6 and ip6[6] = 6 and ip6[53] & 7 != 0)".to_string(),
        "(ip[6:2] & 0x3fff != 0)".to_string(),
    ];
    let mut ports = ports.iter().peekable();
    while let Some(from) = ports.next() {
        let mut to = from;
        while let Some(next) = ports.next_if(|p| Some(*p) == to.checked_add(1)) {
            to = next;
        }
        terms.push(if from == to { format!("(tcp port {from})") } else { format!("(tcp portrange {from}-{to})") });
    }
    terms.join(" or ")
}

/// Whether libpcap understands a filter, as far as that can be said without an interface.
///
/// # Errors
/// libpcap's words.
pub fn compile_check(filter: &str) -> Result<(), String> {
    let capture = pcap::Capture::dead(pcap::Linktype::ETHERNET).map_err(|e| e.to_string())?;
    capture.compile(filter, true).map(drop).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_a_row_are_a_range_and_libpcap_understands_it() {
        let filter = filter_of(&[29400, 29500, 29501, 29502, 65535].into_iter().collect());
        assert!(filter.ends_with("(tcp port 29400) or (tcp portrange 29500-29502) or (tcp port 65535)"), "{filter}");
        compile_check(&filter).unwrap();
        let all: PortSet = (1..=u16::MAX).collect();
        compile_check(&filter_of(&all)).unwrap();
        assert!(compile_check("tcp prot 1").is_err());
    }
}
