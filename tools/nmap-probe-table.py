#!/usr/bin/env python3
"""nmap-probe-table.py [nmap-service-probes] > src/protocol/stray/nmap_probes.rs

Facts about the TCP probes in the nmap-service-probes file that an installed nmap brings along: for each its payload's
length, the first eight bytes of the payload's SHA-256 and its name. The payloads themselves stay where they are.
The file's grammar: https://nmap.org/book/vscan-fileformat.html
"""
import hashlib
import re
import sys

PLAIN = {"0": 0, "a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}


def unescape(text):
    """The bytes that nmap's escapes stand for: \\xHH, \\0 and C's letters; any other character stands for itself."""
    out, i = bytearray(), 0
    while i < len(text):
        c = text[i]
        if c != "\\":
            out.append(ord(c))
            i += 1
        elif text[i + 1] == "x":
            out.append(int(text[i + 2:i + 4], 16))
            i += 4
        else:
            out.append(PLAIN.get(text[i + 1], ord(text[i + 1])))
            i += 2
    return bytes(out)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "/usr/share/nmap/nmap-service-probes"
    revision, probes = "unknown", {}
    with open(path, encoding="latin-1") as lines:
        for line in lines:
            if m := re.match(r"# \$Id: nmap-service-probes (\d+) (\S+)", line):
                revision = "%s of %s" % m.groups()
            if m := re.match(r"Probe TCP (\S+) q(.)(.*?)\2", line):
                name, payload = m[1], unescape(m[3])
                if payload:
                    key = (len(payload), int.from_bytes(hashlib.sha256(payload).digest()[:8], "big"))
                    if key in probes:
                        sys.exit("%s and %s have the same payload" % (probes[key], name))
                    probes[key] = name
    print("//! Facts about nmap's TCP service probes. Made by `tools/nmap-probe-table.py`; not to be edited.")
    print("//!")
    print("//! From nmap-service-probes revision %s: %d probes that send something." % (revision, len(probes)))
    print()
    print("/// Payload length in bytes, first eight bytes of the payload's SHA-256 (big-endian), name. Sorted.")
    print("pub(super) const NMAP_PROBES: &[(u16, u64, &str)] = &[")
    for (length, digest), name in sorted(probes.items()):
        hexed = "%016x" % digest
        print('    (%d, 0x%s, "%s"),' % (length, "_".join(hexed[i:i + 4] for i in range(0, 16, 4)), name))
    print("];")


if __name__ == "__main__":
    main()
