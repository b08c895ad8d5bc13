#!/usr/bin/env python3
"""Figures of `rdzvscope live` on a veth pair in network namespaces of its own: rate, memory, lag.

    sudo tools/live-figures.py [--binary target/release/rdzvscope] [--minutes 10] [--rounds 3] [rate] [memory] [lag]

rate    the highest rate (packets per second) at which nothing is dropped, for tcpdump -w /dev/null and for live, with the
        same filter, the same kernel buffer and the same share of a processor (a control group), in turns; the ratio
memory  resident memory at the start and every minute of a steady load with ever new flows and strays
lag     from a stray's packet to the line that tells of it, without and with load

Needs root, ip(8), tcpdump and tcpreplay (Debian: tcpreplay). Ratios within one run mean something; absolute numbers are
this machine's, and of what else it does.
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

# Of this process alone: two of them may run at once.
A, B = f"rdzvfig-a{os.getpid()}", f"rdzvfig-b{os.getpid()}"
SENDER, TARGET = "192.0.2.250", "192.0.2.11"
FILTER = ("(tcp[13] & 7 != 0) or (ip6 and ip6[6] = 6 and ip6[53] & 7 != 0) or (ip[6:2] & 0x3fff != 0)"
          " or (tcp port 23456) or (tcp port 29400) or (tcp port 29500)")


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def setup():
    teardown()
    for name in (A, B):
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")
    join()


def join():
    """The pair, with its addresses."""
    run("ip", "link", "add", "veth0", "netns", A, "type", "veth", "peer", "name", "veth0", "netns", B)
    for name, address in ((A, SENDER), (B, TARGET)):
        run("ip", "-n", name, "addr", "add", address + "/24", "dev", "veth0")
        run("ip", "-n", name, "link", "set", "veth0", "up")
        # Replayed packets are for nobody: the stack is not to answer them with resets.
        subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"], check=False)


def teardown():
    for name in (A, B):
        pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout
        for pid in pids.split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


def mac(namespace):
    text = subprocess.run(["ip", "-n", namespace, "link", "show", "veth0"], capture_output=True, text=True).stdout
    return bytes.fromhex(re.search(r"link/ether ([0-9a-f:]+)", text)[1].replace(":", ""))


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def frame(macs, source, sport, target, dport, seq, ack, flags, payload):
    tcp = struct.pack("!HHIIBBHHH", sport, dport, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 5 << 4, flags, 64240, 0, 0)
    s, t = socket.inet_aton(source), socket.inet_aton(target)
    pseudo = s + t + struct.pack("!BBH", 0, 6, len(tcp) + len(payload))
    tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp + payload)) + tcp[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp) + len(payload), 0, 0x4000, 64, 6, 0) + s + t
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    return macs + b"\x08\x00" + ip + tcp + payload


def store_get(key):
    return bytes([5]) + struct.pack("<Q", 1) + struct.pack("<Q", len(key)) + key


def write_traffic(path, flows, requests):
    """Clients of a store of PyTorch 1.13: each adds to init/, then waits for keys, again and again."""
    macs = mac(B) + mac(A)
    back = mac(A) + mac(B)
    packets = []
    for flow in range(flows):
        client, port = f"192.0.2.{20 + flow % 200}", 20000 + flow
        seq, ack = 1000 + flow, 500000 + flow
        say = lambda f, d=b"": packets.append(frame(macs, client, port, TARGET, 29500, seq, ack, f, d))
        hear = lambda f, d=b"": packets.append(frame(back, TARGET, 29500, client, port, ack, seq, f, d))
        say(2), hear(0x12)
        seq, ack = seq + 1, ack + 1
        say(0x10)
        add = bytes([3]) + struct.pack("<Q", 5) + b"init/" + struct.pack("<q", 1)
        say(0x18, add)
        seq += len(add)
        hear(0x18, struct.pack("<q", flow + 1))
        ack += 8
        for n in range(requests):
            request = store_get(b"/default_pg/0//key/%06d" % n)
            say(0x18, request)
            seq += len(request)
            hear(0x18, b"\0")
            ack += 1
        say(0x11), hear(0x11)
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for i, p in enumerate(packets):
            out.write(struct.pack("<IIII", i // 100000, i % 100000 * 10, len(p), len(p)) + p)
    return len(packets)


def replay(path, pps, seconds, extra=()):
    """Sends at a rate; how many packets went, and at what rate that came out."""
    tool = shutil.which("tcpreplay") or "target/tools/usr/bin/tcpreplay"
    rate = ["--topspeed"] if pps is None else [f"--pps={int(pps)}"]
    output = subprocess.run(
        ["ip", "netns", "exec", A, tool, "-i", "veth0", "-K", "--loop=0", f"--duration={seconds}", *rate, *extra, path],
        capture_output=True, text=True)
    sent = re.search(r"Actual: (\d+) packets", output.stdout)
    if not sent:
        sys.exit(f"tcpreplay: {output.stdout}{output.stderr}")
    took = re.search(r"Rated: .*?([\d.]+) pps", output.stdout)
    return int(sent[1]), float(took[1]) if took else 0.0


def processor_time(pid):
    """Seconds that a process has run, threads that have ended included, as the scheduler counts them (nanoseconds)."""
    # The clock of another process: clock_getcpuclockid(3).
    return time.clock_gettime((~pid << 3) | 2)


class Share:
    """A control group that gets a share of one processor: with it a limit is found below what the sender can do."""

    def __init__(self, share):
        second = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
        self.path = f"/sys/fs/cgroup/{'' if second else 'cpu/'}rdzvfig{os.getpid()}"
        try:
            os.mkdir(self.path)
            quota = int(share * 100000)
            if second:
                open(self.path + "/cpu.max", "w").write(f"{quota} 100000")
            else:
                open(self.path + "/cpu.cfs_period_us", "w").write("100000")
                open(self.path + "/cpu.cfs_quota_us", "w").write(str(quota))
            self.works = True
        except OSError as e:
            print(f"rate: no share of a processor can be set ({e}): both have all of it")
            self.works = False

    def enter(self):
        if self.works:
            open(self.path + "/cgroup.procs", "w").write(str(os.getpid()))

    def end(self):
        if os.path.isdir(self.path):
            os.rmdir(self.path)


SHARE = None


def begin(*command):
    """A process in the target's namespace, with its share of the processor."""
    return subprocess.Popen(["ip", "netns", "exec", B, *command], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                            text=True, preexec_fn=SHARE.enter if SHARE else None)


