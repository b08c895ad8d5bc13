//! What a reader may spend on one capture.

use super::filter::PacketFilter;

/// Bounds on one capture, whatever its bytes say.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest record or block that is taken for real, in bytes; a longer one is damage. The reader's memory
    /// is about twice this at worst, and grows only with bytes that did arrive. At most 1 GiB counts.
    pub max_record: usize,
    /// The most bytes that a compressed capture may unpack to.
    pub max_output: u64,
    /// The most bytes out for one byte in, of a compressed capture. Input is taken up to 256 KiB ahead.
    pub max_expansion_ratio: u64,
    /// Output below this many bytes is never called a bomb for its ratio: small captures of one packet repeated pack well.
    pub ratio_from: u64,
    /// The most memory that an xz decoder may take, in bytes (`xz -9` needs 65 MiB).
    pub max_xz_memory: u64,
    /// The largest zstd window taken, as a power of two (the zstd tool's default is 27: 128 MiB).
    pub max_zstd_window_log: u32,
    /// Packets that it does not pass are counted and numbered, and not handed on.
    pub filter: Option<PacketFilter>,
}

impl Limits {
    /// `max_record` in a form that additions cannot overflow.
    pub(super) fn record(&self) -> u32 {
        self.max_record.clamp(65_536, 1 << 30) as u32
    }
}

impl Default for Limits {
    /// 16 MiB records, 1 TiB of output, 1000:1 (real captures stay under 150:1; DEFLATE cannot exceed 1032:1).
    fn default() -> Self {
        Limits {
            max_record: 16 << 20,
            max_output: 1 << 40,
            max_expansion_ratio: 1000,
            ratio_from: 64 << 20,
            max_xz_memory: 128 << 20,
            max_zstd_window_log: 27,
            filter: None,
        }
    }
}
