//! One decoded message, as a line of `messages` has it.

use serde::Serialize;

use super::fields::MarkedField;
use crate::net::Endpoint;
use crate::protocol::nccl::Versions;
use crate::protocol::tcpstore::{Dialect, Field};
use crate::report::Pseudonyms;
use crate::time::Timestamp;

/// What a message is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tongue {
    /// A store's dialect.
    Store(Dialect),
    /// NCCL, of one of these releases.
    Nccl(Versions),
    /// Gloo.
    Gloo,
}

impl Tongue {
    /// The protocol.
    pub fn protocol(self) -> &'static str {
        match self {
            Tongue::Store(_) => "tcpstore",
            Tongue::Nccl(_) => "nccl",
            Tongue::Gloo => "gloo",
        }
    }

    /// As documents spell it: the store's dialect, NCCL's range of releases.
    pub fn text(self) -> String {
        match self {
            Tongue::Store(d) => d.name().to_string(),
            Tongue::Nccl(v) => v.to_string(),
            Tongue::Gloo => "gloo".to_string(),
        }
    }

    /// In few columns.
    pub fn short(self) -> &'static str {
        match self {
            Tongue::Store(d) => d.name(),
            other => other.protocol(),
        }
    }
}

/// A request to a store with its answer, a callback of a watched key, or a message of NCCL or Gloo.
#[derive(Clone, Debug)]
pub struct MessageLine {
    /// When its last byte was seen.
    pub time: Timestamp,
    /// Index of the capture.
    pub capture: u32,
    /// The packet with its last byte.
    pub packet: u64,
    /// Number of the flow.
    pub flow: u64,
    /// The client.
    pub client: Endpoint,
    /// The listener.
    pub server: Endpoint,
    /// `to-server` for requests, `to-client` for callbacks.
    pub direction: &'static str,
    /// What it was read in.
    pub tongue: Tongue,
    /// Of a store: the dialects that fit the listener.
    pub candidates: Vec<Dialect>,
    /// The query type, by PyTorch's own name; of NCCL and Gloo the kind of message.
    pub query: &'static str,
    /// The first key, bounded.
    pub key: Option<Field>,
    /// How many keys it names.
    pub key_count: u64,
    /// What a message of NCCL says, in words.
    pub detail: Option<String>,
    /// The number it carries: ADD's delta, BARRIER's world size, a rank.
    pub number: Option<i64>,
    /// The length of the value it carries, or of the value that it is answered with.
    pub value_bytes: Option<u64>,
    /// That value, bounded, where values are asked for.
    pub value: Option<Vec<u8>>,
    /// What its key is for.
    pub purpose: Option<&'static str>,
    /// What it was answered with.
    pub answer: Option<AnswerLine>,
    /// Offset of its first byte in its stream.
    pub offset: u64,
    /// Its length in bytes; of one that did not end, as much as came.
    pub length: u64,
    /// The stream ended in this field: its name, its declared length, how much of it came.
    pub unfinished: Option<(&'static str, u64, u64)>,
    /// Its fields, where they are asked for.
    pub fields: Vec<MarkedField>,
    /// What is shown in the place of names, when none must be.
    pub tokens: Option<Tokens>,
}

/// What stands in for the names in a message.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// For the two ends.
    flow: String,
    /// For the first key.
    key: Option<String>,
    /// For the value.
    value: Option<String>,
}

/// What a request was answered with.
#[derive(Clone, Debug, Serialize)]
pub struct AnswerLine {
    /// What it says: `value`, `number`, `stop waiting`, …
    #[serde(skip)]
    pub kind: &'static str,
    /// The number it carries.
    pub number: Option<i64>,
    /// From the request's last byte to the first one of the answer, in seconds.
    #[serde(skip)]
    pub latency: f64,
    /// The packet with its last byte.
    pub packet: u64,
    /// Offset of its first byte in the server's stream.
    pub stream_offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The sum of the lengths of its values.
    pub value_bytes: u64,
    /// Its fields, where they are asked for.
    #[serde(skip)]
    pub fields: Vec<MarkedField>,
}

/// A line of JSON, keys in the order of the contract.
#[derive(Serialize)]
struct Document<'a> {
    r#type: &'static str,
    time: Timestamp,
    capture: Option<&'a str>,
    packet: u64,
    flow: String,
    direction: &'static str,
    dialect: String,
    query: &'static str,
    key: Option<String>,
    key_bytes: Option<u64>,
    value_bytes: Option<u64>,
    purpose: Option<&'static str>,
    answer: Option<&'static str>,
    latency_seconds: Option<f64>,
    stream_offset: u64,
    length: u64,
    dialect_candidates: Vec<&'static str>,
    protocol: &'static str,
    detail: Option<String>,
    flow_number: u64,
    key_count: u64,
    number: Option<i64>,
    answered: Option<&'a AnswerLine>,
    unfinished: Option<UnfinishedDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_hex: Option<String>,
    #[serde(skip_serializing_if = "<[MarkedField]>::is_empty")]
    fields: &'a [MarkedField],
    #[serde(skip_serializing_if = "<[MarkedField]>::is_empty")]
    answer_fields: &'a [MarkedField],
}

#[derive(Serialize)]
struct UnfinishedDocument {
    field: &'static str,
    declared: u64,
    delivered: u64,
}

/// Columns that a key or a value gets in JSON.
const TEXT: usize = 4096;

/// `client-server`, as every line names a flow.
pub(super) fn flow_name(client: Endpoint, server: Endpoint) -> String {
    format!("{client}-{server}")
}

fn veiled_flow(client: Endpoint, server: Endpoint, veil: &Pseudonyms) -> String {
    format!("{}-{}", veil.endpoint(client), veil.endpoint(server))
}

