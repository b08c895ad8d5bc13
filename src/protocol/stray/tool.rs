//! Programs that say who they are.

/// What programs write of themselves (in a User-Agent, a banner, a cookie), in lower case, and their names.
const MARKS: &[(&[u8], &str)] = &[
    (b"nmap", "nmap"),
    (b"masscan", "masscan"),
    (b"zgrab", "zgrab"),
    (b"nessus", "Nessus"),
    (b"openvas", "OpenVAS"),
    (b"nikto", "Nikto"),
    (b"nuclei", "nuclei"),
    (b"censysinspect", "Censys"),
    (b"qualys", "Qualys"),
    (b"kube-probe", "kube-probe"),
    (b"prometheus/", "Prometheus"),
    (b"googlehc", "Google health check"),
    (b"elb-healthchecker", "ELB health check"),
    (b"user-agent: curl", "curl"),
    (b"user-agent: wget", "Wget"),
    (b"user-agent: go-http-client", "Go HTTP client"),
    (b"user-agent: python-requests", "python-requests"),
];

/// Bytes that are searched: what a program says of itself it says early.
const SEARCHED: usize = 512;

/// The tool that the bytes name.
pub(super) fn named(first: &[u8]) -> Option<&'static str> {
    let head = first.get(..SEARCHED).unwrap_or(first);
    MARKS.iter().find(|(mark, _)| head.windows(mark.len()).any(|w| w.eq_ignore_ascii_case(mark))).map(|(_, tool)| *tool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_where_it_is_written() {
        assert_eq!(named(b"GET / HTTP/1.1\r\nUser-Agent: curl/8.5\r\n"), Some("curl"));
        assert_eq!(named(b"GET /curl HTTP/1.1\r\n"), None);
        assert_eq!(named(b"GET / HTTP/1.1\r\nuser-agent: Kube-Probe/1.30\r\n"), Some("kube-probe"));
    }
}
