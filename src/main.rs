//! The binary: everything is in the library.

fn main() -> std::process::ExitCode {
    rdzvscope::cli::run(std::env::args_os().collect())
}
