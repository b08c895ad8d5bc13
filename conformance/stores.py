"""PyTorch's store: what its real server and its real client do, held against the models and the decoder."""
import json
import os
import re
import signal
import struct
import subprocess
import time

from cage import LIMIT, Cage
from common import ROOT, Capture, connect, healthy, lines, rdzvscope, receive

MAGIC = bytes.fromhex("00cef7853c")
SILENCE = 0.3  # Seconds without an answer after which a server is taken to be silent.
NMAP = "/usr/share/nmap/nmap-service-probes"


def u64(n):
    return struct.pack("<Q", n & (2**64 - 1))


def text(b):
    return u64(len(b)) + b


def dialect(release):
    """The numbers of the requests that cases are made of. Written down here once more on purpose: the trials do not ask the model."""
    if release < (1, 9):
        return {"SET": 0, "GET": 1, "ADD": 2, "CHECK": 3, "WAIT": 4, "NUM": 5, "DELETE": 6}
    if release < (2, 1):
        return {"SET": 0, "COMPARE": 1, "GET": 2, "ADD": 3, "CHECK": 4, "WAIT": 5, "NUM": 6, "DELETE": 8}
    names = ["SET", "COMPARE", "GET", "ADD", "CHECK", "WAIT", "NUM", "DELETE", "APPEND", "MULTI_GET", "MULTI_SET", "CANCEL"]
    if release < (2, 2):
        return {name: i for i, name in enumerate(names)}
    return {name: i + 1 for i, name in enumerate(names)}


def nmap_probes():
    """nmap's TCP probes by name, from the file that it installs."""
    simple = {"0": b"\0", "a": b"\a", "b": b"\b", "f": b"\f", "n": b"\n", "r": b"\r", "t": b"\t", "v": b"\v"}

    def unescape(s):
        out, i = bytearray(), 0
        while i < len(s):
            if s[i] != "\\":
                out += s[i].encode("latin1")
                i += 1
            elif s[i + 1] == "x":
                out.append(int(s[i + 2:i + 4], 16))
                i += 4
            else:
                out += simple.get(s[i + 1], s[i + 1].encode())
                i += 2
        return bytes(out)

    with open(NMAP, encoding="latin1") as f:
        found = [re.match(r"Probe TCP (\S+) q(.)(.*?)\2", line) for line in f]
    return [(m.group(1), unescape(m.group(3))) for m in found if m and m.group(3)]


def own_probes():
    """Claims of each dialect that nmap does not make."""
    new = MAGIC + b"\x0d\x01\0\0\0"
    key = text(b"k")
    return [
        ("SET-value-1TiB", b"\0" + key + u64(2**40)), ("CHECK-2^40-keys", b"\x04" + u64(2**40)), ("WAIT-2^35-keys", b"\x05" + u64(2**35)),
        ("ADD-key-400MiB", b"\x03" + u64(400 << 20)), ("validated-GET-1TiB", new + b"\x03" + u64(2**40)),
        ("validated-SET-value-1TiB", new + b"\x01" + key + u64(2**40)), ("validated-CHECK-2^33", new + b"\x05" + u64(2**33)),
        ("validated-ADD-key-400MiB", new + b"\x04" + u64(400 << 20)), ("bad-magic", bytes.fromhex("00deadbeef")),
        ("validated-unknown-0x63", MAGIC + b"\x63"),
    ]


