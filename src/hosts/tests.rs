//! Each form, from text to names.

use super::*;
use crate::net::Address;
use crate::oom::parse_instant;

fn v4(d: u8) -> Address {
    Address::v4([192, 0, 2, d])
}

fn read_all(text: &str, host: Option<&str>) -> (Names, Read) {
    let mut names = Names::default();
    let read = read(text, host, &mut names);
    (names, read)
}

#[test]
fn etc_hosts_with_second_names() {
    let (names, read) = read_all("192.0.2.11 ip-192-0-2-11 node-a\nx y\n192.0.2.12 node-b\n192.0.2.13 node-c\n", None);
    assert_eq!((read.form, read.not_understood, read.errors[0].line), (ListFormat::EtcHosts, 1, 2));
    assert!(names.same("node-a", "ip-192-0-2-11"));
    assert!(read.errors[0].to_string().contains("line 2: required an address and a name"));
}

#[test]
fn ip_addr_alone_and_gathered() {
    let text = "lo               UNKNOWN        127.0.0.1/8 ::1/128 \neth0@if5         UP             192.0.2.11/24 2001:db8::11/64 fe80::1/64 \nib0 DOWN\n";
    let (names, read) = read_all(text, Some("node-a"));
    assert_eq!((read.form, read.pairs, read.not_understood), (ListFormat::IpBrief, 2, 0));
    assert_eq!(names.host(v4(11)), Some("node-a"));
    assert_eq!(names.addresses("node-a").len(), 2);
    let (_, read) = read_all(text, None);
    assert_eq!((read.pairs, read.errors[0].line), (0, 2));
    let (names, _) = read_all(
        "node-a: lo UNKNOWN 127.0.0.1/8\nnode-a: eth0 UP 192.0.2.11/24 metric 100\nnode-b: eth0 UP 192.0.2.12/24\n",
        Some("all"),
    );
    assert_eq!((names.host(v4(11)), names.host(v4(12))), (Some("node-a"), Some("node-b")));
    let rule = "-".repeat(15);
    let text =
        format!("{rule}\nnode-a\n{rule}\neth0 UP 192.0.2.11/24\n{rule}\nn[1-2]\n{rule}\neth0 UP 192.0.2.12/24\n");
    let (names, read) = read_all(&text, Some("all"));
    assert_eq!((names.host(v4(11)), names.host(v4(12)), read.errors[0].line), (Some("node-a"), None, 8));
    let json = include_str!("../../testdata/host-lists/ip-j-addr.json");
    let (names, read) = read_all(json, Some("node-a"));
    assert_eq!((read.form, read.not_understood), (ListFormat::IpJson, 0));
    assert_eq!(names.host(v4(11)), Some("node-a"));
    let (names, _) = read_all(
        "gpu-1: [{\"ifname\":\"e\",\"addr_info\":[{\"local\":\"192.0.2.1\"}]}]\ngpu-2: [{\"ifname\":\"e\",\"addr_info\":[{\"local\":\"192.0.2.2\"}]}]\n",
        None,
    );
    assert_eq!((names.host(v4(1)), names.host(v4(2))), (Some("gpu-1"), Some("gpu-2")));
}

