#!/usr/bin/env python3
"""compare.py RDZVSCOPE PCAP TRUTH.json: the streams that the program reassembles from a capture against what recv()
returned. Prints each connection that differs; status 1 when there is one."""

import hashlib
import json
import subprocess
import sys


def main():
    program, pcap, truth = sys.argv[1:4]
    output = subprocess.run([program, "streams", "--all", "--format", "jsonl", pcap], capture_output=True, check=False)
    if output.returncode not in (0, 1):
        sys.exit("streams failed: " + output.stderr.decode(errors="replace"))
    read = {}
    for line in output.stdout.splitlines():
        stream = json.loads(line)
        read.setdefault(stream["src"], []).append((stream["length"], stream["sha256"]))
    different = 0
    connections = json.load(open(truth))
    for connection in connections:
        received = [bytes.fromhex(r) for r in connection["received"] if r]
        expected = sorted((len(r), hashlib.sha256(r).hexdigest()) for r in received)
        found = sorted(read.get(connection["client"], []))
        if expected != found:
            different += 1
            lengths = [length for length, _ in found]
            print(connection["client"], "recv() returned", [r.hex() for r in received], "streams has lengths", lengths)
    print("%d connections, %d differences" % (len(connections), different))
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
