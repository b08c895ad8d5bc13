"""The table of docs/protocols.md, and the list that the program carries, made from results/*.json."""
import glob
import json
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = {"pytorch": "PyTorch", "nccl": "NCCL"}
BEGIN, END = "<!-- conformance: made by conformance/table.py -->", "<!-- end of conformance -->"


def results():
    """All results: PyTorch before NCCL, oldest release first."""
    found = [json.load(open(path)) for path in glob.glob(f"{HERE}/results/*.json")]
    return sorted(found, key=lambda r: (r["product"] != "pytorch", [int(n) for n in re.findall(r"\d+", r["release"])]))


def table():
    rows = ["| release | checked | tried | differences | not tried |", "|---|---|---|---|---|"]
    for r in results():
        tried = ", ".join(f"{n} {what}" for what, n in r["tried"].items())
        differ = "; ".join(d["what"] for d in r["differences"]) or "none"
        left = "; ".join(n["what"] for n in r["not_tried"]) or "nothing"
        rows.append(f"| {NAMES[r['product']]} {r['release']} | {r['date']} | {tried} | {differ} | {left} |")
    return "\n".join(rows)


def checked():
    """A line a release: product, release, date, number of differences."""
    return "".join(f"{r['product']}\t{r['release']}\t{r['date']}\t{len(r['differences'])}\n" for r in results())


def write():
    with open(f"{HERE}/checked.tsv", "w") as f:
        f.write(checked())
    path = f"{HERE}/../docs/protocols.md"
    page = open(path).read()
    before, rest = page.split(BEGIN)
    with open(path, "w") as f:
        f.write(f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}")
    return 0
