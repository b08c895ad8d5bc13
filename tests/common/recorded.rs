//! Files of `testdata/outcomes`, and bytes as they stand in them.

#![allow(dead_code)]

/// A recorded file.
pub(crate) fn load(name: &str) -> serde_json::Value {
    let path = format!("{}/testdata/outcomes/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Bytes of a hexadecimal text.
pub(crate) fn unhex(hex: &str) -> Vec<u8> {
    data_encoding::HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).unwrap_or_else(|e| panic!("{hex}: {e}"))
}

/// Bytes as a hexadecimal text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

/// The query LIST_KEYS, whose answer has no order.
pub(crate) const LIST_KEYS: u8 = 0x11;

/// The names in an answer to LIST_KEYS, sorted: servers send them in the order of a hash table.
pub(crate) fn sorted_names(answer: &[u8]) -> Vec<Vec<u8>> {
    let count = u64::from_le_bytes(answer[..8].try_into().unwrap());
    let mut rest = &answer[8..];
    let mut names = Vec::new();
    for _ in 0..count {
        let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
        names.push(rest[8..8 + length].to_vec());
        rest = &rest[8 + length..];
    }
    assert!(rest.is_empty(), "{} bytes after the last name", rest.len());
    names.sort();
    names
}

/// Whether another worker had joined before the recorded conversation of a release began: in the oldest traces the
/// client's ADD of `init/` is answered 2.
pub(crate) fn had_joined(release: &str) -> bool {
    ["1.4.0", "1.7.0", "1.9.0"].contains(&release)
}
