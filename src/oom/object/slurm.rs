//! Slurm's accounting in JSON: what `jobcomp` plugins ship is read; `sacct --json` is another form of what `sacct -P` prints.

use super::super::event::ToldBy;
use super::super::format::Format;
use super::super::prefix::Peeled;
use super::super::sheet::slurm;
use super::super::stamp;
use super::super::teller::Saying;
use super::string;
use serde_json::Value;

/// Why a document is not read.
pub(super) fn refused(object: &Value) -> Option<&'static str> {
    let jobs = object.get("jobs")?.as_array()?;
    let ours = jobs.iter().any(|j| j.get("job_id").is_some());
    ours.then_some("sacct --json and scontrol --json: give `sacct -P -o JobID,State,ExitCode,NodeList,End`")
}

/// A job's end, as jobcomp/elasticsearch and jobcomp/kafka write it.
pub(super) fn job(object: &Value) -> Option<(Peeled<'static>, Saying)> {
    let state = string(object, &["state"]).or_else(|| string(object, &["job_state"]))?;
    let id = object.get("jobid").or_else(|| object.get("job_id"))?;
    if !state.eq_ignore_ascii_case("OUT_OF_MEMORY") {
        return None;
    }
    let end =
        string(object, &["@end"]).or_else(|| string(object, &["end_time"])).and_then(|t| stamp::any(t.as_bytes()));
    let host = string(object, &["nodes"]).and_then(slurm::one_node);
    let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    let mut saying = Saying::report(ToldBy::Slurm, super::super::teller::slurm_facts(id.as_bytes())?);
    saying.host = host;
    let peeled =
        Peeled { format: Some(Format::SlurmRecord), stamp: end.map(|(s, _)| (s, slurm::ENDED)), ..Peeled::default() };
    Some((peeled, saying))
}
