#!/usr/bin/env python3
"""bench.py ROUNDS BINARY DIR: CPU time (user + system) of reading DIR/large.pcap and DIR/small.pcap, as ratios in one run.

Programs take turns (A B C A B C ...), so that a machine that slows down slows all of them; medians of ratios are printed.
The read loop is this interpreter's own readinto of 1 MiB into one aligned buffer, its start-up taken off."""
import mmap, os, resource, shutil, statistics, subprocess, sys, tempfile

rounds, binary, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
READ = "import mmap,sys\nb=mmap.mmap(-1,1<<20)\nf=open(sys.argv[1],'rb',buffering=0)\nwhile f.readinto(b):pass\n"


def cpu(command, expect=(0, 1)):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    status = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if status not in expect:
        raise SystemExit(f"{command[0]} ended with {status}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def contestants(path, scratch):
    yield "read loop", lambda: max(1e-3, cpu([sys.executable, "-c", READ, path]) - cpu([sys.executable, "-c", "import mmap,sys"]))
    if shutil.which("tcpdump"):
        yield "tcpdump -w, port filter", lambda: cpu(["tcpdump", "-r", path, "-w", "/dev/null", "tcp port 29500"])
    if shutil.which("tcpflow"):
        yield "tcpflow, port filter", lambda: cpu(["tcpflow", "-q", "-o", scratch, "-r", path, "tcp port 29500"])
    if shutil.which("tshark") and os.environ.get("TSHARK", "1") != "0":
        yield "tshark, TCP dissection", lambda: cpu(["tshark", "-n", "-r", path, "-Y", "tcp.port==29500", "-T", "fields", "-e", "tcp.stream"])


for name in ("large", "small"):
    path = os.path.join(folder, f"{name}.pcap")
    with tempfile.TemporaryDirectory() as scratch:
        ours = [binary, "analyze", path, "--format", "json", "--threads", "1"]
        cpu(ours)
        for other, run in contestants(path, scratch):
            n = 1 if other.startswith("tshark") else rounds
            pairs = [(cpu(ours), run()) for _ in range(n)]
            ratio = statistics.median(a / b for a, b in pairs)
            a, b = (statistics.median(x) for x in zip(*pairs))
            print(f"{name:<6} rdzvscope {a:6.3f} s   {other:<26} {b:7.3f} s   ratio {ratio:6.3f}   ({n} pairs)", flush=True)
