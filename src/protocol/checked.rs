//! The releases that the models were run against (`conformance/`), as the program carries them.

/// One line a release: product, release, date, number of differences; oldest release first. Made by `conformance/table.py`.
const TABLE: &str = include_str!("../../conformance/checked.tsv");

/// A release that was run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checked {
    /// `pytorch` or `nccl`.
    pub product: &'static str,
    /// The release: `2.15.0`.
    pub release: &'static str,
    /// The day, as `2026-11-30`.
    pub date: &'static str,
    /// How many answers were others than the model's when it was run.
    pub differences: &'static str,
}

/// Product names as people write them.
pub fn product_name(product: &str) -> &'static str {
    if product == "nccl" { "NCCL" } else { "PyTorch" }
}

/// All of them, PyTorch first.
pub fn all() -> impl Iterator<Item = Checked> {
    TABLE.lines().filter_map(|line| {
        let mut words = line.split('\t');
        Some(Checked {
            product: words.next()?,
            release: words.next()?,
            date: words.next()?,
            differences: words.next()?,
        })
    })
}

/// Major and minor number.
fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.trim().trim_start_matches('v').split('.');
    let minor: String = parts.nth(1)?.chars().take_while(char::is_ascii_digit).collect();
    let major = release.trim().trim_start_matches('v').split('.').next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The newest release of a product that was checked.
pub fn newest(product: &str) -> Option<Checked> {
    all().filter(|c| c.product == product).max_by_key(|c| numbers(c.release))
}

impl Checked {
    /// What is said of later releases, where this is the newest: `later than checked (2.15.0): decoded as 2.15`.
    pub fn later(&self) -> String {
        let (major, minor) = numbers(self.release).unwrap_or_default();
        format!("later than checked ({}): decoded as {major}.{minor}", self.release)
    }
}

/// What is said of a release that is later than all that were checked: `later than checked (2.15.0): decoded as 2.15`.
/// `None` for what is not later. Patch releases count as their minor release.
pub fn later(product: &str, release: &str) -> Option<String> {
    let newest = newest(product)?;
    (numbers(release)? > numbers(newest.release)?)
        .then(|| format!("{} {release}: {}", product_name(product), newest.later()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_release_is_called_so() {
        assert!(all().any(|c| c.product == "pytorch") && all().any(|c| c.product == "nccl"));
        assert!(all().all(|c| numbers(c.release).is_some() && c.differences.parse::<u32>().is_ok()));
        for (product, known) in [("pytorch", "2.15.0"), ("pytorch", "1.13"), ("nccl", "2.26.2"), ("pytorch", "two")] {
            assert_eq!(later(product, known), None, "{known}");
        }
        let said = later("pytorch", "2.99.1").unwrap();
        assert!(
            said.starts_with("PyTorch 2.99.1: later than checked (2.") && said.contains("): decoded as 2."),
            "{said}"
        );
        assert!(later("nccl", "3.0").is_some());
    }
}
