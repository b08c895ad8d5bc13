//! Whose line is it? Tools that gather logs of many hosts put the host on the line or above a block.
//!
//! What is peeled here wins over the line's own host and loses to `HOST=`. Two envelopes are weak and lose to the
//! line's own host too: a pod's name, and the name of a file.

pub(crate) mod ansible;
mod label;
pub(crate) mod nodeset;

use self::ansible::Header;
use super::text;
use crate::names::Names;
use std::sync::Arc;

/// Whose lines: none for no envelope (or one whose hosts are not known), several for hosts with equal output.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Whose {
    /// The hosts.
    pub(crate) hosts: Arc<[Arc<str>]>,
    /// The line's own host is to be preferred.
    pub(crate) weak: bool,
    /// The file that the lines are of (`==> file <==`).
    pub(crate) file: Option<Arc<str>>,
}

impl Whose {
    pub(crate) fn one(host: impl Into<Arc<str>>) -> Self {
        Whose { hosts: Arc::new([host.into()]), ..Whose::default() }
    }
}

/// A line without its envelope.
pub(crate) struct Enclosed<'a> {
    /// Whose it is.
    pub(crate) whose: Whose,
    /// What is inside.
    pub(crate) line: &'a [u8],
    /// It holds several lines, with `\n` written between them.
    pub(crate) escaped: bool,
}

/// What the rule of dashes of `dshbak` (16) or `clush -b` (15) has begun.
#[derive(Default)]
enum Rule {
    #[default]
    None,
    /// A rule of this length: hosts should follow.
    Opened(usize),
    /// The hosts were read: the same rule should follow.
    Named(usize, Whose),
}

/// Reads envelopes, line by line; it remembers the block it is in.
#[derive(Default)]
pub(crate) struct Envelope {
    rule: Rule,
    block: Option<Whose>,
    labels: label::Labels,
    names: Option<Arc<Names>>,
    /// Nodesets that named too many hosts.
    pub(crate) cut: u64,
    /// Blocks of groups (`@rack3`) whose members are not known.
    pub(crate) groups: u64,
}

impl Envelope {
    /// Names that help to read a host from the name of a file.
    pub(crate) fn knowing(&mut self, names: Arc<Names>) {
        self.names = Some(names);
    }

    /// Peels one line; `None` when the line belongs to the envelope itself.
    pub(crate) fn peel<'a>(&mut self, line: &'a [u8]) -> Option<Enclosed<'a>> {
        let ruled = !matches!(self.rule, Rule::None);
        if (ruled || line.starts_with(b"---------------")) && self.rule(line) {
            return None;
        }
        match line.first() {
            Some(b'=') => {
                if let Some(file) = line.strip_prefix(b"==> ").and_then(|l| l.strip_suffix(b" <==")) {
                    self.block = Some(self.of_file(file));
                    return None;
                }
            }
            Some(b'[') => {
                if let Some((pod, line)) = pod(line) {
                    let whose = Whose { weak: true, ..Whose::one(pod) };
                    return Some(Enclosed { whose, line, escaped: false });
                }
            }
            Some(b) if b.is_ascii_alphanumeric() => match ansible::header(line) {
                Some(Header::Other) => {
                    self.block = None;
                    return None;
                }
                Some(Header::Lines(host)) => {
                    self.block = Some(Whose::one(host));
                    return None;
                }
                Some(Header::Json(host, line)) => {
                    let whose = Whose::one(host);
                    self.block = Some(whose.clone());
                    return Some(Enclosed { whose, line, escaped: false });
                }
                Some(Header::OneLine(host, line)) => {
                    return Some(Enclosed { whose: Whose::one(host), line, escaped: true });
                }
                None => {
                    if self.block.as_ref().is_none_or(|b| b.weak)
                        && let Some((host, line)) = self.labels.peel(line)
                    {
                        return Some(Enclosed { whose: Whose::one(host), line, escaped: false });
                    }
                }
            },
            _ => {}
        }
        Some(Enclosed { whose: self.block.clone().unwrap_or_default(), line, escaped: false })
    }

    /// Takes a line of a block's head; says whether it was one.
    fn rule(&mut self, line: &[u8]) -> bool {
        let rule = (matches!(line.len(), 15 | 16) && line.iter().all(|b| *b == b'-')).then_some(line.len());
        match (std::mem::take(&mut self.rule), rule) {
            (Rule::Named(before, whose), Some(now)) if before == now => {
                self.block = Some(whose);
                true
            }
            (_, Some(now)) => {
                self.rule = Rule::Opened(now);
                true
            }
            (Rule::Opened(length), None) => match std::str::from_utf8(line).ok().and_then(nodeset::expand) {
                Some(nodes) => {
                    self.cut += u64::from(nodes.cut);
                    self.groups += u64::from(nodes.hosts.is_empty());
                    self.rule = Rule::Named(length, Whose { hosts: nodes.hosts.into(), ..Whose::default() });
                    true
                }
                None => false,
            },
            _ => false,
        }
    }

    /// The host that a file's name suggests: a known one, else the name up to its first dot unless that is what logs
    /// are called everywhere, else that of the directory.
    fn of_file(&self, path: &[u8]) -> Whose {
        const EVERYWHERE: [&str; 17] = [
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
        ];
        let path = text::lossy(path, text::PATH);
        let parts = || path.rsplit('/').take(2);
        let known = || {
            let names = self.names.as_ref()?;
            parts().find_map(|p| names.of_file(p)).map(Arc::<str>::from)
        };
        let plain = || {
            let stem = |p: &str| p.split('.').next().unwrap_or_default().to_owned();
            let usable = |s: &String| nodeset::is_host(s) && !EVERYWHERE.iter().any(|e| e.eq_ignore_ascii_case(s));
            let system = path.starts_with("/sys/") || path.starts_with("/proc/");
            parts().map(stem).find(usable).filter(|_| !system).map(Arc::<str>::from)
        };
        let host = known().or_else(plain);
        Whose { hosts: host.into_iter().collect(), weak: true, file: Some(path.as_str().into()) }
    }
}

