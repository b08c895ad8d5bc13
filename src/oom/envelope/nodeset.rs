//! Folded names of hosts: `gpu-[001-003,007]`, `rack[1-2]-node[01-16],login1` (dshbak, ClusterShell, Slurm).

use std::sync::Arc;

/// Hosts that one nodeset may name.
pub(crate) const MAX_HOSTS: usize = 4096;

/// What a nodeset names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nodes {
    /// The hosts, in the order written; none for a group (`@rack3`), whose members only its site knows.
    pub(crate) hosts: Vec<Arc<str>>,
    /// It names more than [`MAX_HOSTS`]: the rest is not in `hosts`.
    pub(crate) cut: bool,
}

/// Whether `name` can be that of a host: letters, digits, `.`, `-`, `_`, at least one letter; or an IP address.
pub(crate) fn is_host(name: &str) -> bool {
    let shaped = name.len() <= 253
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.contains(|c: char| c.is_ascii_alphabetic());
    shaped || name.parse::<std::net::IpAddr>().is_ok()
}

/// Expands a nodeset. `None` when the text is none. A count behind it, as `clush -b` prints (`gpu-[1-3] (3)`), is
/// dropped; steps (`[0-10/2]`) are obeyed; leading zeros are kept.
pub(crate) fn expand(text: &str) -> Option<Nodes> {
    let text = text.trim();
    let text = match text.split_once(' ') {
        Some((set, count)) if is_count(count) => set,
        Some(_) => return None,
        None => text,
    };
    if text.is_empty() || text.len() > 64 << 10 {
        return None;
    }
    let mut nodes = Nodes { hosts: Vec::new(), cut: false };
    for element in outer_parts(text)? {
        if element.strip_prefix('@').is_some_and(is_host) {
            continue;
        }
        product(element, &mut nodes)?;
    }
    Some(nodes)
}

fn is_count(text: &str) -> bool {
    text.strip_prefix('(')
        .and_then(|t| t.strip_suffix(')'))
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// The parts between commas that stand in no brackets. `None` when brackets do not pair.
fn outer_parts(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut from, mut inside) = (Vec::new(), 0, false);
    for (at, b) in text.bytes().enumerate() {
        match b {
            b'[' if !inside => inside = true,
            b']' if inside => inside = false,
            b'[' | b']' => return None,
            b',' if !inside => {
                parts.push(text.get(from..at)?);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(from..)?);
    (!inside).then_some(parts)
}

/// All names of one element.
fn product(element: &str, nodes: &mut Nodes) -> Option<()> {
    let mut names = vec![String::new()];
    let mut rest = element;
    while let Some((literal, after)) = rest.split_once('[') {
        let (list, tail) = after.split_once(']')?;
        let (choices, cut) = ranges(list)?;
        nodes.cut |= cut;
        let mut longer = Vec::new();
        'all: for name in &names {
            for choice in &choices {
                if longer.len() >= MAX_HOSTS {
                    nodes.cut = true;
                    break 'all;
                }
                longer.push(format!("{name}{literal}{choice}"));
            }
        }
        names = longer;
        rest = tail;
    }
    for name in names {
        let name = name + rest;
        if !is_host(&name) {
            return None;
        }
        if nodes.hosts.len() >= MAX_HOSTS {
            nodes.cut = true;
            break;
        }
        nodes.hosts.push(name.into());
    }
    Some(())
}

/// `001-003,007,0-10/2,a`, and whether it was cut.
fn ranges(list: &str) -> Option<(Vec<String>, bool)> {
    let mut choices = Vec::new();
    for item in list.split(',') {
        let (span, step) = match item.split_once('/') {
            Some((span, step)) => (span, step.parse::<u64>().ok().filter(|s| *s > 0)?),
            None => (item, 1),
        };
        let Some((low, high)) = span.split_once('-') else {
            if span.is_empty() || !span.bytes().all(|b| b.is_ascii_alphanumeric()) {
                return None;
            }
            choices.push(span.to_owned());
            continue;
        };
        let width = low.len();
        let number = |t: &str| t.bytes().all(|b| b.is_ascii_digit()).then(|| t.parse::<u64>().ok()).flatten();
        let (mut n, high) = (number(low)?, number(high)?);
        if n > high || width > 20 {
            return None;
        }
        while n <= high {
            if choices.len() >= MAX_HOSTS {
                return Some((choices, true));
            }
            choices.push(format!("{n:0width$}"));
            let Some(next) = n.checked_add(step) else { break };
            n = next;
        }
    }
    Some((choices, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> Vec<String> {
        expand(text).expect(text).hosts.iter().map(|h| h.to_string()).collect()
    }

    #[test]
    fn sets_as_the_tools_fold_them() {
        assert_eq!(hosts("gpu-[001-003,007]"), ["gpu-001", "gpu-002", "gpu-003", "gpu-007"]);
        assert_eq!(hosts("r[1-2]n[9-10].x,login1 (5)"), ["r1n9.x", "r1n10.x", "r2n9.x", "r2n10.x", "login1"]);
        assert_eq!(hosts("n[0-4/2]"), ["n0", "n2", "n4"]);
        assert_eq!(hosts("192.0.2.11"), ["192.0.2.11"]);
        assert_eq!(expand("@rack3"), Some(Nodes { hosts: vec![], cut: false }));
    }

    #[test]
    fn what_is_no_set_is_refused_and_a_huge_one_is_bounded() {
        for text in ["", "a b", "n[1-", "n]1[", "n[2-1]", "n[1-2/0]", "n[]", "12", "a/b", "Summary:", "n[1[2]]", "@"] {
            assert_eq!(expand(text), None, "{text}");
        }
        let huge = expand("n[0-18446744073709551615]-[0-99999999]").expect("a set");
        assert_eq!((huge.hosts.len(), huge.cut), (MAX_HOSTS, true));
        assert!(expand(&"n[0-999]".repeat(100)).is_none_or(|n| n.cut && n.hosts.len() <= MAX_HOSTS));
        assert!(expand("n[18446744073709551614-18446744073709551615]").is_some_and(|n| n.hosts.len() == 2));
    }
}
