#!/usr/bin/env python3
"""wireshark.py BINARY CAPTURE...: each message that `BINARY messages` lists, and its answer, against what contrib/wireshark makes of it in tshark.

A line a difference, and a last line with the counts as JSON. Status 0 when all are equal.
"""
import collections
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as tree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WIRESHARK = f"{ROOT}/contrib/wireshark"
# Recordings in which the two rightly differ, and why.
KNOWN = {
    "node-a-snaplen96-nanosecond.pcap": "the capture cut segments short: Wireshark puts no message together over a cut",
    "gloo-newgroup-killed-by-connect-close.pcap": "cut at 170 bytes a packet",
    "tensorpipe-rpc-dies-on-GET.pcap": "cut at 170 bytes a packet",
    "2.16.2-strays-at-root.pcap": "frames of strangers at listeners that messages knows by what they did",
    "2.26.2-strays-at-root.pcap": "the same",
    "2.26.2-livejob-all-ports-scanned.pcap": "the same",
    "three-interfaces.pcapng": "each packet stands three times: Wireshark takes copies for retransmissions of some messages",
    "2.14.3src-stray-nmap-sSsV-then-2ranks.pcap": "a stranger's bytes at a root without a handshake are a frame to messages alone",
    "nccl-root-type99.pcap": "type 99 is a handshake to who knows the listener",
    "zmq-server-on-store-port.pcap": "another protocol's bytes answer a PING",
    "nccl-corrupt-times.pcapng": "times of 2^64-1",
}
# A magic is random: this one (10 5c …) begins as a message of a protocol that Wireshark guesses first.
DECODE_AS = {"2.26.2-strays-at-root.pcap": {"48865"}}
KINDS = ("Bootstrap", "Proxy", "NET", "Socket", "IB", "RAS")
FRAMES = {"reply", "data", "ring address", "ring slot", "peer", "check-in"}


def ours(binary, capture):
    out = subprocess.run([binary, "messages", "--format", "jsonl", capture], capture_output=True, text=True, check=True).stdout
    return [m for m in map(json.loads, out.splitlines()) if m["protocol"] in ("tcpstore", "nccl")]


def theirs(capture, messages):
    """Messages of tshark: (protocol, source, destination, offset) → what is shown."""
    stores = {m["flow"].rsplit(":", 1)[1] for m in messages if m["protocol"] == "tcpstore"} - {"29500", "29400", "23456"}
    dialects = {m["dialect"] for m in messages if m["protocol"] == "tcpstore" and m["dialect"]}
    command = ["tshark", "-r", capture, "-o", "tcp.reassemble_out_of_order:TRUE", "-T", "pdml", "-J", "tcpstore nccl ip ipv6 tcp",
               "-X", f"lua_script:{WIRESHARK}/rdzvscope-tcpstore.lua", "-X", f"lua_script:{WIRESHARK}/rdzvscope-nccl.lua",
               "-Y", "tcpstore.offset or nccl.offset"]
    for port in sorted(stores):
        command += ["-d", f"tcp.port=={port},tcpstore"]
    # What began before the capture, or without a handshake, is told by nothing but its port.
    known = {m["flow"] for m in messages if m["query"] == "handshake"}
    ports = {m["flow"].rsplit(":", 1)[1] for m in messages if m["protocol"] == "nccl" and m["flow"] not in known}
    for port in sorted(ports | DECODE_AS.get(os.path.basename(capture), set())):
        command += ["-d", f"tcp.port=={port},nccl"]
    if len(dialects) == 1:
        command += ["-o", f"tcpstore.dialect:{dialects.pop()}"]
    out = subprocess.run(command, capture_output=True, check=False)
    if b"rror" in out.stderr and b"lua" in out.stderr.lower() or not out.stdout:
        raise SystemExit(f"tshark: {out.stderr.decode()[:500]}")
    found = {}
    for packet in tree.fromstring(out.stdout).iter("packet"):
        protos = list(packet.iter("proto"))
        value = lambda p, name: next((x.get("show") for x in p.iter("field") if x.get("name") == name), None)
        ends = [None, None]
        for p in protos:  # The innermost addresses are those of the stream.
            if p.get("name") in ("ip", "ipv6"):
                ends = [value(p, f"{p.get('name')}.src"), value(p, f"{p.get('name')}.dst")]
            if p.get("name") == "tcp":
                ports = [value(p, "tcp.srcport"), value(p, "tcp.dstport")]
        for p in protos:
            name = p.get("name")
            if name not in ("tcpstore", "nccl") or value(p, f"{name}.offset") is None:
                continue
            key = (name, f"{ends[0]}:{ports[0]}", f"{ends[1]}:{ports[1]}", int(value(p, f"{name}.offset")))
            number = lambda field: int(value(p, field)) if value(p, field) is not None else None
            lengths = [int(x.get("show")) for x in p.iter("field") if x.get("name") == "tcpstore.value_length"]
            found[key] = {"query": value(p, f"{name}.query"), "answer": value(p, "tcpstore.answer"), "length": number(f"{name}.length"),
                          "key": value(p, "tcpstore.key"), "key_bytes": number("tcpstore.key_length"), "values": lengths,
                          "packet": int(next(x.get("show") for x in packet.iter("field") if x.get("name") == "num"))}
    return found


