//! The fields of a message as bytes, named one by one.

use std::io::{self, Write};

use serde::{Serialize, Serializer};

use super::follow::hex;
use crate::protocol::nccl;
use crate::protocol::tcpstore::{Answer, AnswerKind, Field, FieldPart, Message, Operation};
use crate::report::Pseudonyms;

/// A field of a message, with the bytes of it that were kept.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MarkedField {
    /// Its name.
    pub name: &'static str,
    /// Offset of its first byte in its stream.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Its first bytes; none of a value, unless values are asked for.
    #[serde(rename = "hex", serialize_with = "as_hex")]
    pub bytes: Vec<u8>,
    /// What stands in for its bytes, when they must not be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

fn as_hex<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&crate::finding::hex(bytes))
}

impl MarkedField {
    /// Memory it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity()
    }

    /// Puts a token in the place of what others chose: keys, values, whatever is no number of fixed width.
    pub(super) fn redact(&mut self, veil: &Pseudonyms) {
        let kind = match self.name {
            n if n == FieldPart::Key.name() => "key",
            n if n == FieldPart::Value.name() || matches!(n, nccl::PAYLOAD | "line") => "value",
            // Socket addresses, and what whoever knows it may check in with.
            n if n.ends_with("address") || n == "magic" => "bytes",
            _ => return,
        };
        if !self.bytes.is_empty() {
            self.token = Some(veil.token(kind, &self.bytes));
            self.bytes = Vec::new();
        }
    }

    /// Sixteen bytes a line, the field's name before them.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "  {:<12} offset {}, {} bytes", self.name, self.offset, self.length)?;
        if let Some(token) = &self.token {
            return writeln!(out, "  {token}");
        }
        hex(self.offset, &self.bytes, out)?;
        let more = self.length.saturating_sub(self.bytes.len() as u64);
        if more > 0 {
            writeln!(out, "  {more} bytes not shown")?;
        }
        Ok(())
    }
}

/// The fields of a message of NCCL. `bytes`: as much of its beginning as was kept; `carried`: the data that it carries.
pub(super) fn of_nccl(
    kind: &str,
    (offset, length): (u64, u64),
    bytes: &[u8],
    carried: u64,
    show_values: bool,
) -> Vec<MarkedField> {
    let mut at = 0u64;
    let all = nccl::fields(kind, length, bytes, carried);
    all.into_iter()
        .map(|(name, length)| {
            let shown = show_values || !matches!(name, nccl::PAYLOAD | "line");
            let from = usize::try_from(at).unwrap_or(usize::MAX);
            let kept = bytes.get(from..).filter(|_| shown).unwrap_or_default();
            let kept = &kept[..kept.len().min(usize::try_from(length).unwrap_or(usize::MAX))];
            let field = MarkedField { name, offset: offset + at, length, bytes: kept.to_vec(), token: None };
            at += length;
            field
        })
        .collect()
}

/// Puts fields together in the order of the wire. The store's integers are little-endian.
struct Fields {
    all: Vec<MarkedField>,
    at: u64,
    show_values: bool,
}

impl Fields {
    fn new(offset: u64, show_values: bool) -> Self {
        Fields { all: Vec::new(), at: offset, show_values }
    }

    fn add(&mut self, name: &'static str, length: u64, bytes: &[u8]) {
        self.all.push(MarkedField { name, offset: self.at, length, bytes: bytes.to_vec(), token: None });
        self.at = self.at.saturating_add(length);
    }

    fn fixed(&mut self, part: FieldPart, bytes: &[u8]) {
        self.add(part.name(), bytes.len() as u64, bytes);
    }

    fn string(&mut self, length: FieldPart, part: FieldPart, field: &Field) {
        self.fixed(length, &field.length.to_le_bytes());
        let hidden = part == FieldPart::Value && !self.show_values;
        self.add(part.name(), field.length, if hidden { &[] } else { &field.bytes });
    }

    fn key(&mut self, field: &Field) {
        self.string(FieldPart::KeyLength, FieldPart::Key, field);
    }

    fn value(&mut self, field: &Field) {
        self.string(FieldPart::ValueLength, FieldPart::Value, field);
    }
}

/// The fields of a request. Of one with many keys, those that were kept.
pub(super) fn of_request(m: &Message, show_values: bool) -> Vec<MarkedField> {
    use Operation::*;
    let mut f = Fields::new(m.offset, show_values);
    f.add("query", 1, &[m.opcode]);
    let number = m.number.unwrap_or(0);
    match m.query {
        Validate => f.fixed(FieldPart::Magic, &(number as u32).to_le_bytes()),
        Ping => f.fixed(FieldPart::Nonce, &(number as u32).to_le_bytes()),
        Check | Wait | MultiGet | MultiSet => {
            f.fixed(FieldPart::KeyCount, &m.key_count.to_le_bytes());
            for (i, key) in m.keys.iter().enumerate() {
                f.key(key);
                if let Some(value) = m.values.get(i) {
                    f.value(value);
                }
            }
        }
        _ => {
            m.keys.iter().for_each(|k| f.key(k));
            m.values.iter().for_each(|v| f.value(v));
            if matches!(m.query, Add | Barrier) {
                f.fixed(FieldPart::Number, &number.to_le_bytes());
            }
        }
    }
    f.all
}

/// The fields of an answer.
pub(super) fn of_answer(a: &Answer, show_values: bool) -> Vec<MarkedField> {
    let mut f = Fields::new(a.offset, show_values);
    let number = a.number.unwrap_or(0);
    match a.kind {
        _ if a.length == 0 => {}
        AnswerKind::Ready | AnswerKind::StopWaiting => f.fixed(FieldPart::Code, &[0]),
        AnswerKind::NotReady | AnswerKind::WaitCanceled => f.fixed(FieldPart::Code, &[1]),
        AnswerKind::Registered => f.fixed(FieldPart::Code, &[3]),
        AnswerKind::Pong | AnswerKind::WrongNonce => f.fixed(FieldPart::Nonce, &(number as u32).to_le_bytes()),
        AnswerKind::Number => f.fixed(FieldPart::Number, &number.to_le_bytes()),
        AnswerKind::Value | AnswerKind::Values => a.fields.iter().for_each(|v| f.value(v)),
        AnswerKind::Element => {
            f.fixed(FieldPart::Number, &number.to_le_bytes());
            a.fields.iter().for_each(|v| f.value(v));
        }
        AnswerKind::List => {
            f.fixed(FieldPart::KeyCount, &number.to_le_bytes());
            a.fields.iter().for_each(|k| f.key(k));
        }
    }
    f.all
}
