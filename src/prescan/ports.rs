//! Sets of ports as nmap writes them.

/// Ranges of TCP ports, both ends included.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ports(Vec<(u16, u16)>);

impl Ports {
    /// Every port.
    pub fn all() -> Self {
        Ports(vec![(0, u16::MAX)])
    }

    /// Exactly these.
    pub fn of(ports: &[u16]) -> Self {
        Ports(ports.iter().map(|p| (*p, *p)).collect())
    }

    /// One range.
    pub fn range(from: u16, to: u16) -> Self {
        Ports(vec![(from, to)])
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `port` is one of them.
    pub fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|(from, to)| (*from..=*to).contains(&port))
    }

    /// Adds the ports of another set.
    pub fn extend(&mut self, other: &Ports) {
        self.0.extend_from_slice(&other.0);
    }

    /// Reads a list such as `22,80,1000-2000`, `-`, `60000-` or `T:22,U:53,80`; of lists with letters, what is for TCP.
    ///
    /// # Errors
    /// The part that is no port or range, as it was there. Names of services are such parts.
    pub fn parse(text: &str) -> Result<Ports, String> {
        let mut all = Vec::new();
        let mut tcp = true;
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let part = match part.split_once(':') {
                Some((letter, rest)) => {
                    tcp = letter.eq_ignore_ascii_case("T");
                    rest.trim()
                }
                None => part,
            };
            if !tcp {
                continue;
            }
            let number = |s: &str, or: u16| {
                if s.is_empty() { Ok(or) } else { s.parse::<u16>().map_err(|_| part.to_owned()) }
            };
            let (from, to) = match part.trim_matches(['[', ']']).split_once('-') {
                Some((from, to)) => (number(from.trim(), 1)?, number(to.trim(), u16::MAX)?),
                None => (part.parse().map_err(|_| part.to_owned())?, part.parse().map_err(|_| part.to_owned())?),
            };
            if from > to {
                return Err(part.to_owned());
            }
            all.push((from, to));
        }
        Ok(Ports(all))
    }

    /// Those for which `keep` holds, one by one.
    pub fn filter(&self, keep: impl Fn(u16) -> bool) -> Ports {
        let all = self.0.iter().flat_map(|(from, to)| *from..=*to);
        Ports(all.filter(|p| keep(*p)).map(|p| (p, p)).collect())
    }

    /// As ranges in order, none touching the next.
    pub fn ranges(&self) -> Vec<(u16, u16)> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let mut all: Vec<(u16, u16)> = Vec::new();
        for (from, to) in sorted {
            match all.last_mut() {
                Some(last) if u32::from(from) <= u32::from(last.1) + 1 => last.1 = last.1.max(to),
                _ => all.push((from, to)),
            }
        }
        all
    }

    /// The ports from 1 to 65535 that are not among these.
    pub fn complement(&self) -> Ports {
        let mut all = Vec::new();
        let mut next = 1u32;
        for (from, to) in self.ranges() {
            if u32::from(from) > next {
                // Both fit: from is a port, and next is below it.
                all.push((u16::try_from(next).unwrap_or(u16::MAX), from - 1));
            }
            next = next.max(u32::from(to) + 1);
        }
        if let Ok(next) = u16::try_from(next) {
            all.push((next, u16::MAX));
        }
        Ports(all)
    }

    /// Whether each of `other` is among them.
    pub fn covers(&self, other: &Ports) -> bool {
        let all = self.ranges();
        other.ranges().iter().all(|(from, to)| all.iter().any(|(f, t)| f <= from && to <= t))
    }

    /// As it is written for nmap.
    pub fn text(&self) -> String {
        let one = |(from, to): &(u16, u16)| if from == to { from.to_string() } else { format!("{from}-{to}") };
        self.ranges().iter().map(one).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_nmap_reads_them() {
        let p = Ports::parse("U:53,T:22,29500-29510").unwrap();
        assert!(p.contains(22) && p.contains(29505) && !p.contains(53) && !p.contains(29511));
        assert!(Ports::parse("-").unwrap().contains(65535) && Ports::parse("60000-").unwrap().contains(60001));
        assert_eq!(Ports::parse("http*"), Err("http*".to_owned()));
        assert_eq!(Ports::parse("9-3"), Err("9-3".to_owned()));
        assert_eq!(Ports::parse("5,1-2").unwrap().text(), "1-2,5");
        assert_eq!(Ports::parse("10-20").unwrap().filter(|p| p > 18).text(), "19-20");
    }

    #[test]
    fn what_is_left_of_all_ports() {
        let p = Ports::of(&[1, 29500, 29501, 65535]);
        assert_eq!(p.text(), "1,29500-29501,65535");
        assert_eq!(p.complement().text(), "2-29499,29502-65534");
        assert_eq!(p.complement().complement().text(), p.text());
        assert_eq!(Ports::default().complement().text(), "1-65535");
        assert!(Ports::all().complement().is_empty());
        assert!(p.covers(&Ports::range(29500, 29501)) && !p.covers(&Ports::range(29500, 29502)));
    }
}
