//! `--version --verbose`: the program, and the releases that its models were checked against.

use std::ffi::OsString;
use std::fmt::Write as _;

use crate::protocol::checked;

/// The text, where exactly the two flags were given, in either order and either form.
pub(super) fn verbose(arguments: &[OsString]) -> Option<String> {
    let [_, a, b] = arguments else { return None };
    let is = |given: &OsString, forms: [&str; 2]| forms.iter().any(|f| given == f);
    let (version, verbose) = (["--version", "-V"], ["--verbose", "-v"]);
    let wanted = is(a, version) && is(b, verbose) || is(a, verbose) && is(b, version);
    wanted.then(text)
}

fn text() -> String {
    let mut out = format!(
        "rdzvscope {}\n\nThe models were checked against these releases (docs/protocols.md):\n",
        env!("CARGO_PKG_VERSION")
    );
    for c in checked::all() {
        let name = checked::product_name(c.product);
        let said = match c.differences {
            "0" => "as the model says".to_owned(),
            "1" => "1 answer other than the model's (conformance/results)".to_owned(),
            n => format!("{n} answers other than the model's (conformance/results)"),
        };
        let _ = writeln!(out, "  {name:<8}{:<9}{}  {said}", c.release, c.date);
    }
    out
}
