"""What trials of all products share: the program under test, captures of loopback, a result that grows."""
import json
import os
import signal
import socket
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def rdzvscope(*arguments, check=(0, 1)):
    """Standard output of the program under test."""
    done = subprocess.run([os.environ["RDZVSCOPE"], *arguments], capture_output=True, text=True, check=False)
    if done.returncode not in check:
        raise RuntimeError(f"rdzvscope {' '.join(arguments)[:200]}: status {done.returncode}: {done.stderr.strip()[:400]}")
    return done.stdout


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


class Result:
    """What was tried, what differed, what was not tried."""

    def __init__(self, product, release):
        self.started = time.time()
        self.data = {"product": product, "release": release, "date": time.strftime("%Y-%m-%d", time.gmtime()), "origin": None,
                     "model": rdzvscope("--version").strip(), "seconds": None, "tried": {}, "differences": [], "not_tried": [],
                     "servers": []}

    def tried(self, what, count=1):
        self.data["tried"][what] = self.data["tried"].get(what, 0) + count

    def differs(self, what, model, server, payload=None):
        """One difference; `payload` are the bytes, in hex, segments parted by commas."""
        self.data["differences"].append({"what": what, "bytes": payload, "model": model, "server": server})
        print(f"DIFFERS    {what}: model says {model}, the server {server}" + (f"; bytes {payload[:120]}" if payload else ""), flush=True)

    def compare(self, kind, what, model, server, payload=None):
        self.tried(kind)
        if model != server:
            self.differs(f"{kind}: {what}", model, server, payload)

    def not_tried(self, what, why):
        self.data["not_tried"].append({"what": what, "why": why})
        print(f"NOT TRIED  {what}: {why}", flush=True)

    def write(self, folder):
        self.data["seconds"] = round(time.time() - self.started)
        path = f"{folder}/{self.data['product']}-{self.data['release']}.json"
        rows = ("cases", "probes")
        text = json.dumps({**self.data, "servers": None}, indent=1).replace('"servers": null', '"servers": [')
        servers = []
        for server in self.data["servers"]:
            body = ",\n   ".join(
                f'"{k}": [\n    ' + ",\n    ".join(json.dumps(r) for r in v) + "]" if k in rows else f'"{k}": {json.dumps(v)}'
                for k, v in server.items())
            servers.append("{" + body + "}")
        with open(path, "w") as f:
            f.write(text[:-2] + "\n  " + ",\n  ".join(servers) + "\n ]\n}\n")
        json.load(open(path))
        tried = ", ".join(f"{n} {what}" for what, n in self.data["tried"].items())
        same = sum(self.data["tried"].values()) - len(self.data["differences"])
        print(f"{self.data['product']} {self.data['release']}: tried {tried}: {same} same, {len(self.data['differences'])} differ, "
              f"{len(self.data['not_tried'])} not tried, {self.data['seconds']} s: {os.path.relpath(path, ROOT)}")
        return path


class Capture:
    """Loopback of this namespace, recorded."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.child = subprocess.Popen(["tcpdump", "-Z", "root", "-i", "lo", "-s", "0", "-U", "--immediate-mode", "-B", "65536", "-w", self.path, "tcp"],
                                      stderr=subprocess.PIPE)
        self.child.stderr.readline()
        time.sleep(0.5)
        return self

    def __exit__(self, *_):
        time.sleep(0.7)
        self.child.send_signal(signal.SIGINT)
        self.child.wait()


def connect(port, host="127.0.0.1"):
    s = socket.create_connection((host, port), timeout=5)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def receive(s, seconds):
    """Everything that comes until the peer is silent for so long or gone; `open`, `closed` or `reset`."""
    s.settimeout(seconds)
    got = b""
    try:
        while len(got) < 1 << 20:
            more = s.recv(65536)
            if not more:
                return got, "closed"
            got += more
    except socket.timeout:
        pass
    except OSError:
        return got, "reset"
    return got, "open"


def healthy(result, name, capture, expect):
    """A recording of honest traffic: every byte decoded, nothing flagged, and `expect` (a function of the report) holds."""
    left = [line for line in lines(rdzvscope("messages", "--undecoded", "--format", "jsonl", capture)) if line]
    result.compare("captures decoded", name, [], [f"{x['flow']} {x['direction']} {x['stream_offset']}+{x['length']}" for x in left][:5])
    report = json.loads(rdzvscope("analyze", "--format", "json", "--exit-zero", capture))
    flagged = [f"{f['severity']} {f['rule']}" for f in report["findings"] if f["severity"] != "info"]
    result.compare("captures without a finding", name, [], sorted(set(flagged)))
    for what, model, server in expect(report):
        result.compare("captures understood", f"{name}: {what}", model, server)
    return report
