//! Settings that come with evidence: whose word counts.
//!
//! A host's evidence speaks for that host. What it says of another one (its boot time, the zone of its logs, its memory)
//! is a claim: it never takes the place of what that host says of itself, and where they disagree the report names who
//! claims it. Settings that hold for all hosts count where most of those who gathered evidence agree. The operator's own
//! flags come before all of this.

use std::collections::{BTreeMap, BTreeSet};

use super::args;
use super::site_facts::SiteFacts;
use crate::analysis::OriginSettings;
use crate::escape::clean;
use crate::names::short;

/// Ports that one origin may add to those that most have.
const OWN_PORTS: usize = 64;
/// Disagreements that are named.
const MAX_NOTES: usize = 20;

/// One origin and what it says.
struct Voice<'a> {
    origin: &'a OriginSettings,
    says: SiteFacts,
}

/// The settings that count, of all that evidence brings; and what was not used, in words.
pub(super) fn accepted(origins: &[OriginSettings]) -> (SiteFacts, Vec<String>) {
    let mut notes = Vec::new();
    let mut voices = Vec::new();
    for origin in origins {
        let says = match &origin.settings {
            Some(text) => serde_json::from_str::<SiteFacts>(text)
                .map_err(|e| e.to_string())
                .and_then(|s| s.options().map(|_| s).map_err(|e| format!("{e:#}"))),
            None => Ok(SiteFacts::default()),
        };
        let says = says.unwrap_or_else(|e| {
            notes.push(format!("settings in evidence of {} are not understood ({e}): not used", origin.label));
            SiteFacts::default()
        });
        voices.push(Voice { origin, says });
    }
    let mut out = SiteFacts {
        host_pattern: agreed("--host-pattern", &voices, &mut notes, |s| s.host_pattern.as_ref()),
        window: agreed("--window", &voices, &mut notes, |s| s.window.as_ref()),
        max_lag: agreed("--max-lag", &voices, &mut notes, |s| s.max_lag.as_ref()),
        nccl_id: joined(&voices, |s| &s.nccl_id),
        ..SiteFacts::default()
    };
    out.boot = of_hosts("--boot", &voices, &mut notes, |s| &s.boot);
    out.log_tz = of_hosts("--log-tz", &voices, &mut notes, |s| &s.log_tz);
    out.host_memory = of_hosts("--host-memory", &voices, &mut notes, |s| &s.host_memory);
    out.overcommit = of_hosts("--overcommit", &voices, &mut notes, |s| &s.overcommit);
    out.port = ports("--port", &voices, &mut notes, |s| &s.port);
    out.nccl_port = ports("--nccl-port", &voices, &mut notes, |s| &s.nccl_port);
    if notes.len() > MAX_NOTES {
        let more = notes.len() - MAX_NOTES;
        notes.truncate(MAX_NOTES);
        notes.push(format!("{more} more settings of evidence were not used"));
    }
    (out, notes.iter().map(|n| clean(n.as_bytes(), 400)).collect())
}

