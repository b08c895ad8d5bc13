#!/usr/bin/env python3
"""decoy-load.py BINARY [SECONDS [CONNECTIONS]]: what a decoy bears, on loopback (default: 600 s, 1000 connections at once).

Four decoys in one process (stores of 1.13, of 2.15 with both servers, a bootstrap root) meet, all at once: claims of 1 TiB,
slow senders, clients that say nothing, that close their half, that ask for large answers and read none, and random bytes.
Resident memory is read each second. Prints figures; status 1 when memory passed CEILING MiB or the decoy ended by itself."""
import errno, json, os, random, selectors, signal, socket, struct, subprocess, sys, time

CEILING = 256
PARTS = ["tcpstore:1.13", "tcpstore:2.15/libuv", "tcpstore:2.15/poll", "nccl-root:2.26"]
VALIDATE = bytes.fromhex("00cef7853c")


def string(data):
    return struct.pack("<Q", len(data)) + data


def payloads(part, rng):
    """Kind and bytes of one client; `None` where it sends a byte now and then."""
    first = VALIDATE if "2.15" in part and rng.random() < 0.7 else b""
    op = {"set": 1, "get": 3} if "2.15" in part else {"set": 0, "get": 2}
    kind = rng.choice(["claim", "slow", "silent", "half", "greedy", "random", "random", "flood"])
    data = {
        "claim": first + bytes([rng.choice(list(op.values()))]) + struct.pack("<Q", 1 << 40) + b"x" * rng.randrange(2000),
        "slow": first + bytes([op["set"]]) + string(b"/k") + string(b"v" * 300),
        "silent": b"",
        "half": first + b"\x03",
        "greedy": first + bytes([op["set"]]) + string(b"/big") + string(b"z" * (1 << 20)) + (bytes([op["get"]]) + string(b"/big")) * 200,
        "random": rng.randbytes(rng.randrange(1, 4000)),
        "flood": first + b"".join(bytes([op["set"]]) + string(b"/%d" % rng.randrange(10**9)) + string(b"v") for _ in range(500)),
    }[kind]
    return kind, data


def main():
    binary, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 600
    most = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    rng = random.Random(29500)
    arguments = [a for p in PARTS for a in ("--as", p, "--listen", "0")]
    child = subprocess.Popen([binary, "decoy", *arguments, "--quiet", "--for", str(seconds + 60)], stdout=subprocess.PIPE, text=True)
    # Quiet ones do not say where they listen.
    addresses = []
    while len(addresses) < len(PARTS):
        time.sleep(0.1)
        inodes = {os.readlink(f"/proc/{child.pid}/fd/{f}") for f in os.listdir(f"/proc/{child.pid}/fd")}
        rows = [line.split() for line in open("/proc/net/tcp").readlines()[1:]]
        rows = [r for r in rows if r[3] == "0A" and f"socket:[{r[9]}]" in inodes]
        addresses = [int(r[1].split(":")[1], 16) for r in sorted(rows, key=lambda r: int(r[9]))]
    selector = selectors.DefaultSelector()
    begun = counts = 0
    kinds, sizes, refused = {}, [], 0
    until = time.monotonic() + seconds
    sample = 0.0
    while time.monotonic() < until and child.poll() is None:
        while len(selector.get_map()) < most:
            i = rng.randrange(len(PARTS))
            s = socket.socket()
            s.setblocking(False)
            try:
                s.connect(("127.0.0.1", addresses[i]))
            except BlockingIOError:
                pass
            except OSError as e:
                if e.errno != errno.EADDRNOTAVAIL:
                    raise
                s.close()
                refused += 1
                break
            kind, data = payloads(PARTS[i], rng)
            kinds[kind] = kinds.get(kind, 0) + 1
            begun += 1
            state = {"kind": kind, "data": memoryview(data), "end": time.monotonic() + rng.expovariate(1 / 4), "next": 0.0}
            selector.register(s, selectors.EVENT_READ | selectors.EVENT_WRITE, state)
        now = time.monotonic()
        for key, events in selector.select(0.02):
            s, state = key.fileobj, key.data
            try:
                if events & selectors.EVENT_WRITE and state["data"] and now >= state["next"]:
                    piece = state["data"][: 1 if state["kind"] == "slow" else 65536]
                    sent = s.send(piece)
                    counts += sent
                    state["data"] = state["data"][sent:]
                    state["next"] = now + (0.2 if state["kind"] == "slow" else 0)
                    if not state["data"] and state["kind"] == "half":
                        s.shutdown(socket.SHUT_WR)
                if events & selectors.EVENT_READ and state["kind"] != "greedy" and not s.recv(65536):
                    state["end"] = 0
                if not state["data"] or state["kind"] == "slow":
                    wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if state["data"] else 0)
                    if state["kind"] != "greedy":
                        selector.modify(s, wanted, state)
            except BlockingIOError:
                pass
            except OSError:
                state["end"] = 0
        for key in [k for k in selector.get_map().values() if k.data["end"] <= now]:
            selector.unregister(key.fileobj)
            key.fileobj.close()
        if now >= sample:
            sample = now + 1
            status = open(f"/proc/{child.pid}/status").read()
            sizes.append(int(status.split("VmRSS:")[1].split()[0]) // 1024)
    alone = child.poll()
    if alone is None:
        peak = int(open(f"/proc/{child.pid}/status").read().split("VmHWM:")[1].split()[0]) // 1024
        child.send_signal(signal.SIGINT)
    for key in list(selector.get_map().values()):
        key.fileobj.close()
    out = child.communicate()[0]
    if alone is not None:
        print(f"the decoy ended by itself, status {alone}")
        return 1
    summary = json.loads(out.splitlines()[-1])
    tenth = max(1, len(sizes) // 10)
    print(f"{seconds:.0f} s, {most} at once: {begun} connections begun ({', '.join(f'{k} {v}' for k, v in sorted(kinds.items()))}), {counts >> 20} MiB sent")
    print(f"resident: {sizes[0]} MiB at first, median {sorted(sizes)[len(sizes) // 2]}, peak {peak} MiB; median of the first tenth "
          f"{sorted(sizes[:tenth])[tenth // 2]}, of the last {sorted(sizes[-tenth:])[tenth // 2]}")
    print("summary:", json.dumps(summary))
    return int(peak > CEILING or child.returncode != 1)


sys.exit(main())
