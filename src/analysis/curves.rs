//! Memory curves: read once, asked by host.

use super::host_lists::whole;
use super::inputs::{Source, host_of_file, plain_stem};
use super::options::Options;
use crate::curve::{self, Series};
use crate::escape::clean;
use crate::names::Names;
use crate::oom;
use crate::report::model::Input;
use crate::vocabulary::InputKind;

/// Reads one curve. `near`: an instant that it is about, for dates in an order that the text does not say.
pub(super) fn read(source: &Source, options: &Options, names: &Names, like: &oom::Options) -> (Vec<Series>, Input) {
    let mut input =
        Input { path: clean(source.label.as_bytes(), 256), kind: Some(InputKind::Facts), ..Input::default() };
    let (text, cut) = match whole(&source.path) {
        Ok(read) => read,
        Err(e) => {
            input.error = Some(format!("cannot read: {e}"));
            return (Vec::new(), input);
        }
    };
    let of_name = host_of_file(&source.path, names, options.host_pattern.as_ref());
    let own = oom::Options {
        explicit_host: source.host.clone(),
        file_host: of_name.or_else(|| plain_stem(&source.path)),
        ..like.clone()
    };
    let Some(read) = curve::read(&text, &own) else {
        input.error = Some("not understood: no memory curve of a known form".to_string());
        return (Vec::new(), input);
    };
    input.format = Some(read.form.name().to_string());
    input.lines = Some(text.lines().count() as u64);
    input.not_understood = Some(read.not_understood);
    if let [only] = read.series.as_slice() {
        input.host = Some(clean(only.host.as_bytes(), 256));
    }
    input.warnings.extend(read.errors.iter().take(8).map(|e| clean(e.to_string().as_bytes(), 400)));
    if read.series.iter().any(|s| s.time_is_assumed) {
        let text = "local times without a zone are taken as UTC: --log-tz [HOST=]ZONE names it";
        input.warnings.push(text.to_string());
    }
    if read.dropped > 0 || cut {
        input.warnings.push(format!(
            "{} readings were not kept{}",
            read.dropped,
            if cut { ", and its end was not read" } else { "" }
        ));
    }
    (read.series, input)
}
