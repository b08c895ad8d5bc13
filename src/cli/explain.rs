//! `rdzvscope explain`: the rules in words.

use std::io::Write;

use super::exit::Exit;
use crate::alert::notice_rule;
use crate::protocol::{rule, rules};

/// Arguments of `explain`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  rdzvscope explain store-claim\n  rdzvscope explain")]
pub(super) struct Args {
    /// The rule; without one, all rules a line each
    #[arg(value_name = "RULE")]
    rule: Option<String>,
}

/// Runs it.
pub(super) fn run(a: Args) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout().lock();
    match a.rule {
        None => {
            for r in rules() {
                writeln!(out, "{:<22} {:<9} {}", r.id, r.severity, r.title)?;
            }
        }
        Some(id) => match rule(&id).or_else(|| notice_rule(&id).copied()) {
            Some(r) => {
                writeln!(out, "{}: {} ({})\n", r.id, r.title, r.severity)?;
                writeln!(out, "{}\n", wrapped(r.meaning))?;
                writeln!(out, "What to do:\n{}", wrapped(r.remedy))?;
            }
            None => {
                let near: Vec<&str> =
                    rules().map(|r| r.id).filter(|r| r.contains(id.as_str()) || id.contains(r)).collect();
                let hint = if near.is_empty() { rules().map(|r| r.id).collect() } else { near };
                anyhow::bail!("no rule is called {id:?}; there are: {}", hint.join(", "));
            }
        },
    }
    Ok(Exit::Clean)
}

/// At most 80 columns.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        if column > 0 && column + 1 + word.len() > 80 {
            out.push('\n');
            column = 0;
        }
        if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
    out
}