impl MessageLine {
    /// The first key, made safe to show.
    pub fn key_text(&self, columns: usize) -> Option<String> {
        if let Some(tokens) = &self.tokens {
            return tokens.key.clone();
        }
        let key = self.key.as_ref()?;
        let mut text = crate::escape::clean(&key.bytes, columns);
        if !key.is_whole() && !text.ends_with('…') {
            text = crate::escape::clean(format!("{text}{}", "…").as_bytes(), columns);
        }
        Some(text)
    }

    /// What it says, made safe to show.
    pub fn detail_text(&self, columns: usize) -> Option<String> {
        self.detail.as_ref().map(|d| crate::escape::clean(d.as_bytes(), columns))
    }

    /// The value, made safe to show.
    pub fn value_text(&self, columns: usize) -> Option<String> {
        match &self.tokens {
            Some(tokens) => tokens.value.clone(),
            None => self.value.as_ref().map(|v| crate::escape::clean(v, columns)),
        }
    }

    /// Puts tokens in the place of names and contents.
    pub fn redact(&mut self, veil: &Pseudonyms) {
        self.tokens = Some(Tokens {
            flow: veiled_flow(self.client, self.server, veil),
            key: self.key.as_ref().map(|k| veil.token("key", &k.bytes)),
            value: self.value.as_ref().map(|v| veil.token("value", v)),
        });
        self.detail = self.detail.as_ref().map(|d| match self.query {
            // What RAS answers in words may name hosts that nothing else names.
            "RAS text" => veil.token("text", d),
            _ => veil.text(d),
        });
        self.fields.iter_mut().for_each(|f| f.redact(veil));
        self.answer.iter_mut().flat_map(|a| &mut a.fields).for_each(|f| f.redact(veil));
    }

    /// As JSON; `labels` names captures by index.
    pub fn json(&self, labels: &[String]) -> serde_json::Result<String> {
        let plain = self.tokens.is_none();
        serde_json::to_string(&Document {
            r#type: "message",
            time: self.time,
            capture: labels.get(self.capture as usize).map(String::as_str),
            packet: self.packet,
            flow: self.tokens.as_ref().map_or_else(|| flow_name(self.client, self.server), |t| t.flow.clone()),
            direction: self.direction,
            dialect: self.tongue.text(),
            query: self.query,
            key: self.key_text(TEXT),
            key_bytes: self.key.as_ref().map(|k| k.length),
            value_bytes: self.value_bytes,
            purpose: self.purpose,
            answer: self.answer.as_ref().map(|a| a.kind),
            latency_seconds: self.answer.as_ref().map(|a| a.latency),
            stream_offset: self.offset,
            length: self.length,
            dialect_candidates: self.candidates.iter().map(|d| d.name()).collect(),
            protocol: self.tongue.protocol(),
            detail: self.detail_text(TEXT),
            flow_number: self.flow,
            key_count: self.key_count,
            number: self.number,
            answered: self.answer.as_ref(),
            unfinished: self.unfinished.map(|(field, declared, delivered)| UnfinishedDocument {
                field,
                declared,
                delivered,
            }),
            value: self.value_text(TEXT),
            value_hex: self.value.as_ref().filter(|_| plain).map(|v| crate::finding::hex(v)),
            fields: &self.fields,
            answer_fields: self.answer.as_ref().map_or(&[], |a| &a.fields),
        })
    }

    /// Memory it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let fields = |f: &[MarkedField]| f.iter().map(MarkedField::bytes).sum::<usize>();
        size_of::<Self>()
            + self.key.as_ref().map_or(0, |k| k.bytes.capacity())
            + self.detail.as_ref().map_or(0, String::capacity)
            + self.value.as_ref().map_or(0, Vec::capacity)
            + self.candidates.capacity()
            + fields(&self.fields)
            + self.answer.as_ref().map_or(0, |a| fields(&a.fields))
            + 128
    }
}

/// A range of a recognised stream that no message accounts for.
#[derive(Clone, Debug)]
pub struct Undecoded {
    /// Index of the capture with the flow's first packet.
    pub capture: u32,
    /// The client.
    pub client: Endpoint,
    /// The listener.
    pub server: Endpoint,
    /// `to-server` or `to-client`.
    pub direction: &'static str,
    /// Offset of its first byte in its stream.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// What is shown in the place of the two ends, when they must not be.
    pub token: Option<String>,
}

impl Undecoded {
    /// Puts tokens in the place of addresses.
    pub fn redact(&mut self, veil: &Pseudonyms) {
        self.token = Some(veiled_flow(self.client, self.server, veil));
    }

    fn flow(&self) -> String {
        self.token.clone().unwrap_or_else(|| flow_name(self.client, self.server))
    }

    /// As JSON; `labels` names captures by index.
    pub fn json(&self, labels: &[String]) -> serde_json::Result<String> {
        #[derive(Serialize)]
        struct Document<'a> {
            r#type: &'static str,
            capture: Option<&'a str>,
            flow: String,
            direction: &'static str,
            stream_offset: u64,
            length: u64,
        }
        serde_json::to_string(&Document {
            r#type: "undecoded",
            capture: labels.get(self.capture as usize).map(String::as_str),
            flow: self.flow(),
            direction: self.direction,
            stream_offset: self.offset,
            length: self.length,
        })
    }

    /// As a line of text.
    pub fn text(&self, labels: &[String]) -> String {
        let label = labels.get(self.capture as usize).map_or("?", String::as_str);
        format!(
            "{}  {}  {}  offset {}  {} bytes",
            crate::escape::clean(label.as_bytes(), 200),
            self.flow(),
            self.direction,
            self.offset,
            self.length
        )
    }
}
