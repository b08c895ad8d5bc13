//! `rdzvscope completions` and `rdzvscope man`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Command;
use clap::builder::PossibleValuesParser;
use clap_mangen::Man;

use super::exit::Exit;
use super::help::Parts;
use super::output::shown;
use crate::policy::Product;
use crate::protocol::tcpstore::release::Release;
use crate::vocabulary::Severity;

/// Arguments of `completions`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  rdzvscope completions bash > /etc/bash_completion.d/rdzvscope
  rdzvscope completions zsh > \"${fpath[1]}/_rdzvscope\"")]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  rdzvscope man /usr/local/share/man/man1")]
pub(super) struct ManArgs {
    /// The directory that the pages are written to
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Prints completions.
pub(super) fn completions(a: CompletionsArgs, command: &mut Command) -> anyhow::Result<Exit> {
    let mut command = with_values(command.clone());
    let mut text = Vec::new();
    clap_complete::generate(a.shell, &mut command, "rdzvscope", &mut text);
    let mut text = String::from_utf8_lossy(&text).into_owned();
    if a.shell == clap_complete::Shell::Fish {
        // clap_complete offers fish no values of arguments without a flag.
        let rules: Vec<&str> = crate::protocol::rules().map(|r| r.id).collect();
        let of = "__fish_rdzvscope_using_subcommand explain";
        text.push_str(&format!("complete -c rdzvscope -n \"{of}\" -f -a \"{}\"\n", rules.join(" ")));
    }
    io::stdout().lock().write_all(with_interfaces(a.shell, &text).as_bytes())?;
    Ok(Exit::Clean)
}

/// Stands in the generated script where a shell is to list this host's interfaces.
const INTERFACES: &str = "RDZVSCOPE_INTERFACES";

/// The command line with the values that completion offers; the parser itself takes more (ranges, lists).
fn with_values(command: Command) -> Command {
    // clap wants names that live as long as the program, which ends when the script is printed.
    let of = |names: Vec<String>| PossibleValuesParser::new(names.into_iter().map(|name| &*name.leak()));
    let releases: Vec<String> = Release::ALL.iter().map(ToString::to_string).chain(["all".to_string()]).collect();
    let products = Product::ALL.iter().map(|p| p.name().to_string()).collect();
    let rules = crate::protocol::rules().map(|r| r.id.to_string()).collect();
    let severities: Vec<String> = Severity::ALL.iter().map(|s| s.text().to_string()).collect();
    let values: Vec<(&str, Vec<String>)> = vec![
        ("rule", rules),
        ("policy", products),
        ("pytorch", releases),
        ("behaviour", crate::prescan::presets().map(str::to_string).collect()),
        ("interface", vec![INTERFACES.to_string()]),
        ("fail_on", severities.clone()),
        ("show", severities.clone()),
        ("alert_on", severities),
    ];
    let within =
        [("explain", &["rule"][..]), ("prescan", &["policy", "pytorch", "behaviour"]), ("live", &["interface"])];
    let everywhere = ["fail_on", "show", "alert_on"];
    command.mut_subcommands(|sub| {
        let mine = within.iter().find(|(name, _)| *name == sub.get_name()).map_or(&[][..], |(_, ids)| *ids);
        sub.mut_args(|arg| {
            let id = arg.get_id().as_str();
            let wanted = mine.contains(&id) || everywhere.contains(&id);
            match values.iter().find(|(name, _)| wanted && *name == id) {
                Some((_, names)) => {
                    let names = names.clone();
                    arg.value_parser(of(names))
                }
                None => arg,
            }
        })
    })
}

/// Interfaces are those of the host on which the shell runs, not of the one that made the script.
fn with_interfaces(shell: clap_complete::Shell, script: &str) -> String {
    let (from, to) = match shell {
        clap_complete::Shell::Zsh => (format!("({INTERFACES})"), "_net_interfaces".to_string()),
        clap_complete::Shell::Fish => {
            (format!("\"{INTERFACES}\\t''\""), "\"(command ls /sys/class/net 2>/dev/null; echo any)\"".to_string())
        }
        _ => (INTERFACES.to_string(), "any $(command ls /sys/class/net 2>/dev/null)".to_string()),
    };
    script.replace(&from, &to)
}

/// Writes man pages: one for the program, one for each command.
pub(super) fn man(a: ManArgs, command: Command) -> anyhow::Result<Exit> {
    std::fs::create_dir_all(&a.directory).with_context(|| format!("{}: cannot create", shown(&a.directory)))?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    pages(&command, &a.directory).with_context(|| format!("{}: cannot write man pages", shown(&a.directory)))?;
    Ok(Exit::Clean)
}

fn pages(command: &Command, directory: &Path) -> io::Result<()> {
    // clap_mangen leaves out what `-h` leaves out; a man page is whole.
    let whole = command.clone().mut_args(|a| a.hide_short_help(false));
    let man = Man::new(whole).manual("rdzvscope").source(concat!("rdzvscope ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    write_page(&man, command, &mut page)?;
    std::fs::write(directory.join(man.get_filename()), page)?;
    command.get_subcommands().try_for_each(|c| pages(c, directory))
}

/// clap_mangen puts all that stands after the options into one section, with its lines run together; here each part has
/// the section that man-pages(7) has for it.
fn write_page(man: &Man, command: &Command, out: &mut Vec<u8>) -> io::Result<()> {
    let parts = Parts::of(command);
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    for note in &parts.notes {
        writeln!(out, ".PP\n{}", roff(&note.replace('\n', " ")))?;
    }
    if let Some(examples) = &parts.examples {
        writeln!(out, ".SH EXAMPLES\n.nf\n{}\n.fi", roff(examples))?;
    }
    if command.get_arguments().next().is_some() {
        man.render_options_section(out)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(out)?;
    }
    if let Some(status) = &parts.status {
        writeln!(out, ".SH \"EXIT STATUS\"\n{}", roff(&status.replace('\n', " ")))?;
    }
    if command.get_name() != "rdzvscope" {
        writeln!(out, ".SH \"SEE ALSO\"\n\\fBrdzvscope\\fR(1)")?;
    }
    Ok(())
}

/// Text as roff takes it: a line that begins with a dot is no request, a hyphen can be copied to a shell.
fn roff(text: &str) -> String {
    let line = |l: &str| {
        let text = l.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('"', "\\(dq");
        if text.starts_with('.') { format!("\\&{text}") } else { text }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_request() {
        assert_eq!(roff(".SH x\n a-b 'c' \\d"), "\\&.SH x\n a\\-b \\(aqc\\(aq \\ed");
    }
}