def compare(binary, capture, counts):
    messages = ours(binary, capture)
    if not messages:
        counts["captures without messages"] += 1
        return []
    found, bad, kinds = theirs(capture, messages), [], collections.Counter()
    frames = {}
    for m in messages:
        client, server = m["flow"].split("-", 1)
        ends = (client, server) if m["direction"] == "to-server" else (server, client)
        at = (m["protocol"], *ends, m["stream_offset"])
        what = f"{os.path.basename(capture)} {m['flow']} {m['direction']} {m['stream_offset']} {m['query']}"
        if m["protocol"] == "nccl":
            if m["query"] not in FRAMES | {"handshake"} or m["unfinished"]:
                continue
            # A stranger's first bytes are a handshake to who knows the listener, and nothing to Wireshark.
            if m["query"] == "handshake" and not any(k in (m["detail"] or "") for k in KINDS):
                counts["strangers"] += 1
                continue
            it = found.get(at)
            # Some of our messages are two frames, rank and value: the first is where the message begins.
            lengths = 0
            while it and lengths < m["length"]:
                lengths += it["length"]
                it2 = found.get((*at[:3], m["stream_offset"] + lengths))
                if lengths >= m["length"] or it2 is None:
                    break
            wanted = m["query"] if m["query"] in ("handshake",) else None
            if it is None or lengths != m["length"] or wanted and it["query"] != wanted:
                bad.append(f"{what}: ours {m['length']} bytes, theirs {it}")
            kinds["nccl " + m["query"]] += 1
            continue
        it = found.get(at)
        if m["unfinished"]:
            if it is not None and it["key_bytes"] and m["key_bytes"] and it["key_bytes"] != m["key_bytes"]:
                bad.append(f"{what}: declared {m['key_bytes']}, theirs {it}")
            counts["unfinished"] += 1
            continue
        shown = m["key"] if m["key"] and m["key"].isascii() and "\\" not in m["key"] else None
        if (it is None or (it["query"], it["length"], it["key_bytes"]) != (m["query"], m["length"], m["key_bytes"])
                or shown and it["key"] != shown or m["query"] in ("SET", "APPEND", "QUEUE_PUSH") and it["values"] != [m["value_bytes"]]):
            bad.append(f"{what}: ours {m['query']} {m['length']} {m['key']} {m['key_bytes']}, theirs {it}")
        kinds[m["query"]] += 1
        if (a := m["answered"]) and m["query"] != "CANCEL_WAIT" and m["answer"] != "wait canceled":
            it = found.get(("tcpstore", *ends[::-1], a["stream_offset"]))
            if it is None or it["length"] != a["length"] or it["answer"] != m["query"]:
                bad.append(f"{what}: answered at {a['stream_offset']} with {a['length']} bytes, theirs {it}")
            counts["answers"] += 1
    counts.update(kinds)
    counts["captures"] += 1
    return bad


def main():
    counts, bad = collections.Counter(), []
    for capture in sys.argv[2:]:
        if os.path.basename(capture) in KNOWN:
            counts["recordings in which they rightly differ"] += 1
            continue
        bad += compare(sys.argv[1], capture, counts)
    for line in bad:
        print("DIFFERS", line)
    print(json.dumps(counts))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
