//! `rdzvscope completions` and `rdzvscope man`.

use std::path::PathBuf;

use anyhow::Context;

use super::exit::Exit;
use super::output::shown;

/// Arguments of `completions`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  rdzvscope completions bash > /etc/bash_completion.d/rdzvscope")]
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
pub(super) fn completions(a: CompletionsArgs, command: &mut clap::Command) -> anyhow::Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(a.shell, command, "rdzvscope", &mut text);
    std::io::Write::write_all(&mut std::io::stdout().lock(), &text)?;
    Ok(Exit::Clean)
}

/// Writes man pages.
pub(super) fn man(a: ManArgs, command: &clap::Command) -> anyhow::Result<Exit> {
    std::fs::create_dir_all(&a.directory).with_context(|| format!("{}: cannot create", shown(&a.directory)))?;
    clap_mangen::generate_to(command.clone(), &a.directory)
        .with_context(|| format!("{}: cannot write man pages", shown(&a.directory)))?;
    Ok(Exit::Clean)
}
