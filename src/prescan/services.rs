//! Which ports nmap scans when none are named: the most common ones of its list of services.

use std::path::Path;

use super::ports::Ports;

/// More than any such file has.
const MAX_FILE: u64 = 16 << 20;

/// The `count` most common TCP ports of the `nmap-services` beside a file of probes. `None` when it is not there.
pub fn most_common(probes: &Path, count: usize) -> Option<Ports> {
    use std::io::Read as _;
    let mut text = Vec::new();
    std::fs::File::open(probes.with_file_name("nmap-services")).ok()?.take(MAX_FILE).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    let row = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (port, frequency) = (words.next()?.strip_suffix("/tcp")?, words.next()?);
        Some((frequency.parse::<f64>().ok().filter(|f| f.is_finite())?, port.parse::<u16>().ok()?))
    };
    let mut rows: Vec<(f64, u16)> = text.lines().filter(|l| !l.starts_with('#')).filter_map(row).collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    rows.truncate(count);
    (!rows.is_empty()).then(|| Ports::of(&rows.iter().map(|r| r.1).collect::<Vec<_>>()))
}
