//! PyTorch's TCPStore: the rendezvous store of `torch.distributed`.

mod answer;
mod decoder;
mod decoder_answer;
mod decoder_answers;
mod decoder_request;
mod decoder_requests;
mod dialect;
mod elastic;
mod elastic_events;
mod event;
mod evidence;
mod facts;
mod field;
mod infer_dialect;
mod judge;
mod key;
mod learned;
mod options;
mod pickle;
mod pieces;
mod plausible;
pub mod release;
mod request;
mod rules;
mod said;
mod seam;
pub mod server;
mod signs;
mod watch;

pub use answer::{Answer, AnswerKind};
pub use decoder::{Connection, DecodeOptions};
pub use dialect::{Dialect, Operation};
pub use elastic::Agent;
pub use elastic_events::{Attendance, JobEvent};
pub use event::{Declared, Direction, Event, Unfinished, ValidateFault};
pub use evidence::{Candidates, first_bytes};
pub use facts::{Decoding, Facts, is_store_key};
pub use field::Field;
pub use infer_dialect::{FlowReadings, Partner, Reading, narrow};
pub use key::{Purpose, purpose};
pub use learned::{Learned, NamedRoot, Said};
pub use release::Release;
pub use request::{FieldPart, Message, VALIDATE_MAGIC};
pub(crate) use rules::StoreRule;
pub use seam::Tcpstore;
pub use watch::Callback;

#[cfg(test)]
mod decoder_tests;
#[cfg(test)]
mod gap_tests;
#[cfg(test)]
mod round_trip_tests;
#[cfg(test)]
pub(crate) mod test_support;
