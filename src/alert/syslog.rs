//! RFC 5424 to a local syslog daemon.

use std::io::{self, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::time::Duration;

use super::fields::Fields;
use crate::time::Timestamp;
use crate::vocabulary::Severity;

/// Where the syslog daemon listens.
pub const SYSLOG_SOCKET: &str = "/dev/log";
/// A daemon that takes longer is out of order.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a whole message: RFC 5424 asks receivers to take 2048, those in use take 8192.
const MOST: usize = 8000;
/// Facility "daemon".
const FACILITY: u8 = 3;
/// The id of the structured data. 32473 is the enterprise number that RFC 5612 reserves for those who have none.
const SD_ID: &str = "rdzvscope@32473";

/// Sends one alert.
///
/// # Errors
/// The socket's: nobody listens there, or it takes nothing for ten seconds.
pub(super) fn send(socket: &Path, fields: &Fields, kind: &str, now: Timestamp) -> io::Result<()> {
    let message = message(fields, kind, now, &hostname(), std::process::id());
    let datagram = UnixDatagram::unbound()?;
    datagram.set_write_timeout(Some(PATIENCE))?;
    match datagram.connect(socket) {
        Ok(()) => datagram.send(message.as_bytes()).map(drop),
        // EPROTOTYPE: a socket of the other kind. Messages are set apart by a line feed there (RFC 6587, 3.4.2).
        Err(e) if e.raw_os_error() == Some(91) => {
            let mut stream = UnixStream::connect(socket)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.write_all(format!("{message}\n").as_bytes())
        }
        Err(e) => Err(e),
    }
}

/// `<PRI>1 TIME HOST APP PROCID MSGID [SD] MSG`.
fn message(fields: &Fields, kind: &str, now: Timestamp, host: &str, pid: u32) -> String {
    let severity = match fields.severity {
        Severity::Critical => 2,
        Severity::Warning => 4,
        Severity::Notice => 5,
        Severity::Info => 6,
    };
    let time = now.to_utc().format("%Y-%m-%dT%H:%M:%S%.6fZ");
    let mut m = format!("<{}>1 {time} {host} rdzvscope {pid} {} [{SD_ID}", FACILITY * 8 + severity, name(kind, 32));
    for (name, value) in &fields.values {
        m.push_str(&format!(" {name}=\""));
        for c in value.chars() {
            if matches!(c, '"' | '\\' | ']') {
                m.push('\\');
            }
            m.push(c);
        }
        m.push('"');
    }
    m.push_str("] ");
    if !fields.text.is_ascii() {
        // Without it a receiver may take the text for anything.
        m.push('\u{feff}');
    }
    m.push_str(&fields.text);
    while m.len() > MOST {
        m.pop();
    }
    m
}

/// The host's own name, as the kernel has it.
fn hostname() -> String {
    name(std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim(), 255)
}

/// Visible ASCII without spaces; `-` where nothing is left.
fn name(text: &str, max: usize) -> String {
    let name: String = text.chars().filter(char::is_ascii_graphic).take(max).collect();
    if name.is_empty() { "-".to_string() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_header_its_data_escaped_and_its_bounds() {
        let fields = Fields {
            severity: Severity::Critical,
            text: "962 TB → out".to_string(),
            values: vec![("rule", "store-claim".to_string()), ("query", r#"a"b\c]d"#.to_string())],
        };
        let m = message(&fields, "finding", Timestamp(1_796_000_000_123_456_789), "node-a", 7);
        let data = r#"[rdzvscope@32473 rule="store-claim" query="a\"b\\c\]d"]"#;
        assert_eq!(
            m,
            format!("<26>1 2026-11-30T00:53:20.123456Z node-a rdzvscope 7 finding {data} \u{feff}962 TB → out")
        );
        let fields = Fields { text: "→".repeat(9000), ..fields };
        assert!(message(&fields, "", Timestamp(0), "", 1).len() <= MOST);
        assert_eq!(name("no de\n", 9), "node");
    }

    #[test]
    fn datagram_and_stream_sockets_are_served_and_nobody_there_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let fields = Fields { severity: Severity::Info, text: "t".to_string(), values: Vec::new() };
        let (a, b) = (place.path().join("a"), place.path().join("b"));
        let datagram = UnixDatagram::bind(&a).unwrap();
        let stream = std::os::unix::net::UnixListener::bind(&b).unwrap();
        send(&a, &fields, "notice", Timestamp(0)).unwrap();
        let mut buffer = [0; 9000];
        let n = datagram.recv(&mut buffer).unwrap();
        assert!(buffer[..n].starts_with(b"<30>1 1970-01-01T00:00:00.000000Z ") && buffer[..n].ends_with(b"] t"));
        send(&b, &fields, "notice", Timestamp(0)).unwrap();
        let mut text = String::new();
        io::Read::read_to_string(&mut stream.accept().unwrap().0, &mut text).unwrap();
        assert!(text.ends_with("] t\n"), "{text}");
        assert!(send(&place.path().join("c"), &fields, "notice", Timestamp(0)).is_err());
    }
}
