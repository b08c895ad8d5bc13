//! PyTorch's TCPStore: the rendezvous store of `torch.distributed`.

mod answer;
mod decoder;
mod decoder_answers;
mod decoder_requests;
mod dialect;
mod event;
mod field;
mod pieces;
mod plausible;
mod request;
mod watch;

pub use answer::{Answer, AnswerKind};
pub use decoder::{Connection, DecodeOptions};
pub use dialect::{Dialect, Operation};
pub use event::{DECLARED_MIN_BYTES, DECLARED_MIN_KEYS, Declared, Direction, Event, Place, Unfinished, ValidateFault};
pub use field::Field;
pub use request::{Message, Part, VALIDATE_MAGIC};
pub use watch::{Callback, Change};
