#!/usr/bin/env python3
"""Makes evidence of a fleet: a file for each host's day, by running `analyze --format jsonl` on a capture and a log made for it.

Every host has CONNECTIONS ordinary connections, half of them from the fleet's monitoring, half to its services, all answered and closed, and a
store (PyTorch 1.9-2.0 on port 29500) with one client. Of the first KILLED hosts the store is then sent a claim by one scanner, which also
knocks on twenty closed ports, and the kernel kills it 40 seconds later. The same arguments give the same bytes.

    tools/make-fleet.py BINARY DIR --hosts 1000 --connections 20000 --killed 3 [--first 0] [--lean]
"""
import argparse
import importlib.util
import multiprocessing
import os
import struct
import subprocess
import tempfile

beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "make-large-incident.py")
spec = importlib.util.spec_from_file_location("incident", beside)
incident = importlib.util.module_from_spec(spec)
spec.loader.exec_module(incident)

DAY = incident.START
FILE = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
RECORD = 16 + 14 + 40 + 16
# Side that sends, flags and payload of the packets of an ordinary connection.
STEPS = [(0, 2, 0), (1, 0x12, 0), (0, 0x18, 16), (1, 0x18, 16), (0, 0x11, 0), (1, 0x11, 0), (0, 0x10, 0)]
SERVICES = [2049, 443, 6443, 9090, 8080, 636, 3260, 5432]
SCANNER = bytes([192, 0, 2, 66])


class Frames:
    """IP packets as the records of an Ethernet capture, each padded to at least so many bytes."""

    def __init__(self, pad=0):
        self.out, self.pad = bytearray(), pad

    def packet(self, micros, data):
        frame = (bytes(12) + b"\x08\x00" + data).ljust(self.pad, b"\0")
        self.out += struct.pack("<IIII", micros // 1_000_000, micros % 1_000_000, len(frame), len(frame)) + frame


def ordinary(connections):
    """The ordinary connections of host 0, spread over a day; every record has one length."""
    frames = Frames(RECORD - 16)
    for i in range(connections):
        peer = bytes([172, 16, i // 2 % 120, 9])
        here, there = incident.address(0), 32768 + i % 28000
        client, server = ((peer, there), (here, 9100)) if i % 2 else ((here, there), (peer, SERVICES[i // 2 % 8]))
        at = (DAY + i * 80_000 // connections) * 1_000_000 + i % 1000 * 1000
        seqs = [i * 977, i * 1013]
        for n, (side, flags, length) in enumerate(STEPS):
            src, dst = (client, server) if side == 0 else (server, client)
            data = b"\x16\x03\x01 ordinary..."[:length].ljust(length, b".")
            frames.packet(at + n * 300, incident.segment(src, dst, seqs[side], seqs[1 - side] if n else 0, flags, data))
            seqs[side] += length + (1 if flags & 3 else 0)
    return frames.out


def of_host(packets, host):
    """The same packets with another host's address."""
    out, every = bytearray(packets), 2 * len(STEPS) * RECORD
    for inbound in (0, 1):
        for n, (side, _, _) in enumerate(STEPS):
            at = (inbound * len(STEPS) + n) * RECORD + 16 + 14 + (12 if side == inbound else 16)
            for octet, value in enumerate(incident.address(host)):
                places = slice(at + octet, None, every)
                out[places] = bytes([value]) * len(out[places])
    return out


def night(host, killed):
    """The store's client, and the scan."""
    frames, at = Frames(), (DAY + 82_000) * 1_000_000
    store, client = (incident.address(host), 29500), (bytes([10, 200, host >> 8 & 255, host & 255]), 40000)
    incident.flow(frames, at, client, store, incident.HONEST, False)
    if killed:
        for port in range(1, 21):
            when = at + 60_000_000 + port * 1000
            ends = (SCANNER, 55000), (store[0], port)
            frames.packet(when, incident.segment(*ends, 7, 0, 2, b""))
            frames.packet(when + 100, incident.segment(*ends[::-1], 0, 8, 0x14, b""))
        incident.flow(frames, at + 70_000_000, (SCANNER, 55100), store, [(incident.CLAIM, b"")], False)
    frames.packet(at + 600_000_000, incident.segment((client[0], 1), (store[0], 2), 1, 1, 0x10, b""))
    return frames.out


def one(job):
    a, host, packets = job
    name = f"node-{host:05}"
    to = f"{a.directory}/{name}.jsonl"
    with tempfile.TemporaryDirectory() as place:
        with open(f"{place}/{name}.pcap", "wb") as out:
            out.write(FILE + of_host(packets, host) + night(host, host < a.killed))
        with open(f"{place}/{name}.log", "w") as out:
            out.write(f"2026-11-29T22:00:00+00:00 {name} kernel: [1.0] booted\n")
            if host < a.killed:
                out.write(
                    f"2026-11-29T22:48:30+00:00 {name} kernel: [9.0] Out of memory: Killed process 7 (python) "
                    "total-vm:941138648kB, anon-rss:1000kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB\n"
                )
        lean = ["--lean"] if a.lean else []
        paths = [f"{name}.pcap", "--oom", f"{name}={place}/{name}.log"]
        subprocess.run(
            [os.path.abspath(a.binary), "analyze", *paths, *lean, "--exit-zero", "--format", "jsonl", "-o", to],
            cwd=place, check=True, stderr=subprocess.DEVNULL,
        )
    return os.path.getsize(to)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("binary")
    p.add_argument("directory")
    p.add_argument("--hosts", type=int, default=1000)
    p.add_argument("--first", type=int, default=0, help="the number of the first host")
    p.add_argument("--connections", type=int, default=20_000)
    p.add_argument("--killed", type=int, default=3)
    p.add_argument("--lean", action="store_true")
    a = p.parse_args()
    a.directory = os.path.abspath(a.directory)
    os.makedirs(a.directory, exist_ok=True)
    packets = bytes(ordinary(a.connections))
    with multiprocessing.Pool() as pool:
        sizes = pool.map(one, [(a, h, packets) for h in range(a.first, a.first + a.hosts)], chunksize=1)
    print(f"{a.hosts} hosts, {sum(sizes)} bytes, {sum(sizes) // max(1, a.hosts)} a host")


if __name__ == "__main__":
    main()