def cases(release):
    """Segments one after the other. Where the release asks for the magic number, `ok` sends it first, as a segment of its own."""
    o = {name: bytes([n]) for name, n in dialect(release).items()}
    first = [MAGIC] if release >= (2, 2) else []
    ok = lambda *segments: [*first, *segments]
    num = o["NUM"] if release >= (1, 7) else o["CHECK"] + u64(0)
    remove = o["DELETE"] if release >= (1, 7) else o["GET"]
    http = b"GET / HTTP/1.0\r\n\r\n"
    out = {
        "nothing": [], "http": [http], "http twice": [http, http], "one byte 00": [b"\0"], "garbage": [b"\xff" * 32],
        "tls hello": [bytes.fromhex("16030100530100004f0303") + b"x" * 72],
        "NUM before VALIDATE": [num],
        "unknown type 200": ok(b"\xc8"), "GET of a missing key": ok(o["GET"] + text(b"/nope")),
        "GET": ok(o["GET"] + text(b"/k1")), "NUM": ok(num), "ADD": ok(o["ADD"] + text(b"/n") + u64(5)),
        "ADD -2": ok(o["ADD"] + text(b"/n") + u64(-2)), "ADD to text": ok(o["ADD"] + text(b"/k1") + u64(1)),
        "SET and GET": ok(o["SET"] + text(b"/s") + text(b"abc"), o["GET"] + text(b"/s")),
        "GET cut in its key": ok(o["GET"] + u64(100) + b"abc"), "GET cut in its length": ok(o["GET"] + b"\x05\0\0"),
        "GET cut, then the rest": ok(o["GET"] + u64(3) + b"/k", b"1"), "SET cut in its value": ok(o["SET"] + text(b"/c") + u64(9) + b"xy"),
        "CHECK there": ok(o["CHECK"] + u64(1) + text(b"/k1")), "CHECK missing": ok(o["CHECK"] + u64(1) + text(b"/zz")),
        "CHECK of no key": ok(o["CHECK"] + u64(0)), "WAIT of no key": ok(o["WAIT"] + u64(0)),
        "WAIT there": ok(o["WAIT"] + u64(1) + text(b"/k1")), "WAIT missing": ok(o["WAIT"] + u64(1) + text(b"/zz")),
        "DELETE missing": ok(remove + text(b"/nope")), "key of 8192": ok(remove + text(b"a" * 8192)),
        "key of 8193": ok(remove + text(b"a" * 8193)), "key of 8193 declared": ok(remove + u64(8193)),
        "value of 8 MiB and 1 declared": ok(o["SET"] + text(b"/big") + u64((8 << 20) + 1) + b"p"),
        "CHECK of 131072 declared": ok(o["CHECK"] + u64(131072) + text(b"/a")),
        "CHECK of 131073 declared": ok(o["CHECK"] + u64(131073) + text(b"/a")),
        "key of 2^63": ok(o["GET"] + u64(1 << 63)), "key of 2^64-1": ok(o["GET"] + u64(2**64 - 1)),
        "CHECK of 2^60": ok(o["CHECK"] + u64(1 << 60)),
        "two requests in a segment": ok(o["ADD"] + text(b"/two") + u64(1) + o["GET"] + text(b"/two")),
    }
    if release >= (1, 9):
        out["COMPARE_SET"] = ok(o["COMPARE"] + text(b"/k1") + text(b"v1") + text(b"v1"))
        out["COMPARE_SET of a missing key"] = ok(o["COMPARE"] + text(b"/no") + text(b"a") + text(b"b"))
    if release >= (2, 1):
        out["MULTI_GET of a missing key"] = ok(o["MULTI_GET"] + u64(2) + text(b"/k1") + text(b"/nope"))
        out["MULTI_SET and MULTI_GET"] = ok(o["MULTI_SET"] + u64(2) + text(b"/m") + text(b"1") + text(b"/o") + text(b"22"),
                                            o["MULTI_GET"] + u64(2) + text(b"/o") + text(b"/m"))
        out["CANCEL_WAIT unasked"] = ok(o["CANCEL"])
        out["WAIT, CANCEL_WAIT"] = ok(o["WAIT"] + u64(1) + text(b"/zz"), o["CANCEL"])
        out["APPEND and GET"] = ok(o["APPEND"] + text(b"/ap") + text(b"xy") + o["GET"] + text(b"/ap"))
    if release >= (2, 2):
        out |= {"wrong magic": [b"\0\x11\x22\x33\x44"], "wrong magic, then VALIDATE": [b"\0\x11\x22\x33\x44", MAGIC + num],
                "wrong magic, then NUM": [b"\0\x11\x22\x33\x44", num], "VALIDATE split 1+4": [MAGIC[:1], MAGIC[1:] + num],
                "VALIDATE split 3+2": [MAGIC[:3], MAGIC[3:] + num], "VALIDATE and NUM in a segment": [MAGIC + num],
                "VALIDATE twice": [MAGIC + MAGIC + num]}
    if release >= (2, 8):
        out["QUEUE_PUSH, QUEUE_LEN, QUEUE_POP"] = ok(b"\x0e" + text(b"/q") + text(b"one"), b"\x10" + text(b"/q"), b"\x0f" + text(b"/q"))
    # Every query type, known or not, with fields that any of them can read: a key, a length of zero, a length of zero.
    for byte in range(0 if not first else 1, 26):
        out[f"type {byte}"] = ok(bytes([byte]) + text(b"/t") + u64(0) + u64(0))
    return out


