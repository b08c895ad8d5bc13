#!/usr/bin/env python3
"""inject.py [--count N] [--seed S] [--family 4|6] [--first N] OUT.pcap OUT.json: connections as a hostile sender makes
them, to a real socket behind a real Linux kernel.

A TAP device in a network namespace of its own is the wire: frames are written to it and read from it by this program,
which also holds the listening socket. The kernel handles a frame before write() returns, so the socket is read after
every frame as a server does that never lags. All frames, both ways, go to OUT.pcap in the order of the wire; OUT.json has
what recv() returned on each connection, in hex, by client address and port. Needs unshare (1); status 77 where
namespaces are not to be had."""

import argparse
import ctypes
import fcntl
import json
import os
import random
import socket
import struct
import subprocess
import sys
import time

FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32
SERVER = {4: "192.0.2.11", 6: "2001:db8::11"}
PORT = 29500
MAC, PEER_MAC = bytes([2, 0, 0, 0, 0, 0x11]), bytes([2, 0, 0, 0, 0, 0x66])
# Connections that are open at a time.
OPEN = 400


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def enter_namespace():
    libc = ctypes.CDLL(None, use_errno=True)
    user, net = 0x10000000, 0x40000000
    if libc.unshare(net if os.geteuid() == 0 else user | net) != 0:
        print("no network namespace: " + os.strerror(ctypes.get_errno()), file=sys.stderr)
        sys.exit(77)


def open_tap():
    try:
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(fd, 0x400454CA, struct.pack("16sH", b"tap0", 0x1002))
    except OSError as e:
        print("no TAP device: %s" % e, file=sys.stderr)
        sys.exit(77)

    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    ip("link", "set", "lo", "up")
    for name, value in [("all/disable_ipv6", "0"), ("tap0/accept_dad", "0"), ("tap0/router_solicitations", "0")]:
        with open("/proc/sys/net/ipv6/conf/" + name, "w") as f:
            f.write(value)
    ip("link", "set", "tap0", "address", "02:00:00:00:00:11")
    ip("addr", "add", "192.0.2.11/24", "dev", "tap0")
    ip("-6", "addr", "add", "2001:db8::11/64", "dev", "tap0", "nodad")
    ip("link", "set", "tap0", "up")
    for host in ["192.0.2.1", "2001:db8::1"]:
        ip("neigh", "replace", host, "lladdr", "02:00:00:00:00:66", "dev", "tap0")
    ip("route", "add", "default", "via", "192.0.2.1")
    ip("-6", "route", "add", "default", "via", "2001:db8::1")
    settings = {"tcp_challenge_ack_limit": "1000000000", "tcp_invalid_ratelimit": "0", "tcp_max_syn_backlog": "65536"}
    for name, value in settings.items():
        with open("/proc/sys/net/ipv4/" + name, "w") as f:
            f.write(value)
    return fd


