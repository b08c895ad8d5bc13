//! Verdicts in plain words.

use super::super::Operation;
use super::action::{Allocation, Claim, Field, How, Reason};
use super::connection::Phase;
use super::verdict::{Facts, blocks};
use super::{MAX_KEY_BYTES, MAX_KEYS, MAX_VALUE_BYTES, Server};

/// `962696183808 bytes (0.96 TB, 0.876 TiB)`: both readings, where people mix them up.
pub(super) fn size(bytes: u64) -> String {
    // Digits stand together: this text is searched for.
    match bytes {
        1 => "1 byte".to_string(),
        0..=9_999 => format!("{bytes} bytes"),
        _ => format!("{bytes} bytes ({})", crate::size::readings(bytes)),
    }
}

/// What an allocation hangs on.
pub(super) fn condition(bytes: u64) -> String {
    format!("if the kernel grants {bytes} bytes (vm.overcommit_memory=1, or RAM+swap above it)")
}

fn article(operation: Operation) -> &'static str {
    if operation.name().starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" }
}

fn declared(claim: Claim) -> String {
    let what = match claim.field {
        Field::Count => format!("key count of {}", claim.declared),
        _ => format!("{} of {}", claim.field.name(), size(claim.declared)),
    };
    format!("{} with a declared {what}", claim.operation)
}

pub(super) fn explain(server: &Server, facts: &Facts, allocation: Option<Allocation>) -> String {
    let mut text = String::new();
    if let Some(allocation) = allocation {
        text = format!("{}: {}", declared(allocation.claim), fill(server, allocation));
        text.push_str(match facts.closed {
            None => ". The store answers nobody until the missing bytes arrive or the peer closes.",
            Some(_) => ". ",
        });
    }
    match (facts.closed, allocation) {
        (Some((how, reason)), before) => {
            let then = if before.is_some() { "If that is survived, " } else { "" };
            text.push_str(&sentence(then, &closing(server, facts, reason)));
            text.push_str(match how {
                How::Reset => " The peer sees a reset; other clients are not affected.",
                How::Fin => " The peer sees a normal close; other clients are not affected.",
            });
        }
        (None, None) => text = staying(server, facts),
        _ => {}
    }
    text
}