class Servers:
    """Real stores in a cage, one at a time, started again when one is gone."""

    def __init__(self, torch, cage):
        command = [torch.python, f"{ROOT}/conformance/store_server.py", cage.procs]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=torch.env)
        self.full = self.child.stdout.readline().split()[1]
        self.pid = None

    def start(self, backend):
        self.stop()
        self.child.stdin.write(backend + "\n")
        self.child.stdin.flush()
        _, port, pid = self.child.stdout.readline().split()
        if port == "0":
            raise RuntimeError(f"no {backend} store")
        self.port, self.pid = int(port), int(pid)
        self.base = self.memory()
        return self.port

    def memory(self):
        """Virtual and resident bytes; nothing when it is dead."""
        try:
            with open(f"/proc/{self.pid}/statm") as f:
                pages = f.read().split()
            return (int(pages[0]) * 4096, int(pages[1]) * 4096) if int(pages[0]) else None
        except (OSError, IndexError):
            return None

    def stop(self):
        if self.pid and self.memory():
            os.kill(self.pid, signal.SIGKILL)
            while self.memory():
                time.sleep(0.01)
        self.pid = None

    def close(self):
        self.stop()
        self.child.stdin.close()
        self.child.wait(20)


def served(release, port):
    """Whether another client is answered."""
    o = dialect(release)
    try:
        s = connect(port)
    except OSError:
        return False
    if release >= (2, 2):
        s.sendall(MAGIC)
        time.sleep(0.03)
    try:
        s.sendall(bytes([o["CHECK"]]) + u64(1) + text(b"/k1"))
        s.settimeout(0.6)
        got = s.recv(1)
        return len(got) == 1
    except OSError:
        return False
    finally:
        s.close()


def outcome(servers, release, payload):
    """What one probe does, in the words of the recorded outcomes: (word, whether others wait meanwhile, hex of the reply)."""
    before = servers.memory()
    s = connect(servers.port)
    reply, state = b"", "reset"
    try:
        s.sendall(payload)
        reply, state = receive(s, SILENCE)
    except OSError:
        pass
    largest, began = before[1], time.time()
    until = began + (1.5 if (servers.memory() or before)[0] - servers.base[0] > 100 << 20 else 0.05)
    while True:
        now = servers.memory()
        if now is None:
            s.close()
            return "killed", None, ""
        if now[1] > largest + (1 << 20) and time.time() < began + 60:  # It still fills what was declared.
            until = time.time() + 0.5
        largest = max(largest, now[1])
        if time.time() >= until:
            break
        time.sleep(0.01)
    word = "closed" if state != "open" else "replied" if reply else "waits"
    if largest - before[1] > 200 << 20:
        word = "allocated"
    others = served(release, servers.port)
    s.close()
    return word, not others, reply.hex()[:64]


def model_word(row):
    """The word that the recorder would have written for what `prescan` says."""
    claim = row["allocates_bytes"] or 0
    if row["outcome"] == "allocates":
        if claim > LIMIT:
            return "killed"
        if claim >= 200 << 20:
            return "allocated"
        return "waits"
    return {"closes": "closed", "replies": "replied"}.get(row["outcome"], row["outcome"])


