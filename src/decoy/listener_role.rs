//! The part that a listener plays.

use crate::prescan::{self, Fleet, Kind, Target};
use crate::protocol::nccl::Role;
use crate::protocol::tcpstore::release::Release;
use crate::protocol::tcpstore::server::Backend;

/// What is no part.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PartError {
    /// Another form.
    #[error(
        "a part such as tcpstore:1.13, tcpstore:2.4/libuv, nccl-root:2.26 (nccl-reply, -ring, -peer, -proxy, -net, -ras), gloo:2.4, tensorpipe:1.13 was required, \
{0:?} was there"
    )]
    Form(String),
    /// That release has no such server.
    #[error("PyTorch {0} has no libuv store (it came with 2.2)")]
    Backend(String),
}

/// A server to stand in for.
#[derive(Clone, Debug)]
pub struct ListenerRole {
    /// As it is named in output: `tcpstore:1.13/poll`, `nccl-root:2.26`.
    pub name: String,
    /// The model.
    pub target: Target,
}

impl ListenerRole {
    /// Reads a part. Of a store without a backend the one that the release starts by default is meant.
    ///
    /// # Errors
    /// What is none.
    pub fn parse(text: &str) -> Result<ListenerRole, PartError> {
        let bad = || PartError::Form(text.chars().take(60).collect());
        let (kind, version) = text.split_once(':').ok_or_else(bad)?;
        let mut fleet = Fleet::default();
        let name = match kind {
            "tcpstore" => {
                let (version, backend) = version.split_once('/').map_or((version, None), |(v, b)| (v, Some(b)));
                let release = Release::parse(version).ok_or_else(bad)?;
                let backend = match backend {
                    None => release.default_backend(),
                    Some("poll") => Backend::Poll,
                    Some("libuv") => Backend::Libuv,
                    Some(_) => return Err(bad()),
                };
                let named = [(version.to_owned(), release)];
                fleet.stores(&named, Some(backend), &[]).map_err(|_| PartError::Backend(version.to_owned()))?;
                format!("tcpstore:{version}/{}", backend.name())
            }
            "gloo" | "tensorpipe" => {
                // Of Gloo the class of PyTorch 2.1 to 2.7, of TensorPipe what was measured.
                let release = version.strip_prefix("2.").and_then(|v| v.split('.').next()?.parse::<u8>().ok());
                let asked = match (kind, release) {
                    ("gloo", Some(1..=7)) => "gloo:2.4",
                    ("tensorpipe", _) => text,
                    _ => return Err(bad()),
                };
                let measured = prescan::doors::node(asked).map_err(|_| bad())?;
                let (door, _) = measured.first().ok_or_else(bad)?;
                fleet.doors(&[(door, version.to_owned())]);
                text.to_owned()
            }
            _ => {
                let role = kind.strip_prefix("nccl-").filter(|r| !r.is_empty()).ok_or_else(bad)?;
                if version.contains(',') || version == "all" {
                    return Err(bad());
                }
                fleet.nccl(&prescan::nccl(&format!("{role}:{version}")).map_err(|_| bad())?);
                format!("nccl-{}:{version}", role.trim_start_matches("bootstrap-"))
            }
        };
        let target = fleet.targets.pop().ok_or_else(bad)?;
        Ok(ListenerRole { name, target })
    }

    /// Of an NCCL listener, what it is for.
    pub(super) fn role(&self) -> Option<Role> {
        match self.target.kind {
            Kind::Nccl(role, _) => Some(role),
            Kind::Store(_) | Kind::Door(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_named_in_full() {
        let name = |text| ListenerRole::parse(text).map(|p| p.name);
        assert_eq!(name("tcpstore:1.13").unwrap(), "tcpstore:1.13/poll");
        assert_eq!(name("tcpstore:2.4").unwrap(), "tcpstore:2.4/libuv");
        assert_eq!(name("tcpstore:2.15.0/poll").unwrap(), "tcpstore:2.15.0/poll");
        assert_eq!(name("nccl-root:2.26").unwrap(), "nccl-root:2.26");
        assert_eq!(name("gloo:2.4").unwrap(), "gloo:2.4");
        assert_eq!(name("tensorpipe:1.13").unwrap(), "tensorpipe:1.13");
        assert_eq!(name("tcpstore:1.13/libuv"), Err(PartError::Backend("1.13".into())));
        for bad in [
            "",
            "tcpstore",
            "tcpstore:9",
            "nccl:2.26",
            "nccl-:2.26",
            "nccl-boot:2.26",
            "nccl-root:1,2",
            "tcpstore:2.4/x",
            "nccl-ras:2.18",
            "gloo:1.13",
            "gloo:2.15",
            "tensorpipe:2.0",
        ] {
            assert!(matches!(name(bad), Err(PartError::Form(_))), "{bad}");
        }
    }
}
