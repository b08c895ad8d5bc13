//! What a decoder of store connections keeps.

/// How much of what goes by is kept. Lengths are exact whatever these say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodeOptions {
    /// Bytes kept of each key.
    pub keep_key_bytes: usize,
    /// Bytes kept of each value: the default holds an elastic job's state and any unique id.
    pub keep_value_bytes: usize,
    /// Keys, and values, kept of a message with many.
    pub keep_elements: usize,
    /// Bytes kept of all keys and values of one message together.
    pub keep_message_bytes: usize,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        DecodeOptions { keep_key_bytes: 256, keep_value_bytes: 4096, keep_elements: 64, keep_message_bytes: 64 * 1024 }
    }
}
