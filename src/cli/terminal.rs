//! The terminal: how wide it is, whether it takes colours and more than ASCII, and the pager before it.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Columns where neither a terminal nor COLUMNS says how many there are.
const COLUMNS: usize = 100;

/// When to use colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub(super) enum Colour {
    /// On a terminal, unless NO_COLOR is set; elsewhere where CLICOLOR_FORCE is
    #[default]
    Auto,
    /// Also in files and pipes
    Always,
    /// Never
    Never,
}

/// The flag of everything that may fill more than a screen.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
pub(super) struct PagerArgs {
    /// Do not show long output on a terminal through $PAGER (less)
    #[arg(long, hide_short_help = true)]
    pub(super) no_pager: bool,
}

/// A variable of the environment that is set and not empty.
fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

/// Columns of the page: those of the terminal that standard output is, else what COLUMNS says.
pub(super) fn width(terminal: bool) -> usize {
    let of_terminal = terminal.then(|| terminal_size::terminal_size_of(io::stdout())).flatten();
    let of_terminal = of_terminal.map(|(width, _)| usize::from(width.0)).filter(|w| *w > 0);
    of_terminal.or_else(|| set("COLUMNS")?.trim().parse().ok()).unwrap_or(COLUMNS)
}

/// Whether to colour what goes to standard output. NO_COLOR outweighs CLICOLOR_FORCE, and both outweigh what is there.
pub(super) fn colours(choice: Colour, terminal: bool) -> bool {
    let on = |name: &str| set(name).map(|v| v != "0");
    match choice {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto if set("NO_COLOR").is_some() => false,
        Colour::Auto if on("CLICOLOR_FORCE") == Some(true) => true,
        Colour::Auto => terminal && !is_dumb() && on("CLICOLOR") != Some(false),
    }
}

fn is_dumb() -> bool {
    set("TERM").is_some_and(|term| term == "dumb")
}

/// Whether the locale's character set is UTF-8, by the rules of setlocale(3).
pub(super) fn is_utf8() -> bool {
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8")
}

/// Standard output, or the pager that shows it. What is buffered is written when it is dropped, and the pager waited for.
pub(super) struct Screen {
    to: Option<To>,
    pager: Option<Child>,
    /// Whether a person looks at it.
    pub(super) terminal: bool,
}

enum To {
    Stdout(BufWriter<Stdout>),
    Pager(BufWriter<ChildStdin>),
}

impl Screen {
    /// On a terminal with a pager as git has one: $PAGER, else `less` with `-FRX` unless LESS says otherwise; none where
    /// PAGER is empty or `cat`, and never in a pipe.
    pub(super) fn open(pager: PagerArgs) -> Screen {
        let terminal = io::stdout().is_terminal();
        if terminal && !pager.no_pager && !is_dumb() {
            let mut started = command().and_then(|command| start(&command));
            if let Some(stdin) = started.as_mut().and_then(|child| child.stdin.take()) {
                return Screen { to: Some(To::Pager(BufWriter::new(stdin))), pager: started, terminal };
            }
        }
        Screen { to: Some(To::Stdout(BufWriter::new(io::stdout()))), pager: None, terminal }
    }
}

/// The pager's command line for a shell.
fn command() -> Option<String> {
    match std::env::var("PAGER") {
        Ok(command) if command.trim().is_empty() || command.trim() == "cat" => None,
        Ok(command) => Some(command),
        Err(_) => {
            let found = std::env::split_paths(&std::env::var_os("PATH")?).any(|d| d.join("less").is_file());
            found.then(|| "less".to_string())
        }
    }
}

fn start(command: &str) -> Option<Child> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::piped());
    for (name, usual) in [("LESS", "FRX"), ("LV", "-c")] {
        if std::env::var_os(name).is_none() {
            shell.env(name, usual);
        }
    }
    shell.spawn().ok()
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            Some(To::Stdout(out)) => out.write(bytes),
            Some(To::Pager(out)) => out.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            Some(To::Stdout(out)) => out.flush(),
            Some(To::Pager(out)) => out.flush(),
            None => Ok(()),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The pager ends when its input does and its reader is done with it.
        drop(self.to.take());
        if let Some(pager) = &mut self.pager {
            let _ = pager.wait();
        }
    }
}