def probe_trials(result, servers, torch, release, backend, record):
    trials = [(n, b, True) for n, b in nmap_probes()] if os.path.exists(NMAP) else []
    if not trials:
        result.not_tried("nmap's probes", "nmap is not installed, and its probes are read from its file")
    trials += [(n, b, False) for n, b in own_probes()]
    record["probes"] = []
    servers.start(backend)
    for name, payload, theirs in trials:
        word, stalls, reply = outcome(servers, release, payload)
        row = lines(rdzvscope("prescan", "--payload", payload.hex(), "--pytorch", torch.version, "--backend", backend, "--overcommit", "1",
                              "--format", "jsonl"))[0]
        record["probes"].append({"probe": name, "length": len(payload), "outcome": word, "stalls": stalls,
                                 **({} if theirs else {"bytes": payload.hex()}), **({"reply": reply} if reply else {})})
        shown = f"{len(payload)} bytes of nmap's {name}" if theirs else payload.hex()
        result.compare("probes", f"{backend} {name}", model_word(row), word, shown)
        if word in ("waits", "allocated"):
            result.compare("stalls", f"{backend} {name}", row["blocks_server"], stalls, shown)
        if word in ("killed", "allocated") or stalls:
            servers.start(backend)


def behaviour(port, release, segments):
    """Reply, state of the connection, whether others are served meanwhile."""
    s, reply, state = connect(port), b"", "open"
    for i, segment in enumerate(segments or [b""]):
        try:
            if segment:
                s.sendall(segment)
            more, state = receive(s, SILENCE if i == len(segments) - 1 else 0.1)
            reply += more
        except OSError:
            state = "reset"
        if state != "open":
            break
    others = served(release, port)
    s.close()
    time.sleep(0.03)
    return {"reply": reply.hex(), "state": state, "others_served": others}


class Decoy:
    """The model as a server."""

    def __init__(self, part, *more):
        command = [os.environ["RDZVSCOPE"], "decoy", "--as", part, "--listen", "127.0.0.1:0", "--overcommit", "1", "--for", "25m", *more]
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = int(json.loads(self.child.stdout.readline())["listen"].rsplit(":", 1)[1])

    def stop(self):
        self.child.send_signal(signal.SIGINT)
        self.child.communicate()


def case_trials(result, servers, torch, release, backend, record):
    record["cases"] = []
    o = dialect(release)
    key = ([MAGIC] if release >= (2, 2) else []) + [bytes([o["SET"]]) + text(b"/k1") + text(b"v1")]
    for name, segments in cases(release).items():
        # Each case meets a store that holds `init/` and /k1, and nothing of the cases before it.
        decoy = Decoy(f"tcpstore:{torch.version}/{backend}", *([] if release < (1, 9) else ["--empty"]))
        answers = []
        for port in (servers.start(backend), decoy.port):
            behaviour(port, release, key)
            answers.append(behaviour(port, release, segments))
        decoy.stop()
        said = ",".join(s.hex() for s in segments)
        record["cases"].append({"case": name, "segments": said, **answers[0]})
        result.compare("cases", f"{backend} {name}", answers[1], answers[0], said[:400])


