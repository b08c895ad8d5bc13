#!/usr/bin/env python3
"""compare.py RDZVSCOPE PCAP TRUTH.json [--lacking N] [--surplus N]: the streams that the program reassembles from a capture
against what recv() returned. Prints each connection that differs: lacking, where a stream that recv() returned is not there
to the byte; surplus, where there is a stream besides. Status 1 when more differ than are allowed (none, unless told)."""

import argparse
import hashlib
import json
import subprocess
import sys


def streams(program, pcap):
    """Lengths and hashes of the streams, by sender."""
    output = subprocess.run([program, "streams", "--all", "--format", "jsonl", pcap], capture_output=True, check=False)
    if output.returncode not in (0, 1):
        sys.exit("streams failed: " + output.stderr.decode(errors="replace"))
    found = {}
    for line in output.stdout.splitlines():
        stream = json.loads(line)
        found.setdefault(stream["src"], []).append((stream["length"], stream["sha256"]))
    return found


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program")
    arguments.add_argument("pcap")
    arguments.add_argument("truth")
    arguments.add_argument("--lacking", type=int, default=0)
    arguments.add_argument("--surplus", type=int, default=0)
    a = arguments.parse_args()
    found = streams(a.program, a.pcap)
    with open(a.truth) as f:
        connections = json.load(f)
    lacking = surplus = 0
    for connection in connections:
        received = [bytes.fromhex(r) for r in connection["received"] if r]
        left = list(found.get(connection["client"], []))
        lengths = [length for length, _ in left]
        missed = False
        for stream in [(len(r), hashlib.sha256(r).hexdigest()) for r in received]:
            if stream in left:
                left.remove(stream)
            else:
                missed = True
        lacking += missed
        surplus += not missed and bool(left)
        if missed or left:
            print("lacking" if missed else "surplus", connection["client"], "recv() returned", [r.hex() for r in received],
                  "streams has lengths", lengths)
    print("%d connections: %d lack bytes that recv() returned, %d have bytes that it did not" % (len(connections), lacking, surplus))
    sys.exit(lacking > a.lacking or surplus > a.surplus)


if __name__ == "__main__":
    main()
