//! One flow, byte for byte.

use std::io::{self, Write};

use crate::analysis::{Closed, FlowVisitor, Knowledge};
use crate::escape;
use crate::stream::{Chunk, Direction, Event, FlowRecord, GapCause, PacketRef};

/// How the bytes of a flow are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FollowFormat {
    /// Lines of text, made safe to show.
    Text,
    /// Hexadecimal, sixteen bytes a line.
    Hex,
    /// As they are.
    Raw,
}

/// Columns of text of one line.
const LINE: usize = 96;

/// Shows one flow: what was sent each way, in the order in which it could be read.
pub struct Follow<'a, W: Write> {
    known: &'a Knowledge,
    number: u64,
    form: FollowFormat,
    /// Only this direction.
    only: Option<Direction>,
    out: W,
    done: Result<bool, io::Error>,
}

impl<'a, W: Write> Follow<'a, W> {
    /// The flow with this number, both ways or one.
    pub fn new(known: &'a Knowledge, number: u64, form: FollowFormat, only: Option<Direction>, out: W) -> Self {
        Follow { known, number, form, only, out, done: Ok(false) }
    }

    /// The output, where the flow was there; or what went wrong.
    pub fn finish(self) -> io::Result<Option<W>> {
        let seen = self.done?;
        Ok(seen.then_some(self.out))
    }

    fn show(&mut self, direction: Direction, event: Event<'_>) -> io::Result<()> {
        if self.only.is_some_and(|d| d != direction) {
            return Ok(());
        }
        match (event, self.form) {
            (Event::Chunk(chunk), FollowFormat::Raw) => self.out.write_all(chunk.bytes),
            (Event::Chunk(chunk), form) => {
                self.head(direction, &chunk)?;
                match form {
                    FollowFormat::Hex => hex(chunk.offset, chunk.bytes, &mut self.out),
                    _ => text(chunk.bytes, &mut self.out),
                }
            }
            (_, FollowFormat::Raw) => Ok(()),
            (Event::Gap { offset, length, cause }, _) => {
                let why = match cause {
                    GapCause::Missed => "the capture missed them",
                    GapCause::NeverCame => "they never came",
                    GapCause::Cut => "cut off by the snaplen",
                    GapCause::Evicted => "not seen before what follows them had to be shown",
                };
                writeln!(self.out, "{} offset {offset}: {length} bytes missing, {why}", arrow(direction))
            }
            (Event::Conflict(c), _) => writeln!(
                self.out,
                "{} offset {}: packet {} carries other bytes than packet {} for {} bytes",
                arrow(direction),
                c.offset,
                c.packet_second.number,
                c.packet_first.number,
                c.length
            ),
        }
    }

    fn head(&mut self, direction: Direction, chunk: &Chunk<'_>) -> io::Result<()> {
        let label = self.known.labels.get(chunk.packet.capture as usize).filter(|_| self.known.labels.len() > 1);
        writeln!(
            self.out,
            "{} offset {}, {} bytes, packet {}{}, {}",
            arrow(direction),
            chunk.offset,
            chunk.bytes.len(),
            chunk.packet.number,
            label.map_or(String::new(), |l| format!(" of {}", escape::clean(l.as_bytes(), 200))),
            chunk.time
        )
    }
}

fn arrow(direction: Direction) -> &'static str {
    match direction {
        Direction::ToServer => ">",
        Direction::ToClient => "<",
    }
}

/// Lines of text; what is no text is escaped, long lines are broken.
fn text(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        let mut rest = line;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(fitting(rest));
            writeln!(out, "  {}", escape::clean(now, LINE))?;
            rest = later;
        }
    }
    Ok(())
}

/// How many of `bytes` fit in a line when they are escaped, at least one. No character is cut.
fn fitting(bytes: &[u8]) -> usize {
    let mut columns = 0;
    let fits = |b: &&u8| {
        // No byte takes more than four columns, alone or as its part of a character.
        columns += if (0x20..0x7f).contains(*b) { 1 } else { 4 };
        columns <= LINE
    };
    let most = bytes.iter().take_while(fits).count();
    let is_inside = |at: usize| bytes.get(at).is_some_and(|b| b & 0xc0 == 0x80);
    (most.saturating_sub(3).max(1)..=most).rev().find(|at| !is_inside(*at)).unwrap_or(most)
}

/// Sixteen bytes a line, with their offset in the stream and, where they are printable, as text.
pub(super) fn hex(offset: u64, bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    for (i, line) in bytes.chunks(16).enumerate() {
        let mut digits = String::with_capacity(48);
        for b in line {
            digits.push_str(&format!("{b:02x} "));
        }
        let shown: String = line.iter().map(|b| if (0x20..0x7f).contains(b) { char::from(*b) } else { '.' }).collect();
        writeln!(out, "  {:08x}  {digits:<48} {shown}", offset.saturating_add(i as u64 * 16))?;
    }
    Ok(())
}

impl<W: Write> FlowVisitor for Follow<'_, W> {
    type Flow = ();

    fn open(&mut self, number: u64, _record: &FlowRecord) -> Option<()> {
        (number == self.number).then_some(())
    }

    fn event(&mut self, _flow: &mut (), direction: Direction, event: Event<'_>, _packet: PacketRef) {
        if self.done.is_ok()
            && let Err(e) = self.show(direction, event)
        {
            self.done = Err(e);
        }
    }

    fn close(&mut self, _number: u64, _record: &FlowRecord, _closed: Closed<()>) {
        if let Ok(seen) = &mut self.done {
            *seen = true;
        }
    }

    fn silent(&mut self, number: u64, _record: &FlowRecord) {
        if let (true, Ok(seen)) = (number == self.number, &mut self.done) {
            *seen = true;
        }
    }

    fn stop(&self) -> bool {
        !matches!(self.done, Ok(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_characters_and_escaped() {
        let mut bytes = vec![b'a'; 100];
        bytes.extend("\r\n键".repeat(30).bytes());
        bytes.extend([0xff; 60]);
        bytes.extend("\u{202e}".repeat(30).bytes());
        let mut out = Vec::new();
        text(&bytes, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.lines().all(|l| escape::columns(l) <= LINE + 2), "{out}");
        assert_eq!(
            (out.matches('键').count(), out.matches("\\xff").count(), out.matches("202e").count()),
            (30, 60, 30)
        );
        assert_eq!(out.matches('…').count(), 0, "{out}");
    }

    #[test]
    fn hexadecimal_has_offsets_of_the_stream() {
        let mut out = Vec::new();
        hex(0x10, b"\x03\0abcdefghijklmnop", &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[0], "  00000010  03 00 61 62 63 64 65 66 67 68 69 6a 6b 6c 6d 6e  ..abcdefghijklmn");
        assert!(lines[1].starts_with("  00000020  6f 70 "));
    }
}
