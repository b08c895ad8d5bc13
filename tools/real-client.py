#!/usr/bin/env python3
"""real-client.py BINARY [SERVER...]: a real PyTorch client's whole API against a real store and against decoys of it.

Run it by the interpreter that has PyTorch: it starts a store of that PyTorch on loopback, and `BINARY decoy` for each SERVER
(default: `tcpstore:VERSION` for each backend of it), does the same with both and compares the answers. Waits that time out are
among them, so that it takes half a minute. Status 0 when every answer is the same, 1 when one is not.
"""
import datetime, hashlib, json, os, re, subprocess, sys, threading

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # The client logs each timeout with a trace of the stack.

import torch
import torch.distributed as dist

VERSION = re.match(r"\d+\.\d+\.\d+", torch.__version__).group()
RELEASE = tuple(int(n) for n in VERSION.split(".")[:2])
SHORT = datetime.timedelta(seconds=1)
LONG = datetime.timedelta(seconds=20)


def client(port, master=False, **more):
    """A store of one worker; `is_master` also serves."""
    if RELEASE < (1, 9):
        return dist.TCPStore("127.0.0.1", port, 1, master, LONG)
    return dist.TCPStore("127.0.0.1", port, None, master, LONG, wait_for_workers=False, **more)


def plain(value):
    """An answer as text that does not depend on the run."""
    if isinstance(value, Exception):
        text = re.sub(r"127\.0\.0\.1|localhost|\[[^]]*\]:\d+|:\d{4,5}|\d+ms|fd=\d+|after \S+", "*", str(value).splitlines()[0])
        return f"{type(value).__name__}: {text[:100]}"
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, (bytes, bytearray)):
        return value.hex() if len(value) < 100 else f"{len(value)} bytes, {hashlib.sha256(value).hexdigest()[:16]}"
    return value


def together(first, second, pause=0.0):
    """What both give, the second begun a little later on a thread of its own."""
    late = threading.Timer(pause, second)
    late.start()
    try:
        return first()
    finally:
        late.join()


