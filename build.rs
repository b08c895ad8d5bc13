//! Says what a build lacks before it begins, where the linker would say it after the last crate.

use std::path::Path;
use std::process::{Command, Stdio};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for variable in ["LIBPCAP_LIBDIR", "LIBRARY_PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let set = |name: &str| std::env::var_os(name).is_some();
    let here = std::env::var_os("TARGET") == std::env::var_os("HOST");
    if set("CARGO_FEATURE_LIVE") && here && !set("LIBPCAP_LIBDIR") && !links_libpcap() {
        println!(
            "cargo:warning=libpcap was not found: install libpcap-dev (Debian, Ubuntu) or libpcap-devel (Fedora, SUSE), or \
             build with --no-default-features, which leaves out `live`"
        );
        std::process::exit(1);
    }
}

/// Whether the C compiler links a program with libpcap; true where there is no compiler to ask.
fn links_libpcap() -> bool {
    let Some(out) = std::env::var_os("OUT_DIR") else { return true };
    let source = Path::new(&out).join("link.c");
    if std::fs::write(&source, "int main(void) { return 0; }\n").is_err() {
        return true;
    }
    let program = Path::new(&out).join("link");
    let status = Command::new("cc").arg(&source).arg("-lpcap").arg("-o").arg(program).stderr(Stdio::null()).status();
    status.map_or(true, |s| s.success())
}
