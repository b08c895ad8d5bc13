//! Whose lines are these? Tools that gather logs of many hosts put the host above a block of lines.
//!
//! What a block says loses to the host that a line names itself. Two kinds of block are weak, and lose to the label of
//! a line too: a file's name, and a word that only may be a host.

pub(crate) mod ansible;
mod banner;
pub(crate) mod nodeset;

use self::ansible::Header;
use super::prefix::{Labels, host_of_file};
use super::text;
use crate::names::Names;
use std::sync::Arc;

/// Whose lines: none for no envelope (or one whose hosts are not known), several for hosts with equal output.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Whose {
    /// The hosts.
    pub(crate) hosts: Arc<[Arc<str>]>,
    /// A label before the line is to be preferred.
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
    /// The block is salt's: it ends with the first line that is not indented.
    indented: bool,
    pub(crate) labels: Labels,
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

    /// Whether the head of a block is being read, of which every line must be seen.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.rule, Rule::None)
    }

    /// Peels one line; `None` when the line belongs to the envelope itself.
    pub(crate) fn peel<'a>(&mut self, line: &'a [u8]) -> Option<Enclosed<'a>> {
        let ruled = !matches!(self.rule, Rule::None);
        if (ruled || line.starts_with(b"---------------")) && self.rule(line) {
            return None;
        }
        if self.indented && !line.is_empty() && !line.starts_with(b"  ") {
            (self.block, self.indented) = (None, false);
        }
        match line.first() {
            Some(b'=') => {
                if let Some(file) = line.strip_prefix(b"==> ").and_then(|l| l.strip_suffix(b" <==")) {
                    self.block = Some(self.of_file(file));
                    return None;
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
                None => {}
            },
            _ => {}
        }
        if let Some(found) = banner::read(line) {
            self.block = Some(Whose::one(found.host));
            self.indented = found.indented;
            return None;
        }
        Some(Enclosed { whose: self.block.clone().unwrap_or_default(), line, escaped: false })
    }

    /// The host that a tool put before a line, and the line behind it.
    pub(crate) fn label<'a>(&mut self, line: &'a [u8]) -> Option<(Whose, &'a [u8])> {
        let (label, rest) = self.labels.host(line)?;
        Some((Whose::one(label), rest))
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

    /// The host that a file's name suggests.
    fn of_file(&self, path: &[u8]) -> Whose {
        let host = host_of_file(path, self.names.as_deref()).map(Arc::<str>::from);
        Whose {
            hosts: host.into_iter().collect(),
            weak: true,
            file: Some(text::lossy(path, text::PATH).as_str().into()),
        }
    }
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
    fn blocks_begin_with_hosts_between_two_equal_rules() {
        let sixteen = "-".repeat(16);
        let text = format!("{sixteen}\ngpu-[1-2]\n{sixteen}\na\n{sixteen}\nb c\n{sixteen}\n@rack3\n{sixteen}\nd\n");
        let got = peel(&text);
        let want = [("gpu-1+gpu-2", "a"), ("gpu-1+gpu-2", "b c"), ("", "d")];
        assert_eq!(got, want.map(|(h, l)| (h.to_owned(), l.to_owned())));
    }

    #[test]
    fn files_and_banners_head_blocks() {
        let got = peel(
            "==> logs/gpu-017.dmesg <==\nc\n==> gpu-018/kern.log <==\nd\n==> /var/log/syslog <==\ne\n=== gpu-1 ===\nf\ngpu-2:\n    g\nh\n[2] 14:13:20 [SUCCESS] gpu-3\ni\nFinished on gpu-4:\nj\n### stdout\nk\n",
        );
        let want = [
            ("gpu-017", "c"),
            ("gpu-018", "d"),
            ("", "e"),
            ("gpu-1", "f"),
            ("gpu-2", "    g"),
            ("", "h"),
            ("gpu-3", "i"),
            ("gpu-4", "j"),
            ("gpu-4", "### stdout"),
            ("gpu-4", "k"),
        ];
        assert_eq!(got, want.map(|(h, l)| (h.to_owned(), l.to_owned())));
    }
}
