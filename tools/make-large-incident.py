#!/usr/bin/env python3
"""Makes a large incident: a capture at a tap, a log and a hosts list, with so many hosts, OOM kills and strays.

Every host has a store (PyTorch 1.9-2.0 on port 29500) with one honest client. Strays of several protocols reach the stores over
a day, one connection each; the last one to each host is a claim (nmap's TerminalServerCookie), and the kernel kills that store
seconds later. All other kills are spread over thirty days. The same arguments give the same bytes.

    tools/make-large-incident.py DIR --hosts 10000 --kills 1000000 --findings 1000000
"""
import argparse
import os
import random
import struct

START = 1_795_910_400  # 2026-11-29T00:00:00Z
DAY = 86_400
CLAIM = bytes.fromhex("0300002a25e00000000000436f6f6b69653a206d737473686173683d6e6d61700d0a")
STRAYS = [
    b"GET / HTTP/1.0\r\n\r\n",
    b"OPTIONS / RTSP/1.0\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.2p1\r\n",
    b"EHLO scanner\r\n",
    bytes.fromhex("16030100520100004e03030000000000000000000000000000000000000000"),
]


def address(host):
    return struct.pack(">I", (10 << 24) + host + 1)


def key(text):
    return struct.pack("<Q", len(text)) + text


def segment(src, dst, seq, ack, flags, payload):
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 0, 0x4000, 64, 6, 0, src[0], dst[0])
    return ip + struct.pack(">HHIIBBHHH", src[1], dst[1], seq, ack, 0x50, flags, 64240, 0, 0) + payload


class Pcap:
    def __init__(self, path):
        self.out = open(path, "wb", buffering=1 << 20)
        self.out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 101))

    def packet(self, micros, data):
        self.out.write(struct.pack("<IIII", micros // 1_000_000, micros % 1_000_000, len(data), len(data)) + data)


def flow(pcap, at, client, server, parts, closes):
    """A handshake, then requests with their answers; `closes`: the server closes behind them."""
    put = lambda src, dst, seq, ack, flags, payload=b"": pcap.packet(at + put.n * 20, segment(src, dst, seq, ack, flags, payload)) or setattr(put, "n", put.n + 1)
    put.n = 0
    put(client, server, 99, 0, 2)
    put(server, client, 499, 100, 0x12)
    put(client, server, 100, 500, 0x10)
    sent, got = 100, 500
    for request, answer in parts:
        put(client, server, sent, got, 0x18, request)
        sent += len(request)
        if answer:
            put(server, client, got, sent, 0x18, answer)
            got += len(answer)
    if closes:
        put(server, client, got, sent, 0x11)
        put(client, server, sent, got + 1, 0x11)


# Requests of a store's client, and the answers.
HONEST = [
    (b"\x03" + key(b"init/") + struct.pack("<q", 1), struct.pack("<q", 1)),
    (b"\x00" + key(b"/k") + key(b"v") + b"\x02" + key(b"/k"), key(b"v")),
]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("directory")
    p.add_argument("--hosts", type=int, default=10_000)
    p.add_argument("--kills", type=int, default=1_000_000)
    p.add_argument("--findings", type=int, default=1_000_000)
    p.add_argument("--captures", type=int, default=1, help="spread the hosts over so many captures")
    p.add_argument("--seed", type=int, default=7)
    a = p.parse_args()
    rng = random.Random(a.seed)
    os.makedirs(a.directory, exist_ok=True)
    name = lambda h: f"node-{h:05}"
    with open(f"{a.directory}/hosts", "w") as out:
        for h in range(a.hosts):
            out.write(f"{'.'.join(str(b) for b in address(h))} {name(h)}\n")
    taps = [Pcap(f"{a.directory}/tap-{i:05}.pcap") for i in range(a.captures)]
    tap = lambda h: taps[h % len(taps)]
    for h in range(a.hosts):
        store = (address(h), 29500)
        flow(tap(h), START * 1_000_000 + h * 1000, (address((h + 1) % a.hosts), 40000), store, HONEST, False)
    strays = max(0, a.findings - a.hosts)
    begin = (START + 60) * 1_000_000
    step = (DAY - 3600) * 1_000_000 // max(1, strays)
    for i in range(strays):
        source = (bytes([192, 0, 2, 1 + i % 200]), 1024 + (i // a.hosts) % 60000)
        h = i % a.hosts
        flow(tap(h), begin + i * step, source, (address(h), 29500), [(rng.choice(STRAYS), b"")], True)
    claimed = (START + DAY - 3000) * 1_000_000
    for h in range(a.hosts):
        flow(tap(h), claimed + h * 100_000, (bytes([192, 0, 2, 250]), 50000), (address(h), 29500), [(CLAIM, b"")], False)
    for t in taps:
        t.packet((START + DAY - 1) * 1_000_000, segment((address(0), 1), (address(1), 2), 1, 1, 0x10, b""))
    kills = [(START + DAY - 3000 + h // 10 + rng.randrange(20, 60), h, True) for h in range(min(a.hosts, a.kills))]
    for i in range(a.kills - len(kills)):
        kills.append((START - 29 * DAY + rng.randrange(29 * DAY), i % a.hosts, False))
    kills.sort()
    import time

    with open(f"{a.directory}/cluster.log", "w", buffering=1 << 20) as out:
        for pid, (at, h, by_claim) in enumerate(kills):
            vm = 941138648 if by_claim else 60_000_000 + pid
            when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))
            out.write(
                f"{when}+00:00 {name(h)} kernel: [1.0] Out of memory: Killed process {pid + 2} (python) "
                f"total-vm:{vm}kB, anon-rss:1000kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB\n"
            )


if __name__ == "__main__":
    main()
