//! The name of a file that a tool put before a line: `grep -n`, `grep -H`, `zgrep` (`path:13:line`, `path-12-line` of
//! context), a line's number alone (`grep -n`, `cat -n`, `srun -l`).

use super::super::text;
use super::{Labels, Peeled, opens};
use crate::names::Names;
use crate::oom::envelope::nodeset::is_host;

pub(super) fn take<'a>(head: &mut Peeled<'a>, rest: &'a [u8], labels: &Labels) -> Option<&'a [u8]> {
    if head.stamp.is_some() {
        return None;
    }
    if let Some((_, after)) = text::number(rest) {
        let tab = after.first() == Some(&b'\t');
        let after = after.strip_prefix(b":").or_else(|| after.strip_prefix(b"-")).or(Some(after).filter(|_| tab))?;
        return opens(after, labels).then_some(after);
    }
    let end = rest.iter().take(512).position(|b| !(b.is_ascii_alphanumeric() || b"._/~+@=,-()#%".contains(b)))?;
    let (name, after) = match rest.get(end)? {
        b':' => {
            let after = rest.get(end + 1..)?;
            let numbered = text::number(after).and_then(|(_, a)| a.strip_prefix(b":"));
            (rest.get(..end)?, numbered.filter(|a| opens(a, labels)).or(Some(after).filter(|a| !a.starts_with(b" ")))?)
        }
        _ => return None,
    };
    if name.is_empty() || super::facility::take(&mut Peeled::default(), rest, labels).is_some() || !opens(after, labels)
    {
        return context(head, rest, labels);
    }
    head.weak = head.weak.take().or_else(|| host_of_file(name, None).map(|h| h.into_bytes().into()));
    Some(after)
}

/// `path-12-line`.
fn context<'a>(head: &mut Peeled<'a>, rest: &'a [u8], labels: &Labels) -> Option<&'a [u8]> {
    let mut from = 0;
    while let Some(at) = text::find(rest.get(from..256.min(rest.len()))?, b"-") {
        let after = rest.get(from + at + 1..)?;
        if let Some(after) = text::number(after).and_then(|(_, a)| a.strip_prefix(b"-"))
            && opens(after, labels)
        {
            head.weak = host_of_file(rest.get(..from + at)?, None).map(|h| h.into_bytes().into());
            return Some(after);
        }
        from += at + 1;
    }
    None
}

/// The host that a file's name suggests: a known one, else the name up to its first dot unless that is what logs are
/// called everywhere, else that of the directory.
pub(crate) fn host_of_file(path: &[u8], names: Option<&Names>) -> Option<String> {
    const EVERYWHERE: [&str; 22] = [
        "messages",
        "syslog",
        "kern",
        "dmesg",
        "log",
        "logs",
        "var",
        "journal",
        "console",
        "memory",
        "stdout",
        "stderr",
        "standard input",
        "vmstat",
        "current",
        "",
        "docker",
        "user",
        "daemon",
        "boot",
        "output",
        "out",
    ];
    let path = text::lossy(path, text::PATH);
    let parts = || path.rsplit('/').take(2);
    if let Some(known) = names.and_then(|names| parts().find_map(|p| names.of_file(p))) {
        return Some(known.to_owned());
    }
    let stem = |p: &str| {
        let parts: Vec<&str> = p.splitn(5, '.').take(4).collect();
        let address = Some(parts.join(".")).filter(|a| a.parse::<std::net::Ipv4Addr>().is_ok());
        address.unwrap_or_else(|| parts.first().copied().unwrap_or_default().to_owned())
    };
    let usable = |s: &String| is_host(s) && !EVERYWHERE.iter().any(|e| e.eq_ignore_ascii_case(s));
    let system = ["/sys/", "/proc/", "/var/log/pods/"].iter().any(|p| path.starts_with(p));
    parts().map(stem).find(usable).filter(|_| !system)
}
