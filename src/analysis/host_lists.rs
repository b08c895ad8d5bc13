//! Lists of hosts, read into names; and which of their addresses are machines of the cluster.

use std::io::Read;
use std::path::Path;

use super::inputs::{Shape, plain_stem};
use crate::capture::{Limits, unpacked};
use crate::escape::clean;
use crate::hosts::{self, ListFormat};
use crate::names::Names;
use crate::report::model::Input;
use crate::vocabulary::InputKind;

/// The longest text that is read as a whole, in bytes: nodes and pods of a large cluster take tens of megabytes.
const MAX_TEXT: u64 = 256 << 20;

/// A text as a whole, decoded lossily; whether it was cut.
pub(super) fn whole(path: &Path) -> std::io::Result<(String, bool)> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(MAX_TEXT + 1).read_to_end(&mut bytes)?;
    } else {
        crate::disk::require_regular_file(path)?;
        unpacked(path, &Limits::default())?.take(MAX_TEXT + 1).read_to_end(&mut bytes)?;
    }
    let cut = bytes.len() as u64 > MAX_TEXT;
    bytes.truncate(MAX_TEXT as usize);
    Ok((String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()), cut))
}

/// Reads a list of whatever form into `names`.
pub(super) fn read(path: &Path, label: &str, host: Option<&str>, names: &mut Names) -> Input {
    match whole(path) {
        Ok((text, cut)) => {
            let mut input = read_text(path, label, host, &text, names);
            if cut {
                input.warnings.push(format!("longer than {} MiB: only its beginning was read", MAX_TEXT >> 20));
            }
            input
        }
        Err(e) => Input {
            path: clean(label.as_bytes(), 256),
            kind: Some(InputKind::Hosts),
            error: Some(format!("cannot read: {e}")),
            ..Input::default()
        },
    }
}

/// The same for a list whose text is at hand.
pub(super) fn read_text(path: &Path, label: &str, host: Option<&str>, text: &str, names: &mut Names) -> Input {
    let mut input = Input { path: clean(label.as_bytes(), 256), kind: Some(InputKind::Hosts), ..Input::default() };
    let own = host.map(str::to_string).or_else(|| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        names.of_file(&name).map(str::to_string).or_else(|| plain_stem(path))
    });
    let read = hosts::read(text, own.as_deref(), names);
    if read.form != ListFormat::EtcHosts {
        // These are told by machines of themselves or by who runs them: /etc/hosts may name anybody.
        let mut machines = Names::default();
        hosts::read(text, own.as_deref(), &mut machines);
        machines.all_addresses().for_each(|a| names.add_node(a));
    }
    input.kind = Some(Shape::List(read.form).kind());
    input.format = Some(read.form.name().to_string());
    input.lines = Some(text.lines().count() as u64);
    input.not_understood = Some(read.not_understood);
    input.warnings.extend(read.errors.iter().take(8).map(|e| clean(e.to_string().as_bytes(), 400)));
    input
}