#[test]
fn a_pods_address_is_its_nodes_while_it_lives() {
    let text = r#"{"kind":"List","apiVersion":"v1","items":[
        {"kind":"Node","metadata":{"name":"gpu-07"},"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.7"},{"type":"Hostname","address":"gpu-07.example"},{"type":"InternalDNS","address":"ip-7.internal"}]}},
        {"kind":"Pod","metadata":{"name":"job-0","namespace":"ml"},"spec":{"nodeName":"gpu-07"},"status":{"phase":"Failed","podIP":"10.0.0.7","podIPs":[{"ip":"10.0.0.7"}],"startTime":"2026-11-29T11:00:00Z","containerStatuses":[{"state":{"terminated":{"finishedAt":"2026-11-29T11:21:00Z"}}}]}},
        {"kind":"Pod","metadata":{"name":"job-1"},"spec":{"nodeName":"gpu-08"},"status":{"phase":"Running","podIP":"10.0.0.7","startTime":"2026-11-29T11:30:00Z"}},
        {"kind":"Pod","metadata":{"name":"npd-x"},"spec":{"nodeName":"gpu-07","hostNetwork":true},"status":{"podIP":"192.0.2.7"}},
        {"kind":"Pod","metadata":{"name":"pending"},"spec":{},"status":{}}]}"#;
    let (names, read) = read_all(text, None);
    assert_eq!((read.form, read.not_understood), (ListFormat::Kubernetes, 0));
    let pod = Address::v4([10, 0, 0, 7]);
    let at = |t: &str| names.host_at(pod, parse_instant(t).unwrap());
    assert_eq!(at("2026-11-29T11:20:10Z"), Some("gpu-07"));
    assert_eq!(at("2026-11-29T11:25:00Z"), None);
    assert_eq!(at("2026-11-29T12:00:00Z"), Some("gpu-08"));
    assert!(names.same("job-0", "gpu-07") && names.same("npd-x", "gpu-07") && names.same("ip-7", "gpu-07"));
    let (_, read) = read_all("{\"kind\":\"List\",\"items\":[{\"kind\":\"Node\"},\n{\"kind\":", None);
    assert_eq!((read.not_understood, read.errors[0].line), (1, 2));
}

#[test]
fn slurm_nodes_and_ansible_inventories() {
    let text = "NodeName=gpu-017 Arch=x86_64 CoresPerSocket=32 \n   CPUAlloc=0\n   NodeAddr=192.0.2.17 NodeHostName=host17 Version=23.02\n\nNodeName=gpu-018 NodeAddr=gpu-018 NodeHostName=gpu-018\n";
    let (names, read) = read_all(text, None);
    assert_eq!((read.form, read.pairs, read.not_understood), (ListFormat::Slurm, 1, 0));
    assert!(names.host(v4(17)) == Some("gpu-017") && names.same("host17", "gpu-017"));
    let (names, read) =
        read_all("[gpu]\nnode-a ansible_host=192.0.2.11 ansible_user=x\nnode-b ansible_host=bad,addr\n", None);
    assert_eq!((read.form, names.host(v4(11)), read.errors[0].line), (ListFormat::Ansible, Some("node-a"), 3));
    let (names, _) = read_all(
        "all:\n  hosts:\n    node-a:\n      ansible_host: 192.0.2.11\n    \"node-b\":\n      ansible_host: '192.0.2.12'\n",
        None,
    );
    assert_eq!((names.host(v4(11)), names.host(v4(12))), (Some("node-a"), Some("node-b")));
    let (names, read) = read_all("rdzvscope/1 node-a address 192.0.2.11/24 eth0\nrdzvscope/1 node-a listen x\n", None);
    assert_eq!((read.form, names.host(v4(11)), read.errors[0].line), (ListFormat::Collected, Some("node-a"), 2));
}

#[test]
fn other_texts_are_no_lists() {
    for text in ["", "hello\n", "[  1.5] x\n", "{\"a\":1}", "[1,2]", "Nov 14 22:14:25 h kernel: x\n"] {
        assert_eq!(sniff(text), None, "{text}");
    }
}

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_jumble_is_read_without_panic(words in proptest::collection::vec(prop::sample::select(vec![
        "NodeName=", "a", "=", " ", "\n", "NodeAddr=", "192.0.2.1", "/24", "eth0 UP ", "[{\"ifname\":", "\"addr_info\":[", "]", "}", "{\"kind\":\"Pod\"",
        "ansible_host=", "ansible_host: ", ":", "---------------\n", "n[1-99999999]", "rdzvscope/1 ", "h listen ", "é",
    ]), 0..40)) {
        let text = words.concat();
        read(&text, Some("h"), &mut Names::default());
    }
}
