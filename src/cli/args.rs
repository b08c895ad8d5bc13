//! Values of flags: what people type, turned into what is meant.

use std::path::PathBuf;

use crate::analysis::Named;
use crate::net::Network;
use crate::oom::{Zone, parse_instant};
use crate::time::Timestamp;
use crate::vocabulary::Severity;

/// An `ncclUniqueId` in hex, as it was typed.
pub(super) fn nccl_id(text: &str) -> Result<String, String> {
    match crate::protocol::nccl::unique_id_of_hex(text) {
        Some(_) => Ok(text.to_string()),
        None => Err(format!(
            "an ncclUniqueId in hex (28 to 128 bytes, with a socket address in it) was required, {text:?} was there"
        )),
    }
}

/// Ports: `29500`, `29500-29510`, lists of these.
pub(super) fn ports(text: &str) -> Result<Vec<u16>, String> {
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let parse = |s: &str| {
            s.trim().parse::<u16>().ok().filter(|p| *p > 0).ok_or_else(|| {
                format!("a port from 1 to 65535 or a range such as 29500-29510 was required, {part:?} was there")
            })
        };
        let (from, to) = (parse(from)?, parse(to)?);
        if from > to {
            return Err(format!("the range {part:?} ends before it begins"));
        }
        all.extend(from..=to);
    }
    if all.is_empty() {
        return Err("at least one port was required".to_string());
    }
    Ok(all)
}

/// `[HOST=]PATH`. A path that exists as it stands is a path, `=` or not.
pub(super) fn named(text: &str) -> Result<Named, String> {
    if let Some((host, path)) = text.split_once('=')
        && !std::path::Path::new(text).exists()
        && !host.is_empty()
        && !host.contains('/')
    {
        return Ok(Named { host: Some(host.to_string()), path: PathBuf::from(path) });
    }
    Ok(Named { host: None, path: PathBuf::from(text) })
}

/// `HOST=TIME`.
pub(super) fn boot(text: &str) -> Result<(String, Timestamp), String> {
    let (host, time) = text
        .split_once('=')
        .filter(|(h, _)| !h.is_empty())
        .ok_or_else(|| format!("HOST=TIME was required, {text:?} was there (node-a=2026-11-29T11:12:08Z)"))?;
    Ok((host.to_string(), parse_instant(time).map_err(|e| e.to_string())?))
}

/// `[HOST=]ZONE`.
pub(super) fn zone(text: &str) -> Result<(Option<String>, Zone), String> {
    let (host, zone) = of_host(text);
    Ok((host, zone.parse::<Zone>().map_err(|e| e.to_string())?))
}

/// `[HOST=]VALUE`.
fn of_host(text: &str) -> (Option<String>, &str) {
    match text.split_once('=') {
        Some((host, value)) => (Some(host.to_string()), value),
        None => (None, text),
    }
}

/// `[HOST=]SIZE`.
pub(super) fn host_memory(text: &str) -> Result<(Option<String>, u64), String> {
    let (host, value) = of_host(text);
    Ok((host, size(value)?))
}

/// `[HOST=]0|1|2`.
pub(super) fn overcommit(text: &str) -> Result<(Option<String>, u8), String> {
    let (host, value) = of_host(text);
    let mode = value.parse::<u8>().ok().filter(|m| *m <= 2);
    Ok((host, mode.ok_or_else(|| format!("0, 1 or 2 was required, {value:?} was there"))?))
}

/// `CIDR=LABEL`.
pub(super) fn known_source(text: &str) -> Result<(Network, String), String> {
    let (net, label) = text
        .split_once('=')
        .filter(|(_, l)| !l.trim().is_empty())
        .ok_or_else(|| format!("CIDR=LABEL was required, {text:?} was there (192.0.2.250/32=approved scanner)"))?;
    Ok((net.parse::<Network>().map_err(|e| e.to_string())?, label.trim().to_string()))
}

/// `CIDR`.
pub(super) fn network(text: &str) -> Result<Network, String> {
    text.parse::<Network>().map_err(|e| e.to_string())
}

/// Permissions of files: three octal digits.
pub(super) fn mode(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix('0').filter(|t| t.len() == 3).unwrap_or(text);
    let mode = u32::from_str_radix(digits, 8).ok().filter(|m| digits.len() == 3 && m & 0o600 == 0o600);
    mode.ok_or_else(|| format!("permissions such as 600, 640 or 644 were required, {text:?} was there"))
}

/// An instant.
pub(super) fn instant(text: &str) -> Result<Timestamp, String> {
    parse_instant(text).map_err(|e| e.to_string())
}

