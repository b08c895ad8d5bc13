use super::super::DISSECTORS;
use super::*;

fn taken(client: &[u8], server: &[u8], port: u16) -> Vec<&'static str> {
    let opening = Opening { client, server, port, whole: true };
    DISSECTORS.iter().filter(|d| d.recognise(&opening) == Match::Yes).map(|d| d.protocol().text()).collect()
}

#[test]
fn first_bytes_name_the_protocol() {
    let tp = [8, 0, 0, 0, 0, 0, 0, 0, 0xb8, 0, 0xb9, 1, 0xbd, 2, 0x77, 0x31];
    assert_eq!(taken(&tp, b"", 40000), ["tensorpipe"]);
    assert_eq!(taken(b"\x01\0\x7f\xaf\0\0\0\0OPAL-TCP-BTL\0\x7f\0\0", b"", 1025), ["mpi"]);
    assert_eq!(taken(b"\x01\0\0\0", &[[1, 0, 0, 0].as_slice(), &[0xff; 28]].concat(), 43875), ["mpi"]);
    assert_eq!(taken(b"\0\0\x01\x12\x26\0\0\0\x03\xea", b"", 6817), ["slurm"]);
    assert_eq!(taken(b"", b"\xff\0\0\0\0\0\0\0\x01\x7f\x03", 5701), ["zmq"]);
    assert_eq!(taken(b"", b"\0\0\x18\x04\0\0\0\0\0\0\x04", 6379), ["ray", "etcd", "grpc"]);
    assert_eq!(taken(b"*3\r\n$3\r\nset\r\n", b"", 6379), ["redis"]);
    assert_eq!(taken(b"\x78\x56\x34\x12\xbe\xba\xfe\xca\0", b"", 40000), ["ucx"]);
    assert_eq!(taken(b"GET / HTTP/1.0\r\n\r\n", b"", 40000), ["http"]);
    assert_eq!(taken(b"", b"SSH-2.0-OpenSSH_9.2\r\n", 22), ["ssh"]);
}

#[test]
fn names_need_both_sides_where_anybody_may_speak() {
    let of = |named: &Named, client: &[u8], server: &[u8], port| {
        (named.name)(&Speech { client, server, port }).map(|n| n.product)
    };
    use super::super::{grpc, http, mpi, redis};
    assert_eq!(of(&http::HTTP, b"GET / HTTP/1.0\r\n\r\n", b"", 80), None);
    assert!(!of(&http::HTTP, b"", b"HTTP/1.1 200 OK\r\nServer: Tornado\x1b[31m\r\n", 80).unwrap().contains('\x1b'));
    assert_eq!(of(&mpi::MPI, b"\x01\0\0\0", b"\0\0\0\0", 40000), None);
    assert_eq!(of(&redis::REDIS, b"GET / HTTP/1.0\r\n\r\n", b"-ERR x\r\n", 80), None);
    assert_eq!(of(&grpc::RAY, b"", b"\0\0\x18\x04\0\0\0\0\0", 443), None);
}

proptest::proptest! {
    /// Whatever comes, nothing breaks and random bytes are nobody's.
    #[test]
    fn arbitrary_bytes_break_nothing(client in proptest::collection::vec(proptest::num::u8::ANY, 0..64), server in proptest::collection::vec(proptest::num::u8::ANY, 0..64), port in 0u16..) {
        let _ = taken(&client, &server, port);
    }
}
