#!/usr/bin/env python3
"""join-lines.py < OUTPUT-OF-SRUN-L > LINES: puts together what `srun -l` cuts into pieces of 1 024 bytes and interleaves, task by task.

A line without a label is passed on as it is. What a task left unfinished is passed on last. Counts go to standard error.
"""
import json
import re
import sys

PIECE = 1024


def whole_line(text):
    """Whether it is a line already: a piece may end where its line does."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


parts, joined, lines = {}, 0, 0
for line in sys.stdin.buffer:
    label = re.match(rb"\s*(\d+): ?", line)
    if not label:
        sys.stdout.buffer.write(line)
        continue
    task, body = label.group(1), line[label.end():].rstrip(b"\n")
    whole = parts.pop(task, b"") + body
    if len(body) >= PIECE and not whole_line(whole):
        parts[task] = whole
        joined += 1
        continue
    sys.stdout.buffer.write(whole + b"\n")
    lines += 1
for whole in parts.values():
    sys.stdout.buffer.write(whole + b"\n")
print(f"{lines} lines, {joined} pieces joined, {len(parts)} lines without their end", file=sys.stderr)
