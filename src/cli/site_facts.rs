//! What a case and evidence keep of the flags about hosts, ports and clocks.

use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};

use super::args;
use crate::analysis::Options;
use crate::case::Case;

/// Under which key a case keeps it.
const KEY: &str = "setup";

/// Flags about hosts, ports and clocks as they were typed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SiteFacts {
    pub(super) host_pattern: Option<String>,
    pub(super) boot: Vec<String>,
    pub(super) log_tz: Vec<String>,
    pub(super) log_field: Option<String>,
    pub(super) port: Vec<String>,
    pub(super) nccl_port: Vec<String>,
    pub(super) nccl_id: Vec<String>,
    pub(super) window: Option<String>,
    pub(super) max_lag: Option<String>,
    pub(super) host_memory: Vec<String>,
    pub(super) overcommit: Vec<String>,
}

impl SiteFacts {
    /// What a case keeps.
    pub(super) fn of_case(case: &Case) -> anyhow::Result<SiteFacts> {
        match case.meta(KEY)? {
            Some(text) => serde_json::from_str(&text).context("what the case keeps of its flags is damaged"),
            None => Ok(SiteFacts::default()),
        }
    }

    /// Keeps it in a case.
    pub(super) fn keep(&self, case: &Case) -> anyhow::Result<()> {
        Ok(case.set_meta(KEY, &self.text()?)?)
    }

    /// As a case and evidence hold it.
    pub(super) fn text(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// The flags that mean these options. What is as it is without any flag is left out.
    pub(super) fn of_options(o: &Options) -> SiteFacts {
        fn of<T: std::fmt::Display>(host: Option<&str>, value: T) -> String {
            host.map_or_else(|| value.to_string(), |h| format!("{h}={value}"))
        }
        let ports = |all: &crate::stream::PortSet, usual: &crate::stream::PortSet| -> Vec<String> {
            all.iter().filter(|p| !usual.contains(*p)).map(|p| p.to_string()).collect()
        };
        let usual = Options::default();
        let seconds = |value: f64, usual: f64| (value != usual).then(|| format!("{value}s"));
        let host_zones = o.host_zones.iter().map(|(h, z)| of(Some(h), z));
        SiteFacts {
            host_pattern: o.host_pattern.as_ref().map(|p| p.as_str().to_string()),
            boot: o.boot.iter().map(|(h, t)| of(Some(h), t.to_rfc3339())).collect(),
            log_tz: o.log_zone.iter().map(|z| of(None, z)).chain(host_zones).collect(),
            log_field: Some(o.log_fields.to_string()).filter(|f| !f.is_empty()),
            port: ports(&o.ports, &usual.ports),
            nccl_port: ports(&o.nccl_ports, &usual.nccl_ports),
            nccl_id: o.nccl_ids.clone(),
            window: seconds(o.window, usual.window),
            max_lag: seconds(o.max_lag, usual.max_lag),
            host_memory: o.host_memory.iter().map(|(h, n)| of(h.as_deref(), n)).collect(),
            overcommit: o.overcommit.iter().map(|(h, n)| of(h.as_deref(), n)).collect(),
        }
    }

    /// Adds what `other` has; what is said once only is `other`'s where it says it.
    pub(super) fn join(mut self, other: SiteFacts) -> SiteFacts {
        let add = |a: &mut Vec<String>, b: Vec<String>| {
            b.into_iter().for_each(|x| {
                if !a.contains(&x) {
                    a.push(x);
                }
            })
        };
        add(&mut self.boot, other.boot);
        add(&mut self.log_tz, other.log_tz);
        add(&mut self.port, other.port);
        add(&mut self.nccl_port, other.nccl_port);
        add(&mut self.nccl_id, other.nccl_id);
        add(&mut self.host_memory, other.host_memory);
        add(&mut self.overcommit, other.overcommit);
        self.host_pattern = other.host_pattern.or(self.host_pattern);
        self.log_field = other.log_field.or(self.log_field);
        self.window = other.window.or(self.window);
        self.max_lag = other.max_lag.or(self.max_lag);
        self
    }

    /// What it means.
    pub(super) fn options(&self) -> anyhow::Result<Options> {
        fn each<T>(flag: &str, texts: &[String], parse: impl Fn(&str) -> Result<T, String>) -> anyhow::Result<Vec<T>> {
            texts.iter().map(|t| parse(t).map_err(|e| anyhow!("{flag} {t}: {e}"))).collect()
        }
        let mut o = Options { boot: each("--boot", &self.boot, args::boot)?, ..Options::default() };
        o.host_memory = each("--host-memory", &self.host_memory, args::host_memory)?;
        o.overcommit = each("--overcommit", &self.overcommit, args::overcommit)?;
        each("--port", &self.port, args::ports)?.iter().flatten().for_each(|p| o.ports.insert(*p));
        each("--nccl-port", &self.nccl_port, args::ports)?.iter().flatten().for_each(|p| o.nccl_ports.insert(*p));
        o.nccl_ids = each("--nccl-id", &self.nccl_id, args::nccl_id)?;
        for (host, zone) in each("--log-tz", &self.log_tz, args::zone)? {
            match host {
                Some(host) => o.host_zones.push((host, zone)),
                None => o.log_zone = Some(zone),
            }
        }
        let pattern: Vec<String> = self.host_pattern.iter().cloned().collect();
        o.host_pattern = each("--host-pattern", &pattern, args::pattern)?.pop();
        let fields: Vec<String> = self.log_field.iter().cloned().collect();
        o.log_fields = each("--log-field", &fields, |t| t.parse())?.pop().unwrap_or_default();
        let one = |flag, text: &Option<String>| {
            each(flag, &text.iter().cloned().collect::<Vec<_>>(), args::duration).map(|mut v| v.pop())
        };
        o.window = one("--window", &self.window)?.unwrap_or(o.window);
        o.max_lag = one("--max-lag", &self.max_lag)?.unwrap_or(o.max_lag);
        Ok(o)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_case_keeps_means_the_same_later() {
        let a = SiteFacts {
            boot: vec!["n1=2026-11-29T11:12:08Z".into()],
            window: Some("90s".into()),
            ..SiteFacts::default()
        };
        let b = SiteFacts { port: vec!["1000-1001".into()], boot: a.boot.clone(), ..SiteFacts::default() };
        let case = Case::in_memory().unwrap();
        a.clone().join(b).keep(&case).unwrap();
        let o = SiteFacts::of_case(&case).unwrap().options().unwrap();
        assert_eq!((o.boot.len(), o.window, o.ports.contains(1001), o.ports.contains(29500)), (1, 90.0, true, true));
        assert!(SiteFacts { boot: vec!["x".into()], ..SiteFacts::default() }.options().is_err());
        let given = SiteFacts {
            log_tz: vec!["+08:00".into(), "n1=Asia/Shanghai".into()],
            host_memory: vec!["n1=1024".into(), "2048".into()],
            overcommit: vec!["1".into()],
            boot: vec!["n1=2026-11-29T11:12:08.500000000Z".into()],
            port: vec!["1000".into()],
            window: Some("90s".into()),
            host_pattern: Some("n[0-9]".into()),
            ..SiteFacts::default()
        };
        assert_eq!(SiteFacts::of_options(&given.options().unwrap()).options().unwrap().host_zones.len(), 1);
        let again = SiteFacts::of_options(&given.options().unwrap());
        assert_eq!(again, SiteFacts::of_options(&again.options().unwrap()));
        assert_eq!((&again.port, &again.window, &again.boot), (&given.port, &given.window, &given.boot));
    }
}
