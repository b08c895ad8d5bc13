//! Output that names nobody.

use std::path::PathBuf;

use anyhow::Context;

use super::output::shown;
use crate::report::Pseudonyms;

/// Longest key that is read, in bytes.
const LONGEST_KEY: u64 = 64 << 10;

/// The flags of whatever can be redacted.
#[derive(clap::Args, Debug, Default)]
pub(super) struct RedactArgs {
    /// Replace names of hosts, addresses, keys, run ids and contents by tokens that stay the same
    #[arg(long)]
    redact: bool,
    /// With --redact: a file with a secret that goes into the tokens, so that nobody without it can check a guess
    #[arg(long, value_name = "FILE", requires = "redact", hide_short_help = true)]
    redact_key: Option<PathBuf>,
}

impl RedactArgs {
    /// Whether tokens are asked for.
    pub(super) fn asked(&self) -> bool {
        self.redact
    }

    /// Tokens, where they are asked for.
    pub(super) fn veil(&self) -> anyhow::Result<Option<Pseudonyms>> {
        use std::io::Read;
        if !self.redact {
            return Ok(None);
        }
        let Some(path) = &self.redact_key else { return Ok(Some(Pseudonyms::default())) };
        let mut key = Vec::new();
        let file = std::fs::File::open(path).with_context(|| format!("{}: cannot open", shown(path)))?;
        file.take(LONGEST_KEY + 1).read_to_end(&mut key).with_context(|| format!("{}: cannot read", shown(path)))?;
        let key = key.trim_ascii();
        anyhow::ensure!(!key.is_empty(), "{}: a key was required, the file is empty", shown(path));
        let most = LONGEST_KEY;
        anyhow::ensure!(key.len() as u64 <= most, "{}: at most {most} bytes of key were expected", shown(path));
        Ok(Some(Pseudonyms::new(key)))
    }
}
