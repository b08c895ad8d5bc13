//! The form of all help texts: what the command does, examples, then options. `-h` is one screen, `--help` is whole.
//!
//! A command's `after_help` is written as paragraphs. One that begins with "Example" stands before the options, in both
//! texts; one on the exit status stands at the end of both; all others stand at the end of `--help` alone. Options with
//! `hide_short_help` are left out of `-h`.

use clap::Command;
use clap::builder::{Resettable, StyledStr};

/// What clap fills in, in this order. `{before-help}` holds the examples.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";

/// What a command says besides its options.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// Lines of a shell, without the heading.
    pub(super) examples: Option<String>,
    /// What the exit status means, with its heading.
    pub(super) status: Option<String>,
    /// What else is to be known.
    pub(super) notes: Vec<String>,
}

impl Parts {
    /// Takes the `after_help` (or `after_long_help`) of a command apart.
    pub(super) fn of(command: &Command) -> Parts {
        let text = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
        let mut parts = Parts::default();
        for paragraph in text.unwrap_or_default().split("\n\n").map(str::trim_end).filter(|p| !p.trim().is_empty()) {
            let (first, rest) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
            match first.trim() {
                "Example:" | "Examples:" => parts.examples = Some(rest.to_string()),
                _ if paragraph.starts_with("Exit status") => parts.status = Some(flowing(paragraph)),
                _ => parts.notes.push(flowing(paragraph)),
            }
        }
        parts
    }
}

/// A paragraph on one line, as clap wraps it; lines that begin with a space stay lines.
fn flowing(paragraph: &str) -> String {
    let mut text = String::new();
    for line in paragraph.lines() {
        if !text.is_empty() {
            text.push(if line.starts_with(' ') { '\n' } else { ' ' });
        }
        text.push_str(line);
    }
    text
}

/// The command and all below it, with help in this form.
pub(super) fn arranged(command: Command) -> Command {
    let parts = Parts::of(&command);
    let header = *command.get_styles().get_header();
    let mut command = command.help_template(TEMPLATE);
    if let Some(examples) = &parts.examples {
        let heading = if examples.contains('\n') { "Examples:" } else { "Example:" };
        command = command.before_help(format!("{header}{heading}{header:#}\n{examples}"));
    }
    let end = |parts: &[String]| match parts {
        [] => Resettable::Reset,
        parts => Resettable::Value(StyledStr::from(parts.join("\n\n"))),
    };
    let status: Vec<String> = parts.status.into_iter().collect();
    command = command.after_help(end(&status));
    if !parts.notes.is_empty() {
        command = command.after_long_help(end(&[parts.notes, status].concat()));
    }
    command.mut_subcommands(arranged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> (String, String) {
        let command = Command::new("x")
            .about("Does x")
            .arg(clap::Arg::new("rare").long("rare").hide_short_help(true))
            .after_help("Examples:\n  x 1\n  x 2\n\nA note\ntwice.\n  x y\n\nExit status: 0 fine.");
        let mut command = arranged(command);
        (command.render_help().to_string(), command.render_long_help().to_string())
    }

    #[test]
    fn examples_come_before_options() {
        let (short, long) = texts();
        for text in [&short, &long] {
            let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not in {text}"));
            let places = [at("Does x"), at("Usage:"), at("Examples:"), at("  x 2"), at("Options:"), at("Exit status:")];
            assert!(places.is_sorted(), "{places:?} in {text}");
            assert!(text.ends_with("Exit status: 0 fine.\n"), "{text:?}");
        }
    }

    #[test]
    fn what_is_rare_is_in_the_long_help_alone() {
        let (short, long) = texts();
        assert!(!short.contains("--rare") && !short.contains("A note"), "{short}");
        assert!(long.contains("--rare") && long.contains("A note twice.\n  x y\n"), "{long}");
    }

    #[test]
    fn a_command_without_examples_has_no_heading_for_them() {
        let text = arranged(Command::new("x").about("Does x")).render_help().to_string();
        assert!(!text.contains("Example") && !text.contains("\n\n\n"), "{text:?}");
    }
}
