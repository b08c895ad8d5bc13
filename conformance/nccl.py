"""NCCL's bootstrap: what the real library does without a GPU, held against the models and the decoder."""
import json
import os
import re
import socket
import struct
import subprocess
import threading
import time

from cage import Cage
from common import ROOT, Capture, connect, healthy, lines, rdzvscope, receive
from stores import Decoy

# Of a scan: what is sent to a root, and how prescan is asked about it. Each hangs up after a second, as scanners do.
STRAYS = {
    "connect-close": None, "connect-hold:3": None, "GenericLines": b"\r\n\r\n", "GetRequest": b"GET / HTTP/1.0\r\n\r\n",
    "TLS hello": bytes.fromhex("160301006f0100006b0303") + b"R" * 100, "SSH banner": b"SSH-2.0-OpenSSH_9.2\r\n",
    "X.224 connect": bytes.fromhex("0300000b06e0000000000000"), "three bytes": b"ABC", "eight bytes": b"ABCDEFGH",
    "twelve bytes": b"ABCDEFGHIJKL", "zeros": b"\0" * 64, "ones": b"\xff" * 64,
}


def layout(release):
    """(bytes of a check-in, whether a handshake comes first, bytes of an address in the check-in's second place)."""
    if release >= (2, 29):
        return 176, True, 128
    if release >= (2, 23):
        return 172, True, 128
    return 64, release >= (2, 16), 28


def address(port):
    return struct.pack("<H", 2) + struct.pack(">H", port) + socket.inet_aton("127.0.0.1") + b"\0" * 20


def root_of(identity, release):
    """Magic (none before 2.16) and port of the root that an id names."""
    at = 8 if layout(release)[1] else 0
    return identity[:at], struct.unpack(">H", identity[at + 2:at + 4])[0]


def checkin(release, rank, ranks, reply, ring):
    size, _, second = layout(release)
    head = {176: (rank, ranks, 0, 1, 0), 172: (rank, ranks, 0, 1)}.get(size, (rank, ranks))
    body = struct.pack(f"<{len(head)}i", *head) + address(reply) + address(ring).ljust(second, b"\0")
    assert len(body) == size, (len(body), size)
    return body