fn joined(voices: &[Voice<'_>], of: impl Fn(&SiteFacts) -> &Vec<String>) -> Vec<String> {
    voices.iter().flat_map(|v| of(&v.says)).cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

/// A setting for all hosts: what most origins say.
fn agreed(
    flag: &str,
    voices: &[Voice<'_>],
    notes: &mut Vec<String>,
    of: impl Fn(&SiteFacts) -> Option<&String>,
) -> Option<String> {
    let mut counts: BTreeMap<Option<&String>, usize> = BTreeMap::new();
    voices.iter().for_each(|v| *counts.entry(of(&v.says)).or_default() += 1);
    let most = counts.iter().find(|(_, n)| **n * 2 > voices.len()).and_then(|(value, _)| *value);
    for v in voices.iter().filter(|v| of(&v.says).is_some_and(|own| Some(own) != most)) {
        let own = of(&v.says).map_or("", String::as_str);
        let label = &v.origin.label;
        notes.push(format!(
            "{flag} {own} of evidence of {label} is not used: most others say otherwise ({flag} settles it)"
        ));
    }
    most.cloned()
}

/// Settings of single hosts, `HOST=VALUE`, or `VALUE` for those whom an origin speaks for.
fn of_hosts(
    flag: &str,
    voices: &[Voice<'_>],
    notes: &mut Vec<String>,
    of: impl Fn(&SiteFacts) -> &Vec<String>,
) -> Vec<String> {
    let plain = |v: &Voice<'_>| of(&v.says).iter().filter(|t| !t.contains('=')).cloned().collect::<Vec<_>>();
    let mut out: Vec<String> = Vec::new();
    // Where all say the same of all hosts, it is the site's.
    let everywhere = voices.first().map(plain).filter(|first| voices.iter().all(|v| plain(v) == *first));
    out.extend(everywhere.iter().flatten().cloned());
    // By host: the values, and by whom.
    let mut claims: BTreeMap<String, Vec<(String, &Voice<'_>)>> = BTreeMap::new();
    for v in voices {
        for text in of(&v.says) {
            match text.split_once('=') {
                Some((host, _)) => claims.entry(short(host)).or_default().push((text.clone(), v)),
                None if everywhere.is_some() => {}
                None => {
                    for host in v.origin.own_hosts() {
                        claims.entry(host.clone()).or_default().push((format!("{host}={text}"), v));
                    }
                }
            }
        }
    }
    for (host, said) in claims {
        let speaks = |v: &Voice<'_>| v.origin.speaks_for(&host, voices.iter().map(|v| v.origin));
        let anybody = voices.iter().any(&speaks);
        let own: BTreeSet<&String> = said.iter().filter(|(_, v)| !anybody || speaks(v)).map(|(text, _)| text).collect();
        let used = own.first().filter(|_| own.len() == 1).map(|t| (*t).clone());
        if own.len() > 1 {
            notes.push(format!(
                "{flag}: evidence disagrees on {host}: none of {} values is used ({flag} {host}=… settles it)",
                own.len()
            ));
        }
        for (text, v) in said.iter().filter(|(text, v)| anybody && !speaks(v) && used.as_ref() != Some(text)) {
            let label = &v.origin.label;
            notes.push(format!("{flag} {text} is what evidence of {label} claims, not {host} itself: not used ({flag} {host}=… settles it)"));
        }
        out.extend(used);
    }
    out
}

/// Ports: those that most have, and some of each origin's own. A port only says where to look; bytes say what is there.
fn ports(
    flag: &str,
    voices: &[Voice<'_>],
    notes: &mut Vec<String>,
    of: impl Fn(&SiteFacts) -> &Vec<String>,
) -> Vec<String> {
    let set =
        |v: &Voice<'_>| -> BTreeSet<u16> { of(&v.says).iter().filter_map(|t| args::ports(t).ok()).flatten().collect() };
    let sets: Vec<BTreeSet<u16>> = voices.iter().map(set).collect();
    let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
    sets.iter().flatten().for_each(|p| *counts.entry(*p).or_default() += 1);
    let mut all: BTreeSet<u16> = counts.iter().filter(|(_, n)| **n * 2 > voices.len()).map(|(p, _)| *p).collect();
    for (v, own) in voices.iter().zip(&sets) {
        let further: Vec<u16> = own.iter().filter(|p| !all.contains(*p)).copied().collect();
        if further.len() > OWN_PORTS {
            let label = &v.origin.label;
            notes.push(format!("{flag}: {} ports that only evidence of {label} names are not used", further.len()));
        } else {
            all.extend(further);
        }
    }
    all.iter().map(u16::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(label: &str, named: bool, settings: &str) -> OriginSettings {
        OriginSettings {
            label: label.into(),
            names: if named { [label.to_string()].into() } else { BTreeSet::new() },
            paths: if named { Vec::new() } else { vec![format!("/x/{label}.pcap").into()] },
            settings: Some(settings.into()),
        }
    }

    #[test]
    fn nobody_speaks_for_another() {
        let evil = r#"{"window":"1s","max_lag":"0s","host_pattern":"(.*)","boot":["node-a=2020-01-01T00:00:00Z"],
            "log_tz":["+14:00"],"host_memory":["1"],"overcommit":["node-b=2"],"port":["1-65535"]}"#;
        let a = r#"{"boot":["node-a=2026-11-29T11:12:08Z"],"log_tz":["+01:00"],"max_lag":"1800s"}"#;
        let b = r#"{"log_tz":["+01:00"],"max_lag":"1800s","port":["31000"],"boot":["node-a=2026-11-29T11:12:08Z"]}"#;
        let origins = [origin("node-a", true, a), origin("node-b", true, b), origin("evil", true, evil)];
        let (s, notes) = accepted(&origins);
        assert_eq!((s.window, s.max_lag.as_deref(), s.host_pattern), (None, Some("1800s"), None));
        assert_eq!(s.boot, ["node-a=2026-11-29T11:12:08Z"]);
        assert_eq!(s.log_tz, ["evil=+14:00", "node-a=+01:00", "node-b=+01:00"]);
        assert_eq!(
            (s.host_memory, s.overcommit, s.port),
            (vec!["evil=1".to_string()], vec![], vec!["31000".to_string()])
        );
        let notes = notes.join("\n");
        for named in ["--window 1s of evidence of evil", "--boot node-a=2020", "--overcommit node-b=2", "65534 ports"] {
            assert!(notes.contains(named), "{named}: {notes}");
        }
        assert!(!notes.contains("evidence of node-b"), "{notes}");
    }

    #[test]
    fn evidence_without_a_name_speaks_for_the_hosts_of_its_files() {
        let said = r#"{"boot":["node-a=2026-11-29T11:12:08Z"]}"#;
        let other = r#"{"boot":["node-a=2020-01-01T00:00:00Z"]}"#;
        let (s, notes) = accepted(&[origin("node-a", false, said), origin("node-b", false, said)]);
        assert_eq!((s.boot.len(), notes.len()), (1, 0));
        let (s, notes) = accepted(&[origin("node-a", false, said), origin("node-b", false, other)]);
        assert_eq!((s.boot, notes.len()), (vec!["node-a=2026-11-29T11:12:08Z".to_string()], 1));
        // A name that was earned comes before the name of a file.
        let (s, _) = accepted(&[origin("node-a", false, other), origin("node-a", true, said)]);
        assert_eq!(s.boot, ["node-a=2026-11-29T11:12:08Z"]);
        // Nobody else has a word on it.
        let (s, _) = accepted(&[origin("collector", true, said)]);
        assert_eq!(s.boot.len(), 1);
        let (s, notes) = accepted(&[origin("x", true, r#"{"boot":["nonsense"]}"#)]);
        assert_eq!((s.boot.len(), notes.len()), (0, 1));
    }
}
