//! Conversations of real clients with real servers: the client's bytes over sockets, the server's bytes expected back.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::time::Duration;

use super::recorded::{LIST_KEYS, had_joined, hex, load, sorted_names, unhex};
use super::{Stage, answer, exactly, send};

#[test]
fn every_recorded_client_gets_the_bytes_of_the_real_server() {
    let traces = load("store-traces.json");
    let mut bytes = 0;
    assert_eq!(traces.as_object().unwrap().len(), 20);
    for (name, trace) in traces.as_object().unwrap() {
        let joined = had_joined(name.split_once('/').unwrap().0);
        let stage = Stage::new(&format!("tcpstore:{name}"), !joined);
        let mut clients: BTreeMap<&str, TcpStream> = BTreeMap::new();
        let mut listing = false;
        for event in trace["events"].as_array().unwrap() {
            let (who, what) = (event[0].as_str().unwrap(), event[1].as_str().unwrap());
            let (side, number) = who.split_at(1);
            let data = unhex(event[2].as_str().unwrap());
            match (side, what) {
                ("c", "OPEN") => {
                    clients.insert(number, stage.connect());
                    std::thread::sleep(Duration::from_millis(5));
                }
                ("c", "DATA") => {
                    listing = data == [LIST_KEYS];
                    send(clients.get_mut(number).unwrap(), &data);
                    std::thread::sleep(Duration::from_millis(5));
                }
                ("c", "CLOSE") => drop(clients.remove(number)),
                ("s", "DATA") => {
                    let got = exactly(clients.get_mut(number).unwrap(), data.len());
                    if std::mem::take(&mut listing) {
                        assert_eq!(sorted_names(&got), sorted_names(&data), "{name}");
                    } else {
                        assert_eq!(hex(&got), hex(&data), "{name} {who}");
                    }
                    bytes += data.len();
                }
                ("s", "CLOSE") => {
                    if let Some(client) = clients.get_mut(number) {
                        assert_ne!(answer(client, Duration::from_secs(2)).1, "open", "{name} {who}");
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        for (number, client) in &mut clients {
            assert_eq!(answer(client, Duration::from_millis(50)).0, b"", "{name} {number}: more than was recorded");
        }
        stage.end();
    }
    assert!(bytes > 1000, "{bytes}");
}