class Nccl:
    def __init__(self, release, library, place, cage):
        self.release, self.library, self.place, self.cage = release, library, place, cage
        here = f"{ROOT}/conformance/driver"
        for source, target, more in (("cuda.c", "libcuda.so.1", ["-shared", "-fPIC"]), ("nvml.c", "libnvidia-ml.so.1", ["-shared", "-fPIC"]),
                                     ("rank.c", "rank", ["-ldl", "-lpthread"])):
            subprocess.check_call(["cc", "-O1", "-w", "-o", f"{place}/{target}", f"{here}/{source}", *more])
        names = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
        with open(f"{place}/symbols", "w") as f:
            for offset, _, name in re.findall(r"^([0-9a-f]+) ([tT]) (cuda[A-Z]\w*)$", names, re.M):
                f.write(f"{offset} {name}\n")
        self.offset = re.search(r"^([0-9a-f]+) T pncclGetVersion$", names, re.M).group(1)
        self.env = dict(os.environ, LD_LIBRARY_PATH=place, NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1", NCCL_DEBUG="WARN",
                        NCCL_SHM_DISABLE="1", NCCL_P2P_DISABLE="1", NCCL_GIN_ENABLE="0", NCCL_RMA_DISABLE="1")

    def start(self, *arguments, **env):
        command = self.cage.inside(f"{self.place}/rank", self.library, f"{self.place}/symbols", self.offset, *map(str, arguments))
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**self.env, **env})

    def root(self):
        child = self.start("root", 60)
        for line in child.stdout:
            if line.startswith("ID "):
                return child, bytes.fromhex(line.split()[2])
        raise RuntimeError("no id")

    def rank(self, identity, rank, ranks, told):
        """A rank of our own: checks in at the real root, takes its answer, goes once around the ring."""
        try:
            magic, port = root_of(identity, self.release)
            hello = magic + struct.pack("<I", 1) if magic else b""
            reply, ring = (self.listener(), self.listener())
            s = connect(port)
            body = checkin(self.release, rank, ranks, reply.getsockname()[1], ring.getsockname()[1])
            s.sendall(hello)
            s.sendall(struct.pack("<i", len(body)))
            s.sendall(body)
            s.recv(1)
            s.close()
            answer = self.accept(reply, len(hello))
            size = struct.unpack("<i", self.exactly(answer, 4))[0]
            following = self.exactly(answer, size)
            after = connect(struct.unpack(">H", following[2:4])[0])
            after.sendall(hello)
            before = self.accept(ring, len(hello))
            seen = {rank}
            for turn in range(ranks - 1):
                after.sendall(struct.pack("<i", 36) + bytes([(rank - turn) % ranks]) * 36)
                seen.add(self.exactly(before, 40)[4])
            told[rank] = len(seen) == ranks
            for s in (answer, after, before, reply, ring):
                s.close()
        except (OSError, EOFError, struct.error) as e:
            told[rank] = repr(e)

    @staticmethod
    def listener():
        s = socket.socket()
        s.bind(("127.0.0.1", 0))
        s.listen(64)
        s.settimeout(6)
        return s

    def accept(self, listener, hello):
        s, _ = listener.accept()
        s.settimeout(6)
        self.exactly(s, hello)
        return s

    @staticmethod
    def exactly(s, n):
        got = b""
        while len(got) < n:
            more = s.recv(n - len(got))
            if not more:
                raise EOFError(f"{len(got)} of {n} bytes")
            got += more
        return got

    def ranks(self, identity, n):
        told = {}
        threads = [threading.Thread(target=self.rank, args=(identity, r, n, told)) for r in range(n)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return all(told.get(r) is True for r in range(n)), told


def through_store(identity):
    """The id travels as PyTorch sends it: SET by rank 0 on one connection, GET by rank 1 on another."""
    decoy = Decoy("tcpstore:2.15/libuv")
    text = lambda b: struct.pack("<Q", len(b)) + b
    key = text(b"/default_pg/0//cuda//0")
    for body in (b"\x01" + key + text(identity), b"\x06" + struct.pack("<Q", 1) + key + b"\x03" + key):
        s = connect(decoy.port)
        s.sendall(bytes.fromhex("00cef7853c"))
        time.sleep(0.05)
        s.sendall(b"\x0d" + struct.pack("<I", os.getpid()))
        receive(s, 0.1)
        s.sendall(body)
        receive(s, 0.2)
        s.close()
    return decoy


def communicators(report, root, ranks, release):
    roots = [x for x in report["listeners"] if x["protocol"] == "nccl" and x["role"] == "bootstrap-root" and x["port"] == root]
    yield "the root is found", 1, len(roots)
    found = [c for c in report["communicators"] if c["root"] and str(root) in str(c["root"])]
    yield "the communicator is whole", [(ranks, True)], [(c["nranks"], c["complete"]) for c in found]
    for r in roots:
        spans = re.findall(r"(\d+)\.(\d+)(?:\.\d+)?(?:\s*(?:-|–|to)\s*(\d+)\.(\d+))?", str(r["version"]))
        fits = any((int(a), int(b)) <= release <= ((int(c), int(d)) if c else (int(a), 99)) for a, b, c, d in spans)
        yield "the release fits the root", True, fits


def clean_runs(result, nccl):
    for n in (2, 4):
        capture = f"{nccl.place}/root-{n}.pcap"
        with Capture(capture):
            child, identity = nccl.root()
            decoy = through_store(identity)
            good, told = nccl.ranks(identity, n)
            child.terminate()
            child.wait()
            decoy.stop()
        result.compare("check-ins", f"{n} ranks of ours at the real root", True, good or str(told))
        healthy(result, f"{n} ranks of ours at the real root", capture, lambda r: communicators(r, root_of(identity, nccl.release)[1], n, nccl.release))
        used = len(identity.rstrip(b"\xaa"))
        result.data["servers"].append({"role": "bootstrap-root", "id_bytes_written": used})
    for n in (2, 4):
        capture, file = f"{nccl.place}/real-{n}.pcap", f"{nccl.place}/id-{n}"
        with Capture(capture):
            children = [nccl.start(r, n, file, 2, NCCL_HOSTID=f"host{r}") for r in range(n)]
            said = []
            for child in children:
                try:
                    said.append(child.communicate(timeout=60)[0])
                except subprocess.TimeoutExpired:
                    child.kill()
                    said.append(child.communicate()[0] + " (killed)")
        joined = sum("JOINED 0" in s for s in said)
        if joined != n:
            result.not_tried(f"{n} real ranks to the end", f"{joined} joined without a GPU: " + (re.findall(r"NCCL WARN (.*)", said[0]) or ["no word"])[-1][:120])
        if not os.path.exists(file):
            continue
        identity = open(file, "rb").read()
        healthy(result, f"{n} real ranks", capture, lambda r: communicators(r, root_of(identity, nccl.release)[1], n, nccl.release))


def strays(result, nccl, version):
    for name, payload in STRAYS.items():
        child, identity = nccl.root()
        _, port = root_of(identity, nccl.release)
        s = connect(port)
        state = "open"
        if payload:
            s.sendall(payload)
            _, state = receive(s, 1.0)
        elif name != "connect-close":
            _, state = receive(s, 3.0)
        s.close()
        time.sleep(0.3)
        good, _ = nccl.ranks(identity, 2)
        child.terminate()
        child.wait()
        asked = ["--payload", payload.hex()] if payload else ["--behaviour", name]
        row = lines(rdzvscope("prescan", *asked, "--nccl", f"root:{version}", "--format", "jsonl"))[0]
        result.data["servers"].append({"role": "bootstrap-root", "stray": name, "bytes": (payload or b"").hex(), "state": state, "job_starts": good})
        what = payload.hex() if payload else name
        result.compare("strays at the root", f"{name}: whether the job still starts", not row["kills"], good, what)
        if payload and row["outcome"] in ("closes", "waits"):
            closed = "waits" if state == "open" else "closes"
            result.compare("strays at the root", f"{name}: what becomes of the connection", row["outcome"], closed, what)


def run(result, library, place):
    version = result.data["release"]
    release = tuple(int(n) for n in version.split(".")[:2])
    cage = Cage("nccl", 6 << 30)
    try:
        nccl = Nccl(release, library, place, cage)
        clean_runs(result, nccl)
        strays(result, nccl, version)
    finally:
        cage.remove()
