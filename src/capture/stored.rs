//! A summary as JSON: what a case file keeps of it.

use serde::{Deserialize, Serialize};

use super::kind::{CaptureFormat, Compression};
use super::packet::LinkType;
use super::summary::{ByteOrder, FileLayout, Identity, Interface, Summary};
use crate::net::Address;
use crate::time::Timestamp;

/// Name, link type, snaplen, drops, packets.
type PlainInterface = (String, u32, Option<u32>, Option<u64>, u64);

/// The parts of a summary, in plain types.
#[derive(Serialize, Deserialize)]
struct Plain {
    pcapng: Option<bool>,
    big_endian: Option<bool>,
    resolution: Option<String>,
    compression: Option<String>,
    link_types: Vec<u32>,
    interfaces: Vec<PlainInterface>,
    counts: [u64; 6],
    truncated: bool,
    warnings: Vec<String>,
    names: Vec<(String, String)>,
    comments: Vec<String>,
    identity: Option<Vec<u8>>,
    number: u64,
    earliest: Option<i64>,
    latest: Option<i64>,
    #[serde(default)]
    clock_steps: Vec<(u64, i64, i64)>,
}

const COMPRESSIONS: [Compression; 5] =
    [Compression::Gzip, Compression::Zstd, Compression::Lz4, Compression::Xz, Compression::Bzip2];

impl Summary {
    /// The summary as JSON.
    pub fn to_json(&self) -> String {
        let plain = Plain {
            pcapng: self.form.format.map(|f| f == CaptureFormat::Pcapng),
            big_endian: self.form.byte_order.map(|o| o == ByteOrder::Big),
            resolution: self.form.resolution.clone(),
            compression: self.form.compression.map(|c| c.to_string()),
            link_types: self.link_types.iter().map(|l| l.0).collect(),
            interfaces: self
                .interfaces
                .iter()
                .map(|i| (i.name.clone(), i.link_type.0, i.snaplen, i.drops, i.packets))
                .collect(),
            counts: [
                self.packets,
                self.bytes,
                self.cut_packets,
                self.damaged_regions,
                self.damaged_bytes,
                self.warnings_left_out,
            ],
            truncated: self.truncated,
            warnings: self.warnings.clone(),
            names: self.names.iter().map(|(a, n)| (a.to_string(), n.clone())).collect(),
            comments: self.comments.clone(),
            identity: self.identity.map(|i| i.0.to_vec()),
            number: self.number,
            earliest: self.earliest.map(|t| t.0),
            latest: self.latest.map(|t| t.0),
            clock_steps: self.clock_steps.clone(),
        };
        serde_json::to_string(&plain).unwrap_or_default()
    }

    /// The summary that [`Summary::to_json`] wrote; `None` when the text is none.
    pub fn from_json(text: &str) -> Option<Summary> {
        let p: Plain = serde_json::from_str(text).ok()?;
        let [packets, bytes, cut_packets, damaged_regions, damaged_bytes, warnings_left_out] = p.counts;
        Some(Summary {
            form: FileLayout {
                format: p.pcapng.map(|ng| if ng { CaptureFormat::Pcapng } else { CaptureFormat::Pcap }),
                byte_order: p.big_endian.map(|b| if b { ByteOrder::Big } else { ByteOrder::Little }),
                resolution: p.resolution,
                compression: p.compression.and_then(|c| COMPRESSIONS.into_iter().find(|k| k.to_string() == c)),
            },
            link_types: p.link_types.into_iter().map(LinkType).collect(),
            interfaces: p
                .interfaces
                .into_iter()
                .map(|(name, link, snaplen, drops, packets)| Interface {
                    name,
                    link_type: LinkType(link),
                    snaplen,
                    drops,
                    packets,
                })
                .collect(),
            packets,
            bytes,
            truncated: p.truncated,
            cut_packets,
            damaged_regions,
            damaged_bytes,
            warnings: p.warnings,
            warnings_left_out,
            names: p
                .names
                .into_iter()
                .filter_map(|(a, n)| Some((Address::from(a.parse::<std::net::IpAddr>().ok()?), n)))
                .collect(),
            comments: p.comments,
            identity: p.identity.and_then(|i| i.try_into().ok()).map(Identity),
            number: p.number,
            earliest: p.earliest.map(Timestamp),
            latest: p.latest.map(Timestamp),
            clock_steps: p.clock_steps,
        })
    }

    /// The summary of packets that no file holds: an interface is listened to.
    pub fn of_interface(name: &str, link_type: LinkType, snaplen: Option<u32>) -> Summary {
        let interface = Interface { name: name.to_string(), link_type, snaplen, drops: None, packets: 0 };
        Summary { link_types: vec![link_type], interfaces: vec![interface], ..Summary::default() }
    }

    /// Counts a packet of an interface that is listened to.
    pub fn count(&mut self, time: Timestamp, captured: u32, original: u32) {
        self.packets += 1;
        self.number += 1;
        self.bytes += u64::from(captured);
        self.cut_packets += u64::from(captured < original);
        self.earliest = Some(self.earliest.map_or(time, |t| t.min(time)));
        self.latest = Some(self.latest.map_or(time, |t| t.max(time)));
        if let Some(i) = self.interfaces.first_mut() {
            i.packets += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{Limits, Reader};

    #[test]
    fn summaries_of_real_captures_come_back() {
        for name in ["links/three-interfaces.pcapng", "links/node-c.pcap.gz", "incident-torch1.13/node-a.pcap"] {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
            let mut reader = Reader::open(&path, &Limits::default()).unwrap();
            reader.each(|_| {}).unwrap();
            let summary = reader.into_summary();
            let back = Summary::from_json(&summary.to_json()).unwrap();
            assert_eq!(format!("{summary:?}"), format!("{back:?}"));
        }
        assert!(Summary::from_json("{}").is_none());
    }
}
