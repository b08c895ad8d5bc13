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
mod pickle;
mod pieces;
mod plausible;
pub mod release;
mod request;
mod rules;
mod seam;
pub mod server;
mod signs;
mod watch;

pub use answer::{Answer, AnswerKind};
pub use decoder::{Connection, DecodeOptions};
pub use dialect::{Dialect, Operation};
pub use elastic::{Agent, ElasticError, ElasticState, parse_elastic_state};
pub use elastic_events::{Attendance, ElasticJob, JobEvent};
pub use event::{DECLARED_MIN_BYTES, DECLARED_MIN_KEYS, Declared, Direction, Event, Place, Unfinished, ValidateFault};
pub use evidence::{Candidates, DialectSet, first_bytes, middle_bytes};
pub use facts::{Decoding, Facts, FirstRequest, is_store_key};
pub use field::Field;
pub use infer_dialect::{Evidence, FlowReadings, Narrowed, Partner, Reading, narrow};
pub use key::{Purpose, purpose};
pub use learned::{Learned, NamedRoot, NamedStore, Said};
pub use pickle::PickleError;
pub use release::Release;
pub use request::{FieldPart, Message, VALIDATE_MAGIC};
pub(crate) use rules::StoreRule;
pub use seam::{Readings, Tcpstore};
pub use signs::{Pulse, Signal, Signs};
pub use watch::{Callback, Change};

#[cfg(test)]
mod decoder_tests;
#[cfg(test)]
mod gap_tests;
#[cfg(test)]
mod round_trip_tests;
#[cfg(test)]
pub(crate) mod test_support;