class Wire:
    """The TAP device and the record of what went over it."""

    def __init__(self, fd, path):
        self.fd, self.out = fd, open(path, "wb", buffering=1 << 20)
        self.out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
        self.clock = time.time_ns()

    def record(self, frame):
        self.clock = max(self.clock + 1, time.time_ns())
        self.out.write(struct.pack("<IIII", self.clock // 10**9, self.clock % 10**9, len(frame), len(frame)) + frame)

    def send(self, frame):
        self.record(frame)
        os.write(self.fd, frame)

    def received(self):
        while True:
            try:
                frame = os.read(self.fd, 65536)
            except BlockingIOError:
                return
            if frame[12:14] in (b"\x08\x00", b"\x86\xdd"):
                self.record(frame)
                yield frame


class Client:
    """One connection, made segment by segment."""

    def __init__(self, number, family, rng):
        self.rng, self.family = rng, family
        n = number % 50000
        if family == 4:
            self.address = socket.inet_aton("198.51.%d.%d" % (100 + number // 50000 % 4, 1 + n % 200))
        else:
            self.address = socket.inet_pton(socket.AF_INET6, "2001:db8:%x::%x" % (1 + number // 50000 % 4, 1 + n % 200))
        self.server = socket.inet_aton(SERVER[4]) if family == 4 else socket.inet_pton(socket.AF_INET6, SERVER[6])
        self.port = 1024 + n // 200 + 300 * (n % 200)
        self.name = (socket.inet_ntop(socket.AF_INET if family == 4 else socket.AF_INET6, self.address), self.port)
        self.got = bytearray()
        self.incarnations = []
        self.timestamps = rng.random() < 0.4
        self.sack = rng.random() < 0.7
        self.scale = rng.choice([None, 0, 7]) if rng.random() < 0.8 else None
        self.value = rng.choice([1, 1000, 0x7FFFFFF0, 0xFFFFFF00, rng.getrandbits(32)])
        self.used = False
        self.begin(rng.choice([0, 0xFFFFFFF0, rng.getrandbits(32)]))
        self.steps = self.script()

    def begin(self, isn):
        self.isn, self.theirs, self.edge, self.echo, self.read = isn, None, None, 0, isn + 1

    def options(self, syn, value=None):
        out = b""
        if syn:
            out += b"\x02\x04\x05\xb4"
            out += b"\x04\x02\x01\x01" if self.sack else b""
            out += struct.pack("BBBB", 1, 3, 3, self.scale) if self.scale is not None else b""
        if self.timestamps and (syn or self.used):
            out += b"\x01\x01\x08\x0a" + struct.pack("!II", (self.value if value is None else value) & 0xFFFFFFFF, self.echo)
        return out

    def segment(self, seq, flags, data=b"", ack=None, bad=False, urgent=0, value=None, bare=False, window=64240):
        seq &= 0xFFFFFFFF
        ack = (self.theirs or 0) if ack is None else ack & 0xFFFFFFFF
        options = b"" if bare else self.options(flags & SYN, value)
        header = struct.pack("!HHIIBBHHH", self.port, PORT, seq, ack if flags & ACK else 0, (5 + len(options) // 4) << 4, flags, window, 0, urgent)
        tcp = header + options + data
        length = len(tcp)
        if self.family == 4:
            pseudo = self.address + self.server + struct.pack("!BBH", 0, 6, length)
        else:
            pseudo = self.address + self.server + struct.pack("!II", length, 6)
        total = checksum(pseudo + tcp)
        tcp = tcp[:16] + struct.pack("!H", total ^ (0x1234 if bad else 0)) + tcp[18:]
        if self.family == 4:
            ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, self.rng.getrandbits(16), 0x4000, 64, 6, 0) + self.address + self.server
            ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
            kind = b"\x08\x00"
        else:
            ip = struct.pack("!IHBB", 6 << 28, length, 6, 64) + self.address + self.server
            kind = b"\x86\xdd"
        return MAC + PEER_MAC + kind + ip + tcp

    def hears(self, frame):
        """A frame of the server to this connection: its numbers, its window, its timestamp."""
        at = 14 + ((frame[14] & 15) * 4 if self.family == 4 else 40)
        seq, ack, offset, flags, window = struct.unpack("!IIBBH", frame[at + 4:at + 16])
        header = (offset >> 4) * 4
        if flags & SYN:
            self.theirs = (seq + 1) & 0xFFFFFFFF
            options, i = frame[at + 20:at + header], 0
            self.used, self.shift = False, 0
            while i < len(options) and options[i]:
                if options[i] == 1:
                    i += 1
                    continue
                if options[i] == 8:
                    self.used = True
                    self.echo = struct.unpack("!I", options[i + 2:i + 6])[0]
                if options[i] == 3:
                    self.shift = options[i + 2]
                i += options[i + 1]
            self.edge = (ack + window) & 0xFFFFFFFF
        elif not flags & RST:
            self.edge = (ack + (window << getattr(self, "shift", 0))) & 0xFFFFFFFF
            self.read = ack
            if flags & FIN:
                self.theirs = (seq + 1) & 0xFFFFFFFF

    def script(self):
        """Yields frames; between two of them the answers of the server are heard."""
        rng = self.rng
        for _ in range(1 if rng.random() < 0.85 else 2):
            yield from self.connection()
            self.begin((self.isn + rng.choice([1 << 20, 1 << 30, 77, 3 << 29])) & 0xFFFFFFFF)

    def connection(self):
        rng = self.rng
        early = bytes(rng.choices(range(256), k=rng.randint(1, 9))) if rng.random() < 0.1 else b""
        self.value += rng.randint(0, 50)
        yield self.segment(self.isn, SYN, early, bad=False)
        if rng.random() < 0.05:
            yield self.segment(self.isn, SYN)
        if self.theirs is None:
            return
        roll = rng.random()
        if roll < 0.06:
            yield self.segment(self.isn + 1, ACK, rng.choice([b"", b"ack-of-nothing"]), ack=self.theirs + rng.choice([-1, 1, 5000]))
        elif roll < 0.09:
            yield self.segment(self.isn + 1, PSH, b"no flag")
        elif roll < 0.11:
            yield self.segment(self.isn + 1 + rng.choice([0, 70000, -5]), RST)
        if rng.random() < 0.85:
            yield self.segment(self.isn + 1, ACK)
        yield from self.body()
        roll = rng.random()
        if roll < 0.5:
            yield self.segment(self.read, FIN | ACK)
        elif roll < 0.8:
            yield self.segment(self.read, RST | rng.choice([0, ACK]))

    def body(self):
        rng = self.rng
        first = self.isn + 1
        length = rng.choice([9, 30, 60, 200])
        plan = []
        at = 0
        while at < length:
            size = rng.choice([1, 2, 3, rng.randint(1, 30)])
            plan.append((at, size))
            at += size
        for _ in range(rng.randint(0, 8)):
            plan.append((rng.randrange(length), rng.randint(1, 40)))
        if rng.random() < 0.6:
            for _ in range(rng.randint(1, len(plan))):
                i, j = rng.randrange(len(plan)), rng.randrange(len(plan))
                plan[i], plan[j] = plan[j], plan[i]
        stable = bytes(rng.choices(range(256), k=length + 64))
        for at, size in plan[:40]:
            data = stable[at:at + size] if rng.random() < 0.7 else bytes(rng.choices(b"XYZW", k=size))
            self.value += rng.choice([0, 0, 1, 10])
            yield from self.around(first, at, data)
            roll = rng.random()
            if roll < 0.06:
                yield self.segment(first + at, PSH | ACK, bytes(rng.choices(b"bad", k=len(data))), bad=True)
            flags, urgent = PSH | ACK, 0
            if rng.random() < 0.05:
                flags, urgent = flags | URG, rng.choice([0, 1, 2, len(data), len(data) + 1, len(data) + 5])
            yield self.segment(first + at, flags, data, urgent=urgent)
            if rng.random() < 0.08:
                yield self.segment(first + at, flags, data, urgent=urgent)

    def around(self, first, at, data):
        """Now and then a segment that a receiver refuses, or that only looks as if."""
        rng = self.rng
        roll, seq, n = rng.random(), first + at, len(data)
        other = bytes(rng.choices(b"evil", k=n))
        if roll < 0.02:
            yield self.segment(rng.choice([self.edge or seq, (self.edge or seq) + 1, (self.edge or seq) + 70000]), PSH | ACK, other)
        elif roll < 0.03:
            yield self.segment((self.edge or seq) - 1, PSH | ACK, other)
        elif roll < 0.05:
            yield self.segment(seq, PSH | ACK, other, ack=self.theirs + rng.choice([1, 1000, -1, -70000, 1 << 31]))
        elif roll < 0.065:
            yield self.segment(seq, rng.choice([0, PSH, FIN]), other)
        elif roll < 0.085:
            yield self.segment(rng.choice([self.read, self.read + 1, self.read - 1, seq + 100, self.edge or 0]), RST | rng.choice([0, ACK]), rng.choice([b"", other]))
        elif roll < 0.10:
            yield self.segment(rng.choice([seq, self.isn, rng.getrandbits(32)]), SYN | rng.choice([0, 0, ACK]), rng.choice([b"", other]))
        elif roll < 0.115 and self.used:
            yield self.segment(seq, PSH | ACK, other, value=self.value - rng.choice([1, 2, 100, 1 << 30]))
        elif roll < 0.12 and self.used:
            yield self.segment(seq, PSH | ACK, other, bare=True)
        elif roll < 0.13:
            yield self.segment(self.read - 1, ACK, rng.choice([b"", b"\0"]))
        elif roll < 0.14:
            yield self.segment(seq, FIN | PSH | ACK, other)
        elif roll < 0.145:
            yield self.segment(self.read, FIN | ACK)


def key_of(frame):
    """Client address and port of a frame that the server sent."""
    if frame[12:14] == b"\x08\x00":
        if frame[23] != 6:
            return None
        at = 14 + (frame[14] & 15) * 4
        return frame[30:34], struct.unpack("!H", frame[at + 2:at + 4])[0]
    if frame[20] != 6:
        return None
    return frame[38:54], struct.unpack("!H", frame[56:58])[0]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--count", type=int, default=2000)
    arguments.add_argument("--first", type=int, default=0)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--family", type=int, choices=[4, 6], default=4)
    arguments.add_argument("pcap")
    arguments.add_argument("truth")
    a = arguments.parse_args()
    enter_namespace()
    wire = Wire(open_tap(), a.pcap)
    listener = socket.socket(socket.AF_INET if a.family == 4 else socket.AF_INET6)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((SERVER[a.family], PORT))
    listener.listen(65535)
    listener.setblocking(False)
    clients, sockets = {}, {}

    def server(client):
        for frame in wire.received():
            key = key_of(frame)
            other = clients.get(key) if key else None
            if other is not None:
                other.hears(frame)
        while True:
            try:
                s, peer = listener.accept()
            except BlockingIOError:
                break
            s.setblocking(False)
            owner = clients.get((socket.inet_pton(s.family, peer[0]), peer[1]))
            if owner is not None:
                got = bytearray()
                owner.incarnations.append(got)
                sockets.setdefault(id(owner), []).append((s, got))
        for pair in list(sockets.get(id(client), [])):
            s, got = pair
            while True:
                try:
                    data = s.recv(65536)
                except BlockingIOError:
                    break
                except OSError:
                    data = b""
                if not data:
                    sockets[id(client)].remove(pair)
                    s.close()
                    break
                got += data

    truth, number = [], a.first
    last = a.first + a.count
    running = []
    rng = random.Random(a.seed)
    while number < last or running:
        while number < last and len(running) < OPEN:
            client = Client(number, a.family, random.Random((a.seed << 32) + number))
            clients[(client.address, client.port)] = client
            running.append(client)
            number += 1
        still = []
        for client in running:
            frame = next(client.steps, None)
            if frame is not None:
                wire.send(frame)
                still.append(client)
            server(client)
            if frame is None:
                for s, _ in sockets.pop(id(client), []):
                    s.close()
                for _ in wire.received():
                    pass
                del clients[(client.address, client.port)]
                truth.append({"client": "%s:%d" % client.name, "received": [bytes(got).hex() for got in client.incarnations]})
        running = still
    wire.out.close()
    with open(a.truth, "w") as out:
        json.dump(truth, out)


if __name__ == "__main__":
    main()
