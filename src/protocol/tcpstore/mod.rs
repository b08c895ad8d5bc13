//! PyTorch's TCPStore: the rendezvous store of `torch.distributed`.

mod answer;
mod decoder;
mod decoder_answers;
mod decoder_requests;
mod dialect;
mod event;
mod evidence;
mod field;
mod narrow;
mod pieces;
mod plausible;
mod request;
mod watch;

pub use answer::{Answer, AnswerKind};
pub use decoder::{Connection, DecodeOptions};
pub use dialect::{Dialect, Operation};
pub use event::{DECLARED_MIN_BYTES, DECLARED_MIN_KEYS, Declared, Direction, Event, Place, Unfinished, ValidateFault};
pub use evidence::{Candidates, DialectSet, first_bytes, middle_bytes};
pub use field::Field;
pub use narrow::{Evidence, FlowReadings, Narrowed, Partner, Reading, narrow};
pub use request::{Message, Part, VALIDATE_MAGIC};
pub use watch::{Callback, Change};

#[cfg(test)]
mod decoder_tests;
#[cfg(test)]
mod trial;
