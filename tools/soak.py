#!/usr/bin/env python3
"""Half an hour of `rdzvscope live` on a veth pair in network namespaces of its own, with all that may happen to it.

    sudo tools/soak.py [--binary target/release/rdzvscope] [--seconds 1800] [--pps 1000] [--case-max 16M]

Steady traffic with ever new flows fills the case up to its budget; every few seconds a stray sends a claim to a real listener.
Three times the process is killed (SIGKILL) and started again, once the interface is deleted and made anew. What is promised:

* every claim that was sent while the process listened, and not within the last two seconds before a kill, is told: by --alert-exec
  and by --alert-file, under one id, and not twice but where a kill came between telling and noting it;
* the process outlives the interface, says so, and listens again;
* memory is flat: in the second half of each life no more than in the first, and a quarter;
* at the end the case is whole, and SIGTERM ends the process in order.

Prints figures; status 1 when a promise is broken. Needs root, ip(8) and tcpreplay.
"""

import argparse
import datetime
import importlib.util
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

SPEC = importlib.util.spec_from_file_location("figures", os.path.join(os.path.dirname(__file__), "live-figures.py"))
figures = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(figures)
A, B, TARGET = figures.A, figures.B, figures.TARGET
COOKIE = "0300002a25e00000000000436f6f6b69653a206d737473686173683d6e6d61700d0a0100080003000000"
STRAYS = [f"192.0.2.{n}" for n in range(200, 240)]
# What is kept every half second, and a pass that takes as long again.
UNCERTAIN = 2.0

# Sends a claim for each line "ADDRESS", and says when and from which port; a claim's connection stays for some seconds.
STRAY = """
import socket, sys, time
kept = []
for line in sys.stdin:
    try:
        c = socket.create_connection(('%s', 29500), 2, (line.strip(), 0))
        c.sendall(bytes.fromhex('%s'))
        print(time.time(), *c.getsockname(), flush=True)
        kept = kept[-3:] + [c]
    except OSError as e:
        print(0, '-', 0, flush=True)
""" % (TARGET, COOKIE)


def inside(namespace, *command, **more):
    return subprocess.Popen(["ip", "netns", "exec", namespace, *command], text=True, **more)


