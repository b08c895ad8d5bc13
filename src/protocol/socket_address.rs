//! Socket addresses as C programs copy them into messages: `sockaddr_in` and `sockaddr_in6` of Linux.

use crate::net::{Address, Endpoint};

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// The endpoint in the first 16 (IPv4) or 28 (IPv6) bytes: family u16 little-endian, port u16 big-endian, then
/// the address; for IPv6 a flow label comes before it. `None` for another family, port 0, or too few bytes.
pub(crate) fn endpoint(bytes: &[u8]) -> Option<Endpoint> {
    let family = u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let address = match family {
        AF_INET => Address::v4(bytes.get(4..8)?.try_into().ok()?),
        AF_INET6 => {
            let raw: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            bytes.get(..28)?;
            Address::v6(raw)
        }
        _ => return None,
    };
    (port != 0).then(|| Endpoint::new(address, port))
}