/// `HOST=TIME`, or a file of such lines, or of what `contrib/collect.sh` printed.
pub(super) fn boots(text: &str) -> Result<Vec<(String, Timestamp)>, String> {
    let path = std::path::Path::new(text);
    if text.contains('=') && !path.is_file() {
        return Ok(vec![boot(text)?]);
    }
    if !path.is_file() {
        return Err(boot(text).err().unwrap_or_default());
    }
    let held = crate::disk::read_small(path, 16 << 20).map_err(|e| format!("{text:?}: cannot read: {e}"))?;
    let held = String::from_utf8_lossy(&held);
    let (facts, _) = crate::oom::read_facts(&held);
    let mut all: Vec<(String, Timestamp)> =
        facts.into_iter().filter_map(|f| Some((f.host.clone(), f.kernel_epoch()?))).collect();
    if all.is_empty() {
        for (number, line) in (1..).zip(held.lines()).filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#')) {
            let line = line.trim();
            let spaced = line.split_once([' ', '\t', ',']).map(|(h, t)| format!("{h}={}", t.trim()));
            let one = if line.contains('=') { line.to_string() } else { spaced.unwrap_or_default() };
            all.push(boot(&one).map_err(|e| format!("line {number} of {text:?}: {e}"))?);
        }
    }
    Ok(all)
}

/// A severity.
pub(super) fn severity(text: &str) -> Result<Severity, String> {
    Severity::from_text(text).ok_or_else(|| {
        let all: Vec<&str> = Severity::ALL.iter().map(|s| s.text()).collect();
        format!("one of {} was required, {text:?} was there", all.join(", "))
    })
}

/// A regular expression.
pub(super) fn pattern(text: &str) -> Result<regex_lite::Regex, String> {
    regex_lite::Regex::new(text).map_err(|e| format!("no regular expression: {e}"))
}

/// A duration: `120`, `120s`, `15m`, `2h`, `1d`; in seconds.
pub(super) fn duration(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "s" | "sec" | "seconds" => 1.0,
        "ms" => 0.001,
        "m" | "min" | "minutes" => 60.0,
        "h" | "hours" => 3600.0,
        "d" | "days" => 86400.0,
        _ => return Err(format!("a duration such as 120, 90s, 15m, 2h or 1d was required, {text:?} was there")),
    };
    number
        .parse::<f64>()
        .ok()
        .map(|n| n * factor)
        .filter(|n| n.is_finite() && *n >= 0.0 && *n < 1e9)
        .ok_or_else(|| format!("a duration such as 120, 90s, 15m, 2h or 1d was required, {text:?} was there"))
}

/// A size: `268435456`, `256M`, `256MiB`, `1G`; in bytes, units of 1024.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().trim_end_matches("iB").trim_end_matches('B') {
        "" => 0,
        "k" | "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(format!("a size such as 256M or 1G was required, {text:?} was there")),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(1 << shift))
        .ok_or_else(|| format!("a size such as 256M or 1G was required, {text:?} was there"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_lists_of_ranges() {
        assert_eq!(ports("29500,1-3").unwrap(), [29500, 1, 2, 3]);
        for bad in ["", "0", "70000", "5-4", "x", "1-"] {
            assert!(ports(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_host_may_stand_before_a_path() {
        assert_eq!(named("n1=/x/y").unwrap().host.as_deref(), Some("n1"));
        assert_eq!(named("/x/y").unwrap().host, None);
        assert_eq!(named("dir/a=b").unwrap().host, None);
    }

    #[test]
    fn durations_and_sizes_have_units() {
        assert_eq!(duration("15m"), Ok(900.0));
        assert_eq!(duration("1.5"), Ok(1.5));
        assert!(duration("soon").is_err() && duration("-1").is_err());
        assert_eq!(size("256M"), Ok(256 << 20));
        assert_eq!(size("1GiB"), Ok(1 << 30));
        assert!(size("x").is_err() && size("99999999T").is_err());
    }

    #[test]
    fn sources_have_networks_and_labels() {
        assert_eq!(known_source("192.0.2.0/24= scanners").unwrap().1, "scanners");
        assert!(known_source("192.0.2.0/24=").is_err() && known_source("scanners").is_err());
        assert!(network("192.0.2.0/40").is_err() && instant("yesterday").is_err());
    }

    #[test]
    fn boot_times_may_stand_in_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        std::fs::write(path, "# boots\nnode-a 2026-11-29T11:12:08Z\nnode-b=1795951210\n").unwrap();
        assert_eq!(boots(path).unwrap().iter().map(|b| b.0.as_str()).collect::<Vec<_>>(), ["node-a", "node-b"]);
        std::fs::write(path, "rdzvscope/1 node-c boot_time 1795951210.5\n").unwrap();
        assert_eq!(boots(path).unwrap()[0].0, "node-c");
        std::fs::write(path, "node-a\n").unwrap();
        assert!(boots(path).unwrap_err().contains("line 1"));
        assert!(boots("nowhere").is_err());
    }

    #[test]
    fn boot_times_name_their_host() {
        assert!(boot("node-a=2026-11-29T11:12:08Z").is_ok());
        assert!(boot("2026-11-29T11:12:08Z").unwrap_err().contains("HOST=TIME"));
        assert!(boot("node-a=yesterday").is_err());
    }
}