class Soak:
    def __init__(self, a, place):
        self.a, self.place = a, place
        self.sent, self.told, self.repeated = {}, {"file": {}, "exec": {}}, []
        self.kills, self.deaf, self.memory, self.said, self.broken = [], [], [], [], []
        self.over, self.live = threading.Event(), None

    def path(self, name):
        return os.path.join(self.place, name)

    def start(self):
        self.live = inside(
            B, self.a.binary, "live", "-i", "veth0", "--case", self.path("case.db"), "--case-max", self.a.case_max,
            "--memory", "64M", "--alert-file", self.path("file"), "--alert-exec", f"cat >> {self.path('exec')}",
            "--metrics", self.path("m.prom"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        ready = threading.Event()
        threading.Thread(target=self.listen, args=(self.live.stderr, ready), daemon=True).start()
        if not ready.wait(60):
            self.broken.append("the process did not begin to listen within a minute")

    def listen(self, stream, ready):
        for line in stream:
            self.said.append((time.time(), line.strip()))
            if "listening" in line:
                ready.set()

    def traffic(self, path):
        """Ever new flows, also once the interface is back."""
        while not self.over.is_set():
            try:
                figures.replay(path, self.a.pps, 5, ("--unique-ip",))
            except (SystemExit, TypeError):
                self.over.wait(1)

    def watch(self):
        """Notes when an alert came, and how much memory there is."""
        read = {"file": 0, "exec": 0}
        sampled = 0.0
        while not self.over.wait(0.05):
            for name, at in read.items():
                if not os.path.exists(self.path(name)):
                    continue
                with open(self.path(name)) as file:
                    file.seek(at)
                    while (line := file.readline()).endswith("\n"):
                        at = file.tell()
                        self.note(name, json.loads(line))
                read[name] = at
            if time.time() - sampled > 5 and self.live and self.live.poll() is None:
                sampled = time.time()
                try:
                    self.memory.append((sampled, figures.memory_of(self.live.pid)))
                except (OSError, TypeError):
                    pass

    def note(self, name, alert):
        if alert.get("rule") != "store-claim":
            return
        source, now = alert["source"], time.time()
        key, known = (source["address"], source["port"]), self.told[name]
        if key in known and known[key][1:] == (alert["id"], alert["severity"]):
            self.repeated.append((now, name, alert["id"]))
        elif key in known and known[key][1] != alert["id"]:
            self.broken.append(f"{name}: one claim under two ids: {known[key][1]} and {alert['id']}")
        known[key] = (known[key][0] if key in known else now, alert["id"], alert["severity"])

    def kill(self):
        self.kills.append(time.time())
        self.deaf.append([self.kills[-1] - UNCERTAIN, float("inf")])
        deaf = self.deaf[-1]
        # The child of ip-netns-exec is the process itself: it replaces it.
        self.live.kill()
        self.live.wait()
        self.start()
        deaf[1] = time.time() + 0.1

    def vanish(self, seconds=20):
        begun = time.time()
        deaf = [begun - UNCERTAIN, float("inf")]
        self.deaf.append(deaf)
        subprocess.run(["ip", "-n", B, "link", "del", "veth0"], check=True)
        time.sleep(seconds)
        figures.join()
        self.addresses()
        deadline = time.time() + 90
        again = lambda: any(t > begun and "listening again" in text for t, text in self.said)
        while not again() and time.time() < deadline:
            time.sleep(0.2)
        if self.live.poll() is not None or not again():
            self.broken.append("the process did not listen again when the interface was back")
        deaf[1] = time.time() + 0.5
        return time.time() - begun - seconds

    def addresses(self):
        for address in STRAYS:
            figures.run("ip", "-n", A, "addr", "add", address + "/24", "dev", "veth0")

    def run(self):
        figures.setup()
        self.addresses()
        pcap = self.path("traffic.pcap")
        figures.write_traffic(pcap, 200, 20)
        server = inside(B, sys.executable, "-c", figures.SERVER, stdout=subprocess.PIPE)
        server.stdout.readline()
        self.start()
        # Memory and case as large as they ever become, before anything is counted.
        figures.fill(pcap, self.path("m.prom"))
        for target, *arguments in ((self.traffic, pcap), (self.watch,)):
            threading.Thread(target=target, args=arguments, daemon=True).start()
        stray = inside(A, sys.executable, "-c", STRAY, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        begun, n, back = time.time(), 0, None
        events = [(0.2, self.kill), (0.4, self.kill), (0.55, self.vanish), (0.75, self.kill)]
        while time.time() - begun < self.a.seconds:
            if events and time.time() - begun > events[0][0] * self.a.seconds:
                # Claims go on meanwhile.
                _, event = events.pop(0)
                thread = threading.Thread(target=event)
                thread.start()
            stray.stdin.write(STRAYS[n % len(STRAYS)] + "\n")
            stray.stdin.flush()
            at, address, port = stray.stdout.readline().split()
            if float(at):
                self.sent[(address, int(port))] = float(at)
            n += 1
            time.sleep(self.a.every)
        thread.join()
        time.sleep(30)
        self.live.terminate()
        try:
            ended = self.live.wait(60)
        except subprocess.TimeoutExpired:
            ended = "not within a minute"
        time.sleep(1)
        self.over.set()
        if ended not in (0, 1, 2):
            self.broken.append(f"SIGTERM: the process ended with {ended}")
        check = subprocess.run([self.a.binary, "case", "check", self.path("case.db")], capture_output=True, text=True)
        if check.returncode:
            self.broken.append(f"case check: {check.stdout}{check.stderr}")
        return time.time() - begun

    def distance(self, at):
        nearest = min((k for k in self.kills), key=lambda k: abs(at - k), default=at)
        return f"{datetime.datetime.fromtimestamp(at):%T}, {at - nearest:+.1f} s from a kill"

    def report(self, took):
        deaf = lambda at: any(a <= at <= b for a, b in self.deaf)
        heard = {key: at for key, at in self.sent.items() if not deaf(at)}
        print(f"soak: {took:.0f} s, {figures.gauge(self.path('m.prom'), 'rdzvscope_packets_total'):,} packets, "
              f"a case of {os.path.getsize(self.path('case.db')) / 2**20:.1f} MiB, {len(self.kills)} kills")
        for name, told in self.told.items():
            missing = [key for key in heard if key not in told]
            lags = sorted(told[key][0] - at for key, at in heard.items() if key in told)
            if not lags:
                self.broken.append(f"{name}: nothing was told")
                continue
            print(f"soak: {name}: {len(heard) - len(missing)} of {len(heard)} claims told, and {len(told) - len(lags)} of "
                  f"{len(self.sent) - len(heard)} that were sent while nobody listened for certain; lag: median "
                  f"{statistics.median(lags):.2f} s, 95 % {lags[len(lags) * 95 // 100]:.2f} s, worst {lags[-1]:.2f} s")
            if missing:
                after = ", ".join(self.distance(heard[k]) for k in missing[:8])
                self.broken.append(f"{name}: {len(missing)} claims were not told (sent {after})")
        near = lambda at: any(-1 < at - kill < 60 for kill in self.kills)
        again = [r for r in self.repeated if not near(r[0])]
        print(f"soak: told again after a kill {len(self.repeated) - len(again)} times, without one {len(again)} times")
        if again:
            self.broken.append(f"{len(again)} alerts were told twice without a kill")
        # The first life begins with all that could be sent; what is let go then shows in the ones behind it.
        lives = [[m for at, m in self.memory if a < at <= b]
                 for a, b in zip([0.0, *self.kills], [*self.kills, float("inf")])]
        for n, life in enumerate(lives, 1):
            half = len(life) // 2
            if half < 3:
                continue
            first, second = max(life[:half]), max(life[half:])
            print(f"soak: life {n}: resident memory at most {first:.1f} MiB in its first half, {second:.1f} MiB in its second, "
                  f"{statistics.median(life):.1f} MiB in the median")
            if second > first * 1.25 + 16:
                self.broken.append(f"memory is not flat in life {n}")
        words = {}
        for _, text in self.said:
            words[text[:60]] = words.get(text[:60], 0) + 1
        for text, count in sorted(words.items(), key=lambda w: -w[1])[:12]:
            print(f"soak: said {count}x: {text}")
        for text in self.broken:
            print(f"BROKEN: {text}")
        return 1 if self.broken else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default="target/release/rdzvscope")
    parser.add_argument("--seconds", type=int, default=1800)
    parser.add_argument("--pps", type=int, default=1000, help="packets per second of steady traffic")
    parser.add_argument("--every", type=float, default=7.0, help="seconds between two claims")
    parser.add_argument("--case-max", default="16M")
    a = parser.parse_args()
    a.binary = os.path.abspath(a.binary)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    with tempfile.TemporaryDirectory() as place:
        soak = Soak(a, place)
        try:
            took = soak.run()
        finally:
            soak.over.set()
            figures.teardown()
        sys.exit(soak.report(took))


if __name__ == "__main__":
    main()
