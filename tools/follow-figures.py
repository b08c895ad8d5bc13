#!/usr/bin/env python3
"""follow-figures.py BINARY SEGMENTS NEW: how long `merge --follow` takes from the arrival of a new segment until it tells what is new.

SEGMENTS is a directory of evidence that the case holds beforehand, NEW one with a segment of another host that was killed too. Prints seconds for a process
that runs, and for one that is started for it (`--once`)."""
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

binary, segments, new = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3]
name = os.listdir(new)[0]
with tempfile.TemporaryDirectory() as place:
    inbox = f"{place}/in"
    shutil.copytree(segments, inbox)
    follow = [binary, "merge", "--case", f"{place}/central.db", "--follow", inbox]
    begun = time.monotonic()
    subprocess.run([*follow, "--once"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(f"follow, first pass over {len(os.listdir(inbox))} segments: {time.monotonic() - begun:.1f} s", flush=True)
    shutil.copy(f"{place}/central.db", f"{place}/other.db")

    # Once with a process of its own.
    shutil.copy(f"{new}/{name}", f"{inbox}/.{name}")
    os.rename(f"{inbox}/.{name}", f"{inbox}/{name}")
    begun = time.monotonic()
    subprocess.run([*follow, "--once"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(f"follow --once, one new segment: {time.monotonic() - begun:.2f} s", flush=True)

    # And by one that runs, once it has read the case.
    os.remove(f"{inbox}/{name}")
    follow[3] = f"{place}/other.db"
    running = subprocess.Popen([*follow, "--interval", "100ms"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    time.sleep(20)
    begun = time.monotonic()
    shutil.copy(f"{new}/{name}", f"{inbox}/.{name}")
    os.rename(f"{inbox}/.{name}", f"{inbox}/{name}")
    told = select.select([running.stdout], [], [], 120)[0]
    took = f"{time.monotonic() - begun:.2f} s" if told else "nothing was told"
    print(f"follow, one new segment in a process that runs: {took}", flush=True)
    running.terminate()
    running.wait()
