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

    /// As it is written for nmap.
    pub fn text(&self) -> String {
        let mut ranges = self.0.clone();
        ranges.sort_unstable();
        let one = |(from, to): &(u16, u16)| if from == to { from.to_string() } else { format!("{from}-{to}") };
        ranges.iter().map(one).collect::<Vec<_>>().join(",")
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
        assert_eq!(Ports::parse("10-20").unwrap().filter(|p| p > 18).text(), "19,20");
    }
}
