use std::io::{self, Read};
use std::sync::mpsc;

use super::*;

/// Hands out one byte a read.
struct Dribble(Cursor<Vec<u8>>);

impl Read for Dribble {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let one = buf.len().min(1);
        self.0.read(&mut buf[..one])
    }
}

#[test]
fn one_byte_at_a_time_reads_the_same() {
    let real = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/links/node-c.pcapng")).expect("read");
    let gz = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/links/node-c.pcap.gz")).expect("read");
    let mut damaged = thirty();
    damaged[500..600].fill(0xff);
    let cut = thirty()[..1000].to_vec();
    for bytes in [thirty(), damaged, cut, real, gz] {
        let (all, summary) = read(&bytes);
        let (seen, other, error) = drain(Dribble(Cursor::new(bytes)));
        assert!(error.is_none() && seen == all);
        assert_eq!((summary.warnings, summary.identity), (other.warnings, other.identity));
    }
}

/// A pipe whose writer hands over one piece at a time, and that panics when it is read with no piece there.
struct Live(mpsc::Receiver<Vec<u8>>);

impl Read for Live {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let piece = self.0.try_recv().expect("a read that would wait");
        buf[..piece.len()].copy_from_slice(&piece);
        Ok(piece.len())
    }
}

#[test]
fn a_live_pipe_is_not_waited_for_when_a_record_is_there() {
    let o = Order(false);
    let ng = [o.section(&[]), o.interface(1, 0, &[])].concat();
    type Record = Box<dyn Fn(u32) -> Vec<u8>>;
    let formats: [(Vec<u8>, Record); 2] = [
        (o.pcap(0xa1b2_c3d4, 0, 1), Box::new(move |i| o.record(1_795_951_173 + i, 0, 4, b"data"))),
        (ng, Box::new(move |i| o.enhanced(0, u64::from(i), 4, b"data", &[]))),
    ];
    for (header, record) in formats {
        let (pipe, end) = mpsc::channel();
        pipe.send(header).expect("sent");
        let mut reader = Reader::from_read("-", Box::new(Live(end)), &Limits::default()).expect("a header");
        for i in 0..100 {
            let whole = record(i);
            let (left, right) = whole.split_at(whole.len() / 2);
            pipe.send(left.to_vec()).expect("sent");
            pipe.send(right.to_vec()).expect("sent");
            let packet = reader.next().expect("no error").expect("a packet");
            assert_eq!((packet.number, packet.data), (u64::from(i) + 1, b"data".as_slice()));
        }
    }
}

#[test]
fn a_failing_read_is_an_error_after_the_whole_records() {
    struct Broken(Cursor<Vec<u8>>);
    impl Read for Broken {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buf)? {
                0 => Err(io::Error::other("the disk is gone")),
                n => Ok(n),
            }
        }
    }
    let bytes = thirty();
    let length = bytes.len();
    let (seen, _, error) = drain(Broken(Cursor::new(bytes)));
    assert_eq!(seen.len(), 30);
    assert_eq!(error.expect("told").to_string(), format!("test: read failed after {length} bytes: the disk is gone"));
}
