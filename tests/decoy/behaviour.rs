//! The behaviour suite of real servers, over sockets: exact answers, the state of the connection, whether others are served.

use std::sync::Mutex;
use std::time::Duration;

use rdzvscope::api::protocol::tcpstore::Operation;
use rdzvscope::api::protocol::tcpstore::release::Release;
use serde_json::Value;

use super::{Stage, answer, exactly, hex, load, send, unhex};

/// Long enough for a decoy on loopback to do all that it will do, on a busy machine.
const WAIT: Duration = Duration::from_millis(150);
const VALIDATE: &[u8] = &[0x00, 0xce, 0xf7, 0x85, 0x3c];

fn string(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_le_bytes(), bytes].concat()
}

/// One case. The state that the recorded server was in is told by its answers; see the test of the model.
fn run(case: &Value, patience: u32) -> (String, &'static str, bool) {
    let text = |key: &str| case[key].as_str().unwrap();
    let release = Release::parse(text("pytorch")).unwrap();
    let version = (release.major, release.minor);
    let stage = Stage::new(&format!("tcpstore:{}/{}", text("pytorch"), text("backend")), false);
    let byte = |o: Operation| (0..=release.highest).find(|b| release.dialect.operation(*b) == Some(o)).unwrap();
    let client = || {
        let mut stream = stage.connect();
        if release.dialect.validates() {
            send(&mut stream, VALIDATE);
        }
        stream
    };
    let mut setup = client();
    let mut set = |key: &[u8], value: &[u8]| {
        send(&mut setup, &[&[byte(Operation::Set)][..], &string(key), &string(value)].concat());
        // An answered request after it: the value is there.
        send(&mut setup, &[&[byte(Operation::Get)][..], &string(key)].concat());
        assert_eq!(exactly(&mut setup, 8 + value.len()), string(value));
    };
    let gone = text("case") == "add_non_numeric" && ((1, 8)..=(2, 0)).contains(&version);
    if !gone {
        set(b"/k1", if version >= (2, 1) { b"" } else { b"v1" });
    }
    if text("backend") == "libuv" || [(1, 8), (1, 9), (2, 1)].contains(&version) {
        set(b"/other", b"x");
    }
    let watcher = (gone && version >= (1, 9)).then(|| {
        let mut watcher = stage.connect();
        send(&mut watcher, &[&[byte(Operation::WatchKey)][..], &string(b"/k1")].concat());
        assert_eq!(exactly(&mut watcher, 1), [3]);
        watcher
    });
    let mut peer = stage.connect();
    std::thread::sleep(Duration::from_millis(20) * patience);
    // The watcher leaves when its descriptor can no longer become the peer's.
    if let Some(watcher) = watcher {
        drop(watcher);
        std::thread::sleep(Duration::from_millis(20) * patience);
    }
    let mut taken = true;
    for segment in case["segments"].as_array().unwrap() {
        taken &= send(&mut peer, &unhex(segment.as_str().unwrap()));
        std::thread::sleep(Duration::from_millis(15) * patience);
    }
    let (reply, state) = answer(&mut peer, WAIT * patience);
    let state = if taken { state } else { "reset" };
    send(&mut setup, &[&[byte(Operation::Get)][..], &string(b"init/")].concat());
    let served = answer(&mut setup, WAIT * patience).0 == string(b"1");
    stage.end();
    (hex(&reply), state, served)
}

#[test]
fn every_recorded_case_over_sockets() {
    let cases = load("store-behaviour.json");
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 356);
    let next = Mutex::new(0..cases.len());
    let differences = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                loop {
                    let Some(i) = next.lock().unwrap().next() else { return };
                    let case = &cases[i];
                    let was = (
                        case["reply"].as_str().unwrap().to_owned(),
                        case["state"].as_str().unwrap(),
                        case["others_served"].as_bool().unwrap(),
                    );
                    // On a busy machine segments may arrive together, and answers late: what differs gets more time.
                    let same =
                        |is: &(String, &str, bool)| (is.0.as_str(), is.1, is.2) == (was.0.as_str(), was.1, was.2);
                    let mut is = run(case, 1);
                    for patience in [4, 12] {
                        if !same(&is) {
                            is = run(case, patience);
                        }
                    }
                    if !same(&is) {
                        let name = format!("{}/{} {}", case["pytorch"], case["backend"], case["case"]);
                        differences.lock().unwrap().push(format!("{name}: was {was:?}, decoy {is:?}"));
                    }
                }
            });
        }
    });
    let differences = differences.into_inner().unwrap();
    assert!(differences.is_empty(), "{} of 356 differ: {differences:#?}", differences.len());
}