/// `[pod/NAME/CONTAINER] line` of `kubectl logs --prefix`.
fn pod(line: &[u8]) -> Option<(&str, &[u8])> {
    let rest = line.strip_prefix(b"[pod/")?;
    let end = rest.iter().take(512).position(|b| *b == b']')?;
    let (name, container) = text::cut(rest.get(..end)?, b"/")?;
    let name = std::str::from_utf8(name).ok().filter(|n| nodeset::is_host(n))?;
    let line = rest.get(end + 1..)?;
    (!container.is_empty()).then_some((name, line.strip_prefix(b" ").unwrap_or(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peel(text: &str) -> Vec<(String, String)> {
        let mut envelope = Envelope::default();
        text.lines()
            .filter_map(|l| envelope.peel(l.as_bytes()))
            .map(|e| (e.whose.hosts.join("+"), String::from_utf8_lossy(e.line).into_owned()))
            .collect()
    }

    #[test]
    fn a_word_and_a_colon_is_no_host_by_itself() {
        for line in [
            "python3: page allocation failure: order:0",
            "python3: [  1.5] x",
            "kern  :err   : [184467.512040] Out of memory: Killed process 1 (x) total-vm:1kB",
            "daemon:info  : [184467.512040] x",
            "kernel: Out of memory: Killed process 1 (x) total-vm:1kB",
            "Nov 14 22:14:25 gpu-07 kernel: Out of memory: Killed process 1 (x) total-vm:1kB",
            "2023-11-14T22:14:25+0000 gpu-07 kernel: Out of memory: Killed process 1 (x)",
            "Out of memory: Killed process 48211 (python) total-vm:9kB",
            "oom_reaper: reaped process 7 (a: [ 1.5] b), now anon-rss:0kB",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
            "srun: error: gpu-07: task 0: Out Of Memory",
            "slurmstepd: error: Detected 1 oom-kill event(s) in step 370626.batch cgroup",
            "0: [  1.5] x",
            "rank: hello",
            "    \"a: b\": 1",
        ] {
            assert_eq!(peel(line), [(String::new(), line.to_owned())]);
        }
    }

    #[test]
    fn a_label_before_a_header_is_a_host_and_stays_one() {
        let got = peel(
            "gpu-017: [Sun Nov 29 11:20:39 2026] x\ngpu-018: slurmstepd: y\ngpu-017: slurmstepd: y\nfd00::1: [ 1.5] z\n192.0.2.7: Out of memory: Killed process 1 (x)\n",
        );
        let hosts: Vec<_> = got.iter().map(|(h, _)| h.as_str()).collect();
        assert_eq!(hosts, ["gpu-017", "", "gpu-017", "fd00::1", "192.0.2.7"]);
        assert_eq!(got[2].1, "slurmstepd: y");
    }

    #[test]
    fn blocks_begin_with_hosts_between_two_equal_rules() {
        let sixteen = "-".repeat(16);
        let text = format!("{sixteen}\ngpu-[1-2]\n{sixteen}\na\n{sixteen}\nb c\n{sixteen}\n@rack3\n{sixteen}\nd\n");
        let got = peel(&text);
        let want = [("gpu-1+gpu-2", "a"), ("gpu-1+gpu-2", "b c"), ("", "d")];
        assert_eq!(got, want.map(|(h, l)| (h.to_owned(), l.to_owned())));
    }

    #[test]
    fn pods_and_files_are_weak() {
        let got = peel(
            "[pod/npd-x/npd] a\n[pod/] b\n==> logs/gpu-017.dmesg <==\nc\n==> gpu-018/kern.log <==\nd\n==> /var/log/syslog <==\ne\n",
        );
        let want = [("npd-x", "a"), ("", "[pod/] b"), ("gpu-017", "c"), ("gpu-018", "d"), ("", "e")];
        assert_eq!(got, want.map(|(h, l)| (h.to_owned(), l.to_owned())));
        let mut envelope = Envelope::default();
        assert!(envelope.peel(b"[pod/a/b] x").is_some_and(|e| e.whose.weak));
    }
}