def sessions(result, torch, release, place):
    """The whole API of the real client against the real store, and against the decoy."""
    capture = f"{place}/session.pcap"
    cage = Cage("session", 4 << 30)
    try:
        with Capture(capture):
            command = cage.inside(torch.python, f"{ROOT}/tools/real-client.py", os.environ["RDZVSCOPE"])
            done = subprocess.run(command, capture_output=True, text=True, env=torch.env, timeout=400, check=False)
    finally:
        cage.remove()
    found = re.findall(r"PyTorch \S+, (\w+) store against \S+ (\d+) calls, (\d+) answered alike", done.stdout)
    if not found:
        result.differs("session: the client did not finish", "finishes", (done.stderr.strip().splitlines() or ["no word"])[-1][:300])
    for backend, calls, alike in found:
        result.tried("calls of the client", int(calls))
    for line in re.findall(r"^  (.*)$", done.stdout, re.M):
        result.differs(f"session: {line.split(':')[0]}", line.split("decoy ")[-1], line.split("real ")[-1].split(", decoy")[0])

    def expect(report):
        stores = [x for x in report["listeners"] if x["protocol"] == "tcpstore"]
        yield "stores found", 2 * len(found), len(stores)
        # One backend after the other, each as the real store and as the decoy.
        for i, store in enumerate(sorted(stores, key=lambda x: x["first_seen"])):
            backend = found[min(i // 2, len(found) - 1)][0]
            yield f"the {backend} store's backend is told or left open", True, store["backend"] in (None, backend)
            yield f"the {backend} store's release", True, fits(store["version"], release)

    if found:
        healthy(result, "session", capture, expect)


def fits(versions, release):
    """Whether a range as reports write it (`PyTorch 2.12-2.15`, `clients of PyTorch 2.5 or later`) holds a release."""
    spans = re.findall(r"(\d+)\.(\d+)(?:\.\d+)?(?:[-–](\d+)\.(\d+)|( and later| or later|-))?", str(versions))
    return any((int(a), int(b)) <= release <= ((int(c), int(d)) if c else (99, 0) if more else (int(a), int(b))) for a, b, c, d, more in spans)


SCRIPT = """
import os, torch, torch.distributed as d
d.init_process_group("gloo")
t = torch.ones(4)
d.all_reduce(t)
d.barrier()
print("SUM", t[0].item(), flush=True)
d.destroy_process_group()
"""


def torchrun(result, torch, release, place):
    """Two agents of torchrun meet over the c10d rendezvous, with a worker each."""
    if release < (1, 10):
        return result.not_tried("torchrun", "torchrun came with 1.10")
    with open(f"{place}/train.py", "w") as f:
        f.write(SCRIPT)
    cage = Cage("torchrun", 6 << 30)
    capture = f"{place}/torchrun.pcap"
    try:
        with Capture(capture):
            agents = []
            for node in (0, 1):
                command = [torch.python, "-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=1", f"--node_rank={node}", "--rdzv_id=exp23",
                           "--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:29400", f"--rdzv_conf=is_host={1 - node}",
                           *(["--local_addr=127.0.0.1"] if release >= (2, 0) else []), f"{place}/train.py"]
                out = open(f"{place}/agent{node}.log", "w")
                agents.append(subprocess.Popen(cage.inside(*command), stdout=out, stderr=out, env=torch.env))
                time.sleep(1)
            for agent in agents:
                try:
                    agent.wait(150)
                except subprocess.TimeoutExpired:
                    agent.kill()
    finally:
        cage.remove()
    said = "".join(open(f"{place}/agent{n}.log").read() for n in (0, 1))
    if said.count("SUM 2.0") != 2:
        return result.not_tried("torchrun", "the job did not finish here: " + (said.strip().splitlines() or ["no word"])[-1][:200])

    def expect(report):
        jobs = [j for j in report["jobs"] if j.get("run_id") == "exp23"]
        yield "the rendezvous is named", 1, len(jobs)
        # One of the rendezvous, one of the workers; in 2.5 the workers use that of the rendezvous.
        stores = len([x for x in report["listeners"] if x["protocol"] == "tcpstore"])
        yield "stores found", True, stores >= (1 if (2, 4) <= release < (2, 9) else 2)
        for store in report["listeners"]:
            if store["protocol"] == "tcpstore":
                yield f"release {release} fits the store at {store['port']}" if store["port"] == 29400 else "release fits the workers' store", True, fits(store["version"], release)

    healthy(result, "torchrun", capture, expect)


def run(result, torch, place):
    release = tuple(int(n) for n in torch.version.split(".")[:2])
    cage = Cage("store")
    servers = Servers(torch, cage)
    result.data["origin"] = f"{torch.origin}; calls itself {servers.full}"
    try:
        for backend in ["poll"] + (["libuv"] if release >= (2, 2) else []):
            record = {"backend": backend}
            result.data["servers"].append(record)
            case_trials(result, servers, torch, release, backend, record)
            probe_trials(result, servers, torch, release, backend, record)
    finally:
        servers.close()
        cage.remove()
    sessions(result, torch, release, place)
    torchrun(result, torch, release, place)
