//! The RAS network (2.24 and later): an i32 length, then a message whose first field is its type.

use super::event::{Event, Fault, Place, RasMessage};
use super::piece_buffer::Need;
use super::version::{Version, Versions};
use super::wire::{address_at, i32_at, u32_at};
use crate::stream::Direction;

/// Bytes of a message that are looked at.
const HEAD: usize = 56;
const MAX_LENGTH: i32 = 16 << 20;
const CONNINIT: i32 = 1;

#[derive(Clone, Copy, Debug)]
enum At {
    Length,
    Head { length: i32, offset: u64 },
    Rest { message: RasMessage, offset: u64 },
    Stopped,
}

/// The decoder of one direction.
#[derive(Debug)]
pub(super) struct Ras {
    direction: Direction,
    at: At,
}

impl Ras {
    pub(super) fn new(direction: Direction) -> Self {
        Ras { direction, at: At::Length }
    }

    pub(super) fn need(&self) -> Need {
        match self.at {
            At::Length => Need::Bytes(4),
            At::Head { length, .. } => Need::Bytes((length.max(1) as usize).min(HEAD)),
            At::Rest { message, .. } => {
                Need::Skip(u64::try_from(message.length).map_or(1, |n| n.saturating_sub(HEAD as u64).max(1)))
            }
            At::Stopped => Need::Lost,
        }
    }

    pub(super) fn take(&mut self, bytes: &[u8], place: Place, out: &mut dyn FnMut(Event)) {
        let direction = self.direction;
        match self.at {
            At::Length => {
                let length = i32_at(bytes, 0).unwrap_or(0);
                if (8..=MAX_LENGTH).contains(&length) {
                    self.at = At::Head { length, offset: place.offset };
                } else {
                    out(Event::Malformed { direction, fault: Fault::Ras { kind: 0, length }, place });
                    self.at = At::Stopped;
                }
            }
            At::Head { length, offset } => {
                let place = Place { offset, ..place };
                let kind = i32_at(bytes, 0).unwrap_or(0);
                let fits = match kind {
                    CONNINIT | 3 => length == 56,
                    2 => length == 12,
                    4 => length >= 32,
                    5 | 6 => length >= 56,
                    _ => false,
                };
                if !fits {
                    out(Event::Malformed { direction, fault: Fault::Ras { kind, length }, place });
                }
                let hello = kind == CONNINIT && fits;
                let version = if hello { u32_at(bytes, 8) } else { None };
                if let Some(v) = version.and_then(Version::from_code) {
                    let by = "the version that RAS says";
                    out(Event::Versions { versions: Versions::exactly(v), by, place });
                }
                let address = if hello { address_at(bytes, 12) } else { None };
                let message = RasMessage { kind, length, version, address };
                if length as usize > HEAD {
                    self.at = At::Rest { message, offset };
                } else {
                    out(Event::Ras { direction, message, place });
                    self.at = At::Length;
                }
            }
            At::Rest { message, offset } => {
                out(Event::Ras { direction, message, place: Place { offset, ..place } });
                self.at = At::Length;
            }
            At::Stopped => {}
        }
    }

    pub(super) fn message(&self) -> Option<(&'static str, u64, u64)> {
        match self.at {
            At::Head { length, offset } => Some(("RAS message", offset, 4 + length.max(0) as u64)),
            At::Rest { message, offset } => Some(("RAS message", offset, 4 + message.length.max(0) as u64)),
            _ => None,
        }
    }
}
