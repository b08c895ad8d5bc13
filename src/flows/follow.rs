//! One flow, byte for byte.

use std::io::{self, Write};

use crate::analysis::{Closed, Knowledge, Visit};
use crate::report::escape;
use crate::stream::{Chunk, Direction, Event, FlowRecord, GapCause, PacketRef};

/// How the bytes of a flow are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
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
    form: Form,
    /// Only this direction.
    only: Option<Direction>,
    out: W,
    done: Result<bool, io::Error>,
}

impl<'a, W: Write> Follow<'a, W> {
    /// The flow with this number, both ways or one.
    pub fn new(known: &'a Knowledge, number: u64, form: Form, only: Option<Direction>, out: W) -> Self {
        Follow { known, number, form, only, out, done: Ok(false) }
    }

    /// Whether the flow was there; or what went wrong.
    pub fn finish(mut self) -> io::Result<bool> {
        self.out.flush()?;
        self.done
    }

    fn show(&mut self, direction: Direction, event: Event<'_>) -> io::Result<()> {
        if self.only.is_some_and(|d| d != direction) {
            return Ok(());
        }
        match (event, self.form) {
            (Event::Chunk(chunk), Form::Raw) => self.out.write_all(chunk.bytes),
            (Event::Chunk(chunk), form) => {
                self.head(direction, &chunk)?;
                match form {
                    Form::Hex => hex(chunk.offset, chunk.bytes, &mut self.out),
                    _ => text(chunk.bytes, &mut self.out),
                }
            }
            (_, Form::Raw) => Ok(()),
            (Event::Gap { offset, length, cause }, _) => {
                let why = match cause {
                    GapCause::Missed => "the capture missed them",
                    GapCause::NeverCame => "they never came",
                    GapCause::Cut => "cut off by the snaplen",
                    GapCause::Evicted => "given up to stay below the memory limit",
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
        let label = self.known.labels.get(chunk.packet.capture as usize).map_or("?", String::as_str);
        writeln!(
            self.out,
            "{} offset {}, {} bytes, packet {}, {} ({})",
            arrow(direction),
            chunk.offset,
            chunk.bytes.len(),
            chunk.packet.number,
            chunk.time,
            escape::clean(label.as_bytes(), 60)
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
            // A byte takes four columns at most, so this much always fits; a character is not cut.
            let mut cut = rest.len().min(LINE / 4);
            while cut > 1 && cut < rest.len() && rest.get(cut).is_some_and(|b| b & 0xc0 == 0x80) {
                cut -= 1;
            }
            let (now, later) = if rest.is_ascii() && rest.iter().all(|b| (0x20..0x7f).contains(b) || *b == b'\n') {
                rest.split_at(rest.len().min(LINE))
            } else {
                rest.split_at(cut)
            };
            writeln!(out, "  {}", escape::clean(now, LINE * 4))?;
            rest = later;
        }
    }
    Ok(())
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

impl<W: Write> Visit for Follow<'_, W> {
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
