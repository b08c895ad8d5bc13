//! What a PyTorch client of a release sends to a store, piece by piece, and how many bytes of answer it waits for.
//!
//! The numbers are those of the wire (`testdata/outcomes/store-traces.json`), written down again: the decoder's own tables
//! are not asked.

use super::random::Random;

/// The magic number of 2.2 and later, as it stands on the wire.
const MAGIC: [u8; 4] = [0xce, 0xf7, 0x85, 0x3c];

/// A PyTorch release, as its clients see it: `(1, 13)`.
pub(crate) type Version = (u8, u8);

/// One thing that a client does on a connection.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Sends one segment.
    Send(Vec<u8>),
    /// Waits for so many bytes of answer, as many seconds as its patience.
    Await(usize, f64),
    /// Does nothing for so many seconds.
    Sleep(f64),
    /// Closes the connection: `true` by RST.
    Close(bool),
}

/// Query types of a release: set, get, add, check, wait.
struct Numbers {
    set: u8,
    get: u8,
    add: u8,
    check: u8,
    wait: u8,
}

fn numbers(v: Version) -> Numbers {
    match v {
        (1, ..=8) => Numbers { set: 0, get: 1, add: 2, check: 3, wait: 4 },
        (1, _) | (2, 0 | 1) => Numbers { set: 0, get: 2, add: 3, check: 4, wait: 5 },
        _ => Numbers { set: 1, get: 3, add: 4, check: 5, wait: 6 },
    }
}

fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}

/// Up to 2.0 the query type goes out by itself.
fn request(v: Version, query: u8, rest: Vec<u8>, steps: &mut Vec<Step>) {
    if v < (2, 1) {
        steps.push(Step::Send(vec![query]));
        steps.push(Step::Send(rest));
    } else {
        steps.push(Step::Send([&[query][..], &rest].concat()));
    }
}

/// Where the group keeps its keys.
pub(crate) fn prefix(v: Version) -> &'static str {
    match v {
        (1, ..=9) => "/0/",
        (1, _) => "/default_pg/0/",
        _ => "/default_pg/0//cpu//",
    }
}

/// A worker of a job: it joins, gives its address, reads that of rank 0, and then stays.
pub(crate) fn worker(v: Version, rank: usize, beat: Option<f64>, stay: f64, pid: u32, r: &mut Random) -> Vec<Step> {
    const PATIENCE: f64 = 300.0;
    let n = numbers(v);
    let mut steps = Vec::new();
    if v >= (2, 2) {
        steps.push(Step::Send([&[0][..], &MAGIC].concat()));
    }
    if v >= (2, 5) {
        steps.push(Step::Send([&[13][..], &pid.to_le_bytes()].concat()));
        steps.push(Step::Await(4, PATIENCE));
    }
    request(v, n.add, [string(b"init/"), 1i64.to_le_bytes().to_vec()].concat(), &mut steps);
    steps.push(Step::Await(8, PATIENCE));
    let blob: Vec<u8> = (0..64).map(|_| r.next() as u8).collect();
    let key = |rank: usize| format!("{}{rank}", prefix(v)).into_bytes();
    request(v, n.set, [string(&key(rank)), string(&blob)].concat(), &mut steps);
    request(v, n.wait, [1u64.to_le_bytes().to_vec(), string(&key(0))].concat(), &mut steps);
    steps.push(Step::Await(1, PATIENCE));
    request(v, n.get, string(&key(0)), &mut steps);
    steps.push(Step::Await(8 + 64, PATIENCE));
    let mut left = stay;
    while let Some(beat) = beat {
        let pause = beat * r.between(0.95, 1.05);
        if pause >= left {
            break;
        }
        left -= pause;
        steps.push(Step::Sleep(pause));
        request(v, n.check, [1u64.to_le_bytes().to_vec(), string(b"/exception_dump")].concat(), &mut steps);
        steps.push(Step::Await(1, PATIENCE));
    }
    steps.push(Step::Sleep(left.max(0.0)));
    steps.push(Step::Close(false));
    steps
}

/// The second connection of a client of 1.9 to 2.0, silent for as long as the job lives.
pub(crate) fn watcher(stay: f64) -> Vec<Step> {
    vec![Step::Sleep(stay), Step::Close(false)]
}

/// One connection that sends this, waits for an answer and goes.
pub(crate) fn stray(bytes: Vec<u8>, patience: f64, reset: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    if !bytes.is_empty() {
        steps.push(Step::Send(bytes));
        steps.push(Step::Await(1, patience));
    }
    steps.push(Step::Close(reset));
    steps
}