def conversation(port):
    """Name and answer of each call."""
    log = []
    a, b = client(port), client(port)

    def call(name, f):
        try:
            log.append((name, plain(f())))
        except Exception as e:  # noqa: BLE001: an answer like another
            log.append((name, plain(e)))

    has = lambda name: hasattr(a, name)
    call("set", lambda: a.set("k1", "v1"))
    call("get", lambda: a.get("k1"))
    call("get from another client", lambda: b.get("k1"))
    call("set empty", lambda: a.set("empty", ""))
    call("get empty", lambda: b.get("empty"))
    call("set large", lambda: a.set("large", "x" * 200_000))
    call("get large", lambda: b.get("large"))
    call("set unicode", lambda: a.set("\u952e", "\u503c"))
    call("get unicode", lambda: b.get("\u952e"))
    call("overwrite", lambda: (a.set("k1", "v2"), b.get("k1"))[1])
    for delta in (1, 41, -2, 2**40):
        call(f"add {delta}", lambda: a.add("n", delta))
    call("get counter", lambda: b.get("n"))
    call("wait there", lambda: a.wait(["k1", "n"]))
    call("wait timeout", lambda: a.wait(["k1", "missing"], SHORT))
    call("after the timeout", lambda: b.get("k1"))
    if has("num_keys"):
        call("num_keys", lambda: a.num_keys())
        call("delete", lambda: a.delete_key("empty"))
        call("delete again", lambda: a.delete_key("empty"))
        call("num_keys again", lambda: b.num_keys())
    if has("compare_set"):
        cases = [("k1", "v2", "v3"), ("k1", "no", "v4"), ("new", "", "first"), ("absent", "x", "y")]
        if RELEASE == (1, 12):  # Its client crashes at this answer, of its own server too.
            cases.pop()
        for key, expected, desired in cases:
            call(f"compare_set {key} {expected}", lambda: a.compare_set(key, expected, desired))
        call("get compared", lambda: b.get("k1"))
    if has("watch_key"):
        call("watch_key", lambda: a.watch_key("k1", lambda old, new: None))
    if has("append"):
        call("append", lambda: (a.append("k1", "+"), b.get("k1"))[1])
        call("append new", lambda: (a.append("tail", "abc"), b.get("tail"))[1])
    if has("multi_set"):
        call("multi_set", lambda: a.multi_set(["m1", "m2", "m3"], ["1", "", "z" * 5000]))
        call("multi_get", lambda: b.multi_get(["m3", "m1", "m2"]))
    if has("check"):
        call("check there", lambda: a.check(["k1", "m1"]))
        call("check missing", lambda: a.check(["k1", "missing"]))
    if has("queue_push") and LIBUV:
        call("queue_push", lambda: (a.queue_push("q", "one"), a.queue_push("q", "two"))[1])
        call("queue_len", lambda: b.queue_len("q"))
        call("queue_pop", lambda: b.queue_pop("q"))
        call("queue_pop again", lambda: b.queue_pop("q"))
        call("queue_pop empty", lambda: b.queue_pop("q", False))
    if has("list_keys"):
        call("list_keys", lambda: sorted(k for k in a.list_keys()))
    if has("barrier"):
        call("barrier of one", lambda: a.barrier("bar", 1))
        call("barrier timeout", lambda: a.barrier("bar2", 2, SHORT))
        call("barrier of two", lambda: together(lambda: a.barrier("bar3", 2), lambda: b.barrier("bar3", 2)))
    # Somebody waits, and another client's answer releases it.
    call("wait until set", lambda: together(lambda: a.wait(["late", "k1"]), lambda: b.set("late", "1"), 0.3))
    call("get until added", lambda: together(lambda: a.get("sum"), lambda: b.add("sum", 7), 0.3))
    if has("clone"):
        call("clone", lambda: a.clone().get("k1"))
    prefix = dist.PrefixStore("p", a)
    call("prefix set", lambda: prefix.set("k", "pv"))
    call("prefix get", lambda: b.get("p/k"))
    a.set_timeout(SHORT)
    call("get timeout", lambda: a.get("never"))
    call("the other goes on", lambda: b.add("n", 1))
    return log


LIBUV = False


def real(libuv):
    more = {} if RELEASE < (2, 1) else {"use_libuv": libuv}
    master = client(0, True, **more) if RELEASE >= (1, 9) else None
    if master is None:  # Older ones take no port 0.
        import socket

        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        master = client(port, True)
        return master, port
    return master, master.port


def decoy(binary, part):
    # The first store of PyTorch leaves init/ only where it waits for workers.
    more = [] if RELEASE < (1, 9) else ["--empty"]
    child = subprocess.Popen([binary, "decoy", "--as", part, "--listen", "0", "--for", "120", *more], stdout=subprocess.PIPE, text=True)
    return child, int(json.loads(child.stdout.readline())["listen"].rsplit(":", 1)[1])


def main():
    global LIBUV
    binary = os.path.abspath(sys.argv[1])
    backends = ["poll"] if RELEASE < (2, 2) else ["poll", "libuv"]
    bad = 0
    for backend in backends:
        LIBUV = backend == "libuv"
        master, port = real(LIBUV)
        want = conversation(port)
        parts = sys.argv[2:] or [f"tcpstore:{VERSION}/{backend}"]
        for part in parts:
            child, port = decoy(binary, part)
            try:
                got = conversation(port)
            finally:
                child.send_signal(2)
                summary = json.loads(child.communicate()[0].splitlines()[-1])
            different = [(w, g) for w, g in zip(want, got) if w != g]
            bad += len(different) + (len(want) != len(got))
            print(f"PyTorch {VERSION}, {backend} store against {part}: {len(want)} calls, {len(want) - len(different)} answered alike; "
                  f"decoy: {summary['connections']} connections, {summary['received_bytes']} bytes received, kills {summary['kills']}")
            for w, g in different:
                print(f"  {w[0]}: real {w[1]!r}, decoy {g[1]!r}")
        del master
    return 1 if bad else 0


sys.exit(main())
