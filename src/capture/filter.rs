//! Packets that an expression of BPF passes, by libpcap: the language of tcpdump.

use std::sync::Arc;

use super::packet::LinkType;

/// An expression that libpcap understands. Each reader compiles it for the link types that it meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketFilter(Arc<str>);

impl PacketFilter {
    /// Takes an expression.
    ///
    /// # Errors
    /// libpcap's words where it does not understand it; a sentence where this program was built without libpcap.
    pub fn new(expression: &str) -> Result<PacketFilter, String> {
        compiled(expression, LinkType(1)).map(drop)?;
        Ok(PacketFilter(expression.into()))
    }
}

/// The programs of one reader, by link type; `None` where the expression makes no sense for it, and nothing passes.
pub(super) struct Matcher {
    expression: Arc<str>,
    programs: Vec<(LinkType, Option<Program>)>,
}

impl Matcher {
    pub(super) fn new(filter: &PacketFilter) -> Matcher {
        Matcher { expression: Arc::clone(&filter.0), programs: Vec::new() }
    }

    /// Whether a packet passes.
    pub(super) fn passes(&mut self, link_type: LinkType, data: &[u8]) -> bool {
        let known = self.programs.iter().position(|(l, _)| *l == link_type);
        let at = known.unwrap_or_else(|| {
            self.programs.push((link_type, compiled(&self.expression, link_type).ok()));
            self.programs.len() - 1
        });
        self.programs.get(at).and_then(|(_, p)| p.as_ref()).is_some_and(|p| p.filter(data))
    }
}

#[cfg(feature = "live")]
type Program = ::pcap::BpfProgram;

#[cfg(feature = "live")]
fn compiled(expression: &str, link_type: LinkType) -> Result<Program, String> {
    // The number in files for raw IP is not libpcap's own; the others here are the same.
    let number = if link_type.0 == 101 { 12 } else { i32::try_from(link_type.0).unwrap_or(-1) };
    let dead = ::pcap::Capture::dead(::pcap::Linktype(number)).map_err(|e| e.to_string())?;
    dead.compile(expression, true).map_err(|e| e.to_string())
}

/// Stands for libpcap's program where there is no libpcap.
#[cfg(not(feature = "live"))]
struct Program;

#[cfg(not(feature = "live"))]
impl Program {
    fn filter(&self, _: &[u8]) -> bool {
        false
    }
}

#[cfg(not(feature = "live"))]
fn compiled(_: &str, _: LinkType) -> Result<Program, String> {
    Err("this program was built without libpcap, which compiles such expressions (cargo feature `live`)".to_string())
}
