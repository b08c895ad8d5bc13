//! The journal's native protocol: one datagram of fields.
//!
//! `NAME=value\n`, or, where a value holds a line feed, `NAME\n`, its length in 64 bits little-endian, the value, `\n`
//! (systemd's "Native Journal Protocol").

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use super::fields::Fields;
use crate::vocabulary::Severity;

/// Where the journal listens.
pub const JOURNAL_SOCKET: &str = "/run/systemd/journal/socket";
/// A journal that takes longer is out of order.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of the document that go along: a datagram must fit the socket's buffer (about 200 KB), with room to spare.
const DOCUMENT: usize = 48 << 10;
/// The kind of message, for `journalctl MESSAGE_ID=`; the same for all alerts of this program.
const MESSAGE_ID: &str = "b0a6c0de7d5a4c5c9f2f0e6e72647a76";

/// Sends one alert, with its whole document where that is not too large.
///
/// # Errors
/// The socket's: nobody listens there, or it takes nothing for ten seconds.
pub(super) fn send(socket: &Path, fields: &Fields, document: &str) -> io::Result<()> {
    let datagram = UnixDatagram::unbound()?;
    datagram.set_write_timeout(Some(PATIENCE))?;
    datagram.connect(socket)?;
    datagram.send(&message(fields, document)).map(drop)
}

fn message(fields: &Fields, document: &str) -> Vec<u8> {
    let priority = match fields.severity {
        Severity::Critical => "2",
        Severity::Warning => "4",
        Severity::Notice => "5",
        Severity::Info => "6",
    };
    let mut m = Vec::with_capacity(document.len().min(DOCUMENT) + 1024);
    put(&mut m, "MESSAGE", &fields.text);
    put(&mut m, "PRIORITY", priority);
    put(&mut m, "SYSLOG_IDENTIFIER", "rdzvscope");
    put(&mut m, "SYSLOG_FACILITY", "3");
    put(&mut m, "MESSAGE_ID", MESSAGE_ID);
    for (name, value) in &fields.values {
        put(&mut m, &format!("RDZVSCOPE_{}", name.to_ascii_uppercase()), value);
    }
    if document.len() <= DOCUMENT {
        put(&mut m, "RDZVSCOPE_DOCUMENT", document);
    } else {
        put(&mut m, "RDZVSCOPE_DOCUMENT_LEFT_OUT_BYTES", &document.len().to_string());
    }
    m
}

fn put(m: &mut Vec<u8>, name: &str, value: &str) {
    m.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        m.push(b'\n');
        m.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        m.push(b'=');
    }
    m.extend_from_slice(value.as_bytes());
    m.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_feed_cannot_forge_a_field() {
        let fields = Fields {
            severity: Severity::Warning,
            text: "t".to_string(),
            values: vec![("rule", "a\nPRIORITY=0".to_string())],
        };
        let m = message(&fields, "{}");
        let mut expected = b"RDZVSCOPE_RULE\n".to_vec();
        expected.extend_from_slice(&12u64.to_le_bytes());
        expected.extend_from_slice(b"a\nPRIORITY=0\n");
        assert!(m.windows(expected.len()).any(|w| w == expected));
        assert!(m.ends_with(b"RDZVSCOPE_DOCUMENT={}\n"));
        let large = message(&fields, &"x".repeat(DOCUMENT + 1));
        assert!(large.len() < 1024 && large.ends_with(b"RDZVSCOPE_DOCUMENT_LEFT_OUT_BYTES=49153\n"));
    }
}