fn sentence(lead: &str, rest: &str) -> String {
    if !lead.is_empty() {
        return format!("{lead}{rest}");
    }
    let mut chars = rest.chars();
    chars.next().map(|c| c.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn fill(server: &Server, a: Allocation) -> String {
    match a.claim.field {
        Field::Count => format!(
            "PyTorch makes {} empty strings of {} bytes, {} in all, and writes each before it reads the first key",
            a.claim.declared,
            server.string_bytes,
            size(a.bytes)
        ),
        Field::Value => "PyTorch allocates and zero-fills it before reading the value".to_owned(),
        _ => "PyTorch allocates and zero-fills it before reading the key".to_owned(),
    }
}

fn closing(server: &Server, facts: &Facts, reason: Reason) -> String {
    let claim = facts.claim.map(declared);
    let what = claim.unwrap_or_else(|| "a request".to_owned());
    match reason {
        Reason::UnknownQuery(byte) => {
            format!("the server closes: byte 0x{byte:02x} is no query type that it knows.")
        }
        Reason::NotValidate(byte) => {
            format!("the server closes: the first byte, 0x{byte:02x}, is not VALIDATE, which must come first.")
        }
        Reason::WrongMagic(magic) => {
            format!("the server closes: VALIDATE with 0x{magic:08x} instead of the magic number.")
        }
        Reason::ValidateAgain => {
            "the server closes: VALIDATE was not complete and right in the first segment.".to_owned()
        }
        Reason::LengthError => {
            format!("the server closes: {what}, more than any container may hold (std::length_error).")
        }
        Reason::BadAlloc => format!("the server closes: {what}, and {} (std::bad_alloc).", refusal(server, facts)),
        Reason::KeyTooLong => {
            format!("the server closes: {what}; the limit is {MAX_KEY_BYTES} bytes. Nothing is allocated.")
        }
        Reason::ValueTooLong => {
            format!("the server closes: {what}; the limit is {MAX_VALUE_BYTES} bytes. Nothing is allocated.")
        }
        Reason::TooManyKeys => format!("the server closes: {what}; the limit is {MAX_KEYS}. Nothing is allocated."),
        Reason::MissingKey => format!("the server closes: {} asks for a key that does not exist.", query(facts)),
        Reason::NotANumber => format!("the server closes: {} on a value that is no number.", query(facts)),
        Reason::SplitRequest => {
            "the server closes: 2.2.0's libuv server mishandles a request that arrives in pieces.".to_owned()
        }
        Reason::WatcherGone => "the server closes: a watcher of this key has left, and telling it fails.".to_owned(),
        Reason::NotValidated(byte) => {
            format!(
                "the server closes: the connection began with 0x{byte:02x}, not with VALIDATE, and the next segment ends it."
            )
        }
        Reason::PeerClosed => "the peer closed its end.".to_owned(),
    }
}

/// Who refuses: no process has that much address space, or this kernel's policy says no.
fn refusal(server: &Server, facts: &Facts) -> String {
    let entry = |claim: &Claim| if claim.field == Field::Count { server.string_bytes } else { 1 };
    let bytes = facts.claim.map_or(0, |claim| claim.declared.saturating_mul(entry(&claim)));
    if bytes >= server.address_space {
        return format!("no process has the address space for {}", size(bytes));
    }
    format!("the kernel refuses {} (vm.overcommit_memory, RAM and swap)", size(bytes))
}

fn query(facts: &Facts) -> &'static str {
    facts.query.map_or("a request", Operation::name)
}

fn staying(server: &Server, facts: &Facts) -> String {
    match facts.phase {
        Phase::Unknown => "What the server does from here on is not known.".to_owned(),
        Phase::Ignored(byte) => format!(
            "The first byte, 0x{byte:02x}, is not VALIDATE: the libuv server answers nothing and keeps the connection open. \
             Nothing is allocated."
        ),
        Phase::ValidateAgain => {
            "VALIDATE is incomplete or has another magic number: the libuv server answers nothing and keeps \
                                 the connection open; the next segment closes it."
                .to_owned()
        }
        _ if facts.in_hand => unfinished(server, facts),
        _ if facts.awaited > 0 => {
            format!("{} is answered when {} more key(s) are set; others are served.", query(facts), facts.awaited)
        }
        _ if facts.served == 0 => "Nothing has been asked: the server waits, and serves others.".to_owned(),
        _ if facts.reply_bytes > 0 => format!("{} is served and answered.", query(facts)),
        _ => format!("{} is served; it has no answer.", query(facts)),
    }
}

fn unfinished(server: &Server, facts: &Facts) -> String {
    let what = match (facts.claim, facts.query) {
        (Some(claim), _) => declared(claim),
        (None, Some(operation)) => format!("{} {operation} that ends in mid-field", article(operation)),
        _ => "a request".to_owned(),
    };
    let missing = size(facts.missing);
    if blocks(server) {
        return sentence(
            "",
            &format!(
                "{what}: {missing} of it are missing, and the server's only thread waits for them. The store answers nobody \
                 until they arrive or the peer closes."
            ),
        );
    }
    sentence("", &format!("{what}: the server waits for {missing} more, and serves others."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_carry_both_readings() {
        assert_eq!(size(962_174_058_496), "962174058496 bytes (0.96 TB, 0.875 TiB)");
        assert_eq!(size(268_435_468), "268435468 bytes (268 MB, 256 MiB)");
        assert_eq!(size(100), "100 bytes");
        assert_eq!(size(1), "1 byte");
        assert!(size(u64::MAX).contains("EiB"));
    }
}
