//! Real servers of other protocols with their own clients, at whatever port is taken for a store's: recognised by their answers, and
//! quiet. Besides: answers of stores that no store sends, clients that only greet, and scans without a byte.

mod common;

use common::{analyze, joined};
use serde_json::{Value, json};

/// Server, port, and how it is named, where its bytes tell.
const SERVERS: [(&str, u16, Option<&str>); 11] = [
    ("amqp", 5672, Some("AMQP")),
    ("grpc", 50051, Some("HTTP/2")),
    ("ldap", 3890, Some("LDAP")),
    ("mariadb", 3306, Some("MySQL")),
    ("memcached", 11211, Some("memcached")),
    ("mqtt", 1883, Some("MQTT")),
    ("nginx-http1", 8081, Some("HTTP")),
    ("nginx-http2", 8080, Some("HTTP/2")),
    ("nginx-tls", 8443, Some("TLS")),
    ("redis", 6379, Some("Redis")),
    ("zmq", 5555, Some("ZeroMQ")),
];

#[test]
fn a_service_that_answers_is_no_store_at_any_port() {
    for (name, port, protocol) in SERVERS {
        let run = analyze(&[format!("foreign-servers/{name}.pcap"), "--port".into(), port.to_string()]);
        assert_eq!((run.status, run.grave().len()), (0, 0), "{name}: {:#?}", run.findings());
        let told = run.of_rule("foreign-server");
        assert_eq!(told.len(), 1, "{name}: {:#?}", run.findings());
        assert_eq!(told[0]["severity"], "notice");
        assert_eq!(told[0]["stray"]["protocol"].as_str(), protocol, "{name}");
        assert_eq!(told[0]["source"]["port"], port, "it is the server that shows it");
        let listener = run.listener(("127.0.0.1", u64::from(port)));
        assert_eq!((&listener["protocol"], &listener["dialect"]), (&json!("unknown"), &Value::Null), "{name}");
        // And without the port named nothing is said at all.
        assert!(analyze(&[format!("foreign-servers/{name}.pcap")]).findings().is_empty(), "{name}");
    }
}

#[test]
fn a_store_client_at_another_service_is_told_so() {
    for (file, protocol) in [("http2-server-on-store-port", "HTTP/2"), ("zmq-server-on-store-port", "ZeroMQ")] {
        let run = analyze(&[format!("wire/{file}.pcap")]);
        assert_eq!((run.status, run.grave().len()), (0, 0), "{:#?}", run.findings());
        let told = run.of_rule("foreign-server");
        assert!(!told.is_empty() && told.len() == run.findings().len(), "{:#?}", run.findings());
        for f in told {
            assert_eq!(f["stray"]["protocol"], protocol);
            assert!(f["explanation"].as_str().unwrap().contains("PyTorch 2.2 or later"), "{f:#}");
        }
    }
}

#[test]
fn a_malformed_answer_is_the_servers() {
    for (file, packet, clients) in [("reply-length-init", 16, "2.5"), ("reply-length-dialect-c", 14, "")] {
        let run = analyze(&[format!("wire/{file}.pcap")]);
        let [f] = run.findings() else { panic!("{:#?}", run.findings()) };
        assert_eq!(
            (&f["rule"], &f["packet"], &f["query"]),
            (&json!("store-reply-length"), &json!(packet), &json!("GET"))
        );
        assert_eq!((&f["source"]["port"], &f["declared"]["bytes"]), (&json!(29500), &json!(1_303_328_157_289u64)));
        assert_eq!(run.status, 1);
        let listener = run.listener(("10.0.0.5", 29500));
        assert_eq!(listener["protocol"], "tcpstore");
        assert!(listener["version"].as_str().unwrap_or_default().contains(clients));
    }
}

#[test]
fn a_client_that_greets_and_idles_is_healthy() {
    let run = analyze(&["wire/healthy-ping-and-idle.pcap"]);
    assert_eq!((run.status, run.findings().len()), (0, 0), "{:#?}", run.findings());
}

#[test]
fn connecting_to_many_ports_without_a_byte_is_one_scan() {
    let run = analyze(&["wire/nmap-sT-store.pcap"]);
    let scans = run.json["scans"].as_array().unwrap();
    assert_eq!(scans.len(), 1, "{scans:#?}");
    assert_eq!((&scans[0]["profile"], &scans[0]["tool"]), (&json!("connect scan"), &Value::Null));
    assert!(scans[0]["ports"].as_u64().unwrap() >= 1000, "{scans:#?}");
    assert_eq!(run.of_rule("connect-scan").len(), 1, "{:#?}", run.findings());
    let run = analyze(&["wire/nccl-connect-and-reset.pcap", "--nccl-port", "1-65535"]);
    assert_eq!(run.json["scans"].as_array().unwrap().len(), 1, "{:#}", run.json["scans"]);
}

#[test]
fn probes_at_a_port_that_nobody_knows_are_told_with_the_flag() {
    for (file, port) in [("nmap-sV-1.9.0-poll", 39845), ("nmap-sV-2.4.0-poll", 57269)] {
        let run = analyze(&[format!("scans/{file}.pcap")]);
        assert!(run.notes().contains(&format!("Pass --port {port} if a store listens there")), "{}", run.notes());
        let run = analyze(&[format!("scans/{file}.pcap"), "--port".into(), port.to_string()]);
        assert!(!run.notes().contains("was probed"), "{}", run.notes());
    }
}

#[test]
fn a_probe_that_stands_twice_is_one_probe() {
    let of = |n: &str| {
        let run = analyze(&[format!("wire/probe-segment-{n}.pcap"), "--port".into(), "29500".into()]);
        let f = run.findings().iter().find(|f| !f["stray"].is_null()).expect("the probe").clone();
        (f["rule"].clone(), f["stray"].clone(), joined(&json!([f["query"]])))
    };
    assert_eq!(of("once"), of("twice"));
}