def finish(child):
    child.send_signal(signal.SIGINT)
    try:
        return child.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.communicate()


def lost_by_tcpdump(traffic, pps, seconds):
    child = begin("tcpdump", "-i", "veth0", "-n", "-B", "16384", "-w", "/dev/null", FILTER)
    time.sleep(1.0)
    sent, rate = replay(traffic, pps, seconds)
    time.sleep(1.0)
    spent = processor_time(child.pid)
    _, errors = finish(child)
    captured = int(re.search(r"(\d+) packets captured", errors)[1])
    return sent, sent - captured, rate, spent


def lost_by_live(binary, traffic, pps, seconds):
    with tempfile.TemporaryDirectory() as place:
        metrics = os.path.join(place, "m.prom")
        child = begin(binary, "live", "-i", "veth0", "--buffer", "16M", "--metrics", metrics)
        time.sleep(1.0)
        sent, rate = replay(traffic, pps, seconds)
        time.sleep(1.5)
        spent = processor_time(child.pid)
        _, errors = finish(child)
        text = open(metrics).read()
        taken = int(re.search(r"^rdzvscope_packets_total (\d+)", text, re.M)[1])
        if os.environ.get("VERBOSE"):
            print(errors, file=sys.stderr)
        return sent, sent - taken, rate, spent


def highest(lost, top):
    """The highest rate without loss, to an eighth of a doubling or so."""
    low, high = 0.0, None
    pps = top
    best = 0.0
    for _ in range(8):
        _, gone, rate, _ = lost(pps)
        if gone <= 0:
            best, low = max(best, rate), pps
            if high is None:
                return best, True
        else:
            high = pps
        pps = (low + high) / 2
        if high - low < 0.06 * high:
            break
    return best, False


def figures_of_rate(binary, rounds, share, place):
    global SHARE
    SHARE = Share(share) if share < 1 else None
    try:
        rate_rounds(binary, rounds, share, place)
    finally:
        if SHARE:
            SHARE.end()
        SHARE = None


