"""store_server.py CGROUP.PROCS: real stores of the PyTorch that runs this, one process each, in a memory cgroup.

Each line `poll` or `libuv` on standard input starts a store on loopback and prints its port and process. It is forked, so
that PyTorch is loaded once. At the end of the input all of them are gone.
"""
import datetime
import os
import signal
import sys

import torch
import torch.distributed as dist

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
VERSION = tuple(int(n) for n in torch.__version__.split("+")[0].split("a")[0].split(".")[:2])
children = []


def serve(backend, ready):
    with open(sys.argv[1], "w") as procs:
        procs.write(str(os.getpid()))
    more = {"use_libuv": backend == "libuv"} if VERSION >= (2, 2) else {}
    if VERSION >= (1, 9):
        more["wait_for_workers"] = False
    for port in range(20000 + os.getpid() % 20000, 60000):
        try:
            store = dist.TCPStore("127.0.0.1", port, 1, True, datetime.timedelta(seconds=300), **more)
            break
        except RuntimeError as e:
            if "ddress already in use" not in str(e) and "EADDRINUSE" not in str(e):
                raise
    os.write(ready, str(port).encode())
    while True:
        signal.pause()
    return store


print("VERSION", torch.__version__, flush=True)
for line in sys.stdin:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            serve(line.strip(), writing)
        finally:
            os._exit(1)
    os.close(writing)
    port = os.read(reading, 16).decode()
    os.close(reading)
    children.append(pid)
    print(f"STORE {port or 0} {pid}", flush=True)
for pid in children:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
