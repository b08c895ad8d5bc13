//! Bytes as tests write them.

/// Bytes of a hexadecimal text; white space between them does not count.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    data_encoding::HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"))
}