def rate_rounds(binary, rounds, share, place):
    traffic = os.path.join(place, "rate.pcap")
    write_traffic(traffic, 500, 100)
    _, top = replay(traffic, None, 3)
    print(f"rate: the sender reaches {top:,.0f} packets/s; each of the two has {share:.0%} of a processor")
    rates, costs = [], []
    for n in range(rounds):
        dump, dump_all = highest(lambda pps: lost_by_tcpdump(traffic, pps, 4), top)
        live, live_all = highest(lambda pps: lost_by_live(binary, traffic, pps, 4), top)
        # Where the sender is the limit of both, their rates differ by chance alone.
        both = dump_all and live_all
        rates.append(1.0 if both else live / dump if dump else float("nan"))
        at = lambda all: " (all that the sender sends)" if all else ""
        print(f"rate: round {n + 1}: without loss: tcpdump {dump:,.0f}/s{at(dump_all)}, live {live:,.0f}/s{at(live_all)}",
              flush=True)
        # The same packets, at a rate that is easy for both: what they cost.
        sent, _, _, dump = lost_by_tcpdump(traffic, 20000, 6)
        sent_live, _, _, live = lost_by_live(binary, traffic, 20000, 6)
        costs.append((live / sent_live) / (dump / sent) if dump else float("nan"))
        print(f"rate: round {n + 1}: processor time a packet: tcpdump {dump / sent * 1e6:.1f} us, "
              f"live {live / sent_live * 1e6:.1f} us (decoding and reports included)", flush=True)
    print(f"rate: median ratio live / tcpdump: packets a second without loss {statistics.median(rates):.2f}"
          f"{' or better: the sender is the limit' if all(r == 1.0 for r in rates) else ''}, "
          f"processor time a packet {statistics.median(costs):.1f}")


def memory_of(pid):
    status = open(f"/proc/{pid}/status").read()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


def gauge(path, name):
    found = re.search(rf"^{name} (\d+)", open(path).read(), re.M)
    return int(found[1]) if found else 0


def fill(traffic, metrics):
    """Sends as fast as it goes until as much is kept as ever will be (the oldest goes for the newest); whether it got
    there within five minutes."""
    begun, largest, still = time.time(), 0, 0
    while time.time() - begun < 300:
        replay(traffic, None, 8, ("--unique-ip",))
        time.sleep(4)
        size = gauge(metrics, "rdzvscope_case_size_bytes")
        still = still + 1 if size < largest * 1.03 else 0
        largest = max(largest, size)
        if still >= 3:
            return True
    return False


def figures_of_memory(binary, minutes, limit, pps, place):
    traffic = os.path.join(place, "memory.pcap")
    metrics = os.path.join(place, "memory.prom")
    write_traffic(traffic, 200, 20)
    child = subprocess.Popen(["ip", "netns", "exec", B, binary, "live", "-i", "veth0", "--memory", limit,
                              "--metrics", metrics], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    time.sleep(2)
    print(f"memory: start {memory_of(child.pid):.1f} MiB", flush=True)
    # What is kept grows up to a bound (--memory for flows, --case-max): first that is reached, then it must stay as it is.
    full = fill(traffic, metrics)
    samples = [memory_of(child.pid)]
    print(f"memory: {'as much is kept as ever will be' if full else 'what is kept still grows'}: {samples[0]:.1f} MiB, "
          f"{gauge(metrics, 'rdzvscope_packets_total')} packets", flush=True)
    for minute in range(1, minutes + 1):
        # Other addresses in every pass over the file: ever new flows.
        replay(traffic, pps, 58, ("--unique-ip",))
        samples.append(memory_of(child.pid))
        print(f"memory: {minute} min {samples[-1]:.1f} MiB, {gauge(metrics, 'rdzvscope_packets_total')} packets",
              flush=True)
    finish(child)
    print(f"memory: {min(samples):.1f} to {max(samples):.1f} MiB in {minutes} minutes")


SERVER = """
import socket, threading
def serve(c):
    head = c.recv(64)
    if head[9:14] == b'init/': c.sendall((1).to_bytes(8, 'little'))
    while c.recv(4096): pass
s = socket.create_server(('0.0.0.0', 29500))
print('ready', flush=True)
while True:
    c, _ = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
"""

CLIENT = """
import socket, sys, time
s = socket.create_connection(('%s', 29500))
s.sendall(bytes([3]) + (5).to_bytes(8, 'little') + b'init/' + (1).to_bytes(8, 'little')); s.recv(8)
kept = []
for n in range(%d):
    time.sleep(%f)
    c = socket.create_connection(('%s', 29500))
    c.sendall(bytes.fromhex('0300002a25e00000000000436f6f6b69653a206d737473686173683d6e6d61700d0a0100080003000000'))
    kept.append(c)
time.sleep(12)
"""


def lags(binary, strays, pause, more=()):
    server = subprocess.Popen(["ip", "netns", "exec", B, sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    server.stdout.readline()
    live = subprocess.Popen(["ip", "netns", "exec", B, binary, "live", "-i", "veth0", "--format", "jsonl", *more],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    live.stderr.readline()
    threading.Thread(target=live.stderr.read, daemon=True).start()
    client = subprocess.Popen(["ip", "netns", "exec", A, sys.executable, "-c", CLIENT % (TARGET, strays, pause, TARGET)])
    seen = {}
    timer = threading.Timer(strays * pause + 25, lambda: live.send_signal(signal.SIGINT))
    timer.start()
    for line in live.stdout:
        now = time.time()
        told = json.loads(line)
        if told.get("rule") == "store-claim" and told["id"] not in seen:
            from datetime import datetime
            text = told["time"][:26] + "+00:00"
            seen[told["id"]] = now - datetime.fromisoformat(text).timestamp()
            if len(seen) == strays:
                break
    timer.cancel()
    client.kill()
    server.kill()
    finish(live)
    return sorted(seen.values())


def lag_at(binary, traffic, what, more=()):
    for load in (0, 5000):
        thread = None
        if load:
            thread = threading.Thread(target=replay, args=(traffic, load, 30, ("--unique-ip",)))
            thread.start()
        all = lags(binary, 20, 1.1, more)
        if thread:
            thread.join()
        if all:
            print(f"lag: {len(all)} of 20 strays told, with {what}, at {load} packets/s besides: "
                  f"median {statistics.median(all):.2f} s, worst {all[-1]:.2f} s", flush=True)
        else:
            print(f"lag: with {what}, at {load} packets/s besides: nothing was told", flush=True)


def figures_of_lag(binary, place):
    traffic = os.path.join(place, "lag.pcap")
    write_traffic(traffic, 200, 20)
    lag_at(binary, traffic, "an empty case")
    case, metrics = os.path.join(place, "lag.db"), os.path.join(place, "lag.prom")
    more = ("--case", case, "--case-max", "64M")
    child = subprocess.Popen(["ip", "netns", "exec", B, binary, "live", "-i", "veth0", "--metrics", metrics, *more],
                             stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    time.sleep(2)
    fill(traffic, metrics)
    finish(child)
    lag_at(binary, traffic, f"a full case ({os.path.getsize(case) >> 20} MiB)", more)


def short(binary, place):
    """A minute's worth for a test: one JSON object."""
    traffic = os.path.join(place, "short.pcap")
    write_traffic(traffic, 200, 40)
    dump = lost_by_tcpdump(traffic, 5000, 3)
    live = lost_by_live(binary, traffic, 5000, 3)
    child = subprocess.Popen(["ip", "netns", "exec", B, binary, "live", "-i", "veth0", "--case-max", "4M"],
                             stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    time.sleep(1)
    memory = [memory_of(child.pid)]
    for _ in range(5):
        replay(traffic, 5000, 3, ("--unique-ip",))
        memory.append(memory_of(child.pid))
    finish(child)
    told = lags(binary, 5, 1.0)
    print(json.dumps({"tcpdump": {"sent": dump[0], "lost": dump[1]}, "live": {"sent": live[0], "lost": live[1]},
                      "memory_mib": memory, "lag_seconds": told}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default="target/release/rdzvscope")
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--memory", default="256M", help="--memory of live, for the figures of memory")
    parser.add_argument("--pps", type=int, default=5000, help="the load of these figures")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0,
                        help="of a processor that tcpdump and live get: a small one finds a limit below the sender's")
    parser.add_argument("--short", action="store_true", help="a minute of all three, as JSON")
    parser.add_argument("what", nargs="*", default=["rate", "memory", "lag"])
    a = parser.parse_args()
    binary = os.path.abspath(a.binary)
    # The namespaces go, however it ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    setup()
    try:
        with tempfile.TemporaryDirectory() as place:
            if a.short:
                short(binary, place)
                return
            if "rate" in a.what:
                figures_of_rate(binary, a.rounds, a.share, place)
            if "lag" in a.what:
                figures_of_lag(binary, place)
            if "memory" in a.what:
                figures_of_memory(binary, a.minutes, a.memory, a.pps, place)
    finally:
        teardown()


if __name__ == "__main__":
    main()
