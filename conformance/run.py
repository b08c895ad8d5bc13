#!/usr/bin/env python3
"""run.py pytorch|nccl RELEASE [--python PATH] [--keep]: what a release does, held against what the models say it does.
run.py latest: 0 when the newest releases on the index are in the table already, 1 when one is not.

Installs the release into a folder of its own, goes into a network namespace of its own, tries it, writes
results/PRODUCT-RELEASE.json, and removes the folder. --python takes a PyTorch that is installed already (a distribution's).
Needs root, a C compiler, tcpdump; at most 8 GB and half an hour. RDZVSCOPE names the program under test.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import common
import release as releases
import table

OVERCOMMIT = "/proc/sys/vm/overcommit_memory"


def inside():
    """This script once more, in a network namespace in which nothing but loopback is.

    Names come from files alone: the store of PyTorch 2.5 looks up the name of every client, and its thread ends, and the
    process with it, when a name server cannot be reached.
    """
    names = "printf 'hosts: files\\npasswd: files\\ngroup: files\\n' > $0/nsswitch.conf && mount --bind $0/nsswitch.conf /etc/nsswitch.conf"
    place = sys.argv[sys.argv.index("--place") + 1]
    command = ["unshare", "--net", "--mount", "sh", "-c", f'{names} && ip link set lo up && exec "$@"', place, sys.executable,
               *sys.argv]
    return subprocess.call(command, env={**os.environ, "RDZVSCOPE_CONFORMANCE": "inside"})


def latest():
    checked = {product: {r["release"] for r in table.results() if r["product"] == product} for product in ("pytorch", "nccl")}
    missing = 0
    for product, package in (("pytorch", "torch"), ("nccl", "nvidia-nccl-cu13")):
        version = releases.newest(package)
        here = version in checked[product]
        missing += not here
        word = "in the table" if here else f"NOT in the table: make conformance {product.upper()}={version}"
        print(f"{product}: the newest release is {version}, {word}")
    return 1 if missing else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("product", choices=["pytorch", "nccl", "latest", "table"])
    p.add_argument("release", nargs="?")
    p.add_argument("--python")
    p.add_argument("--keep", action="store_true", help="keep the folder, with the recordings")
    p.add_argument("--place", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.product == "latest":
        return latest()
    if a.product == "table":
        return table.write()
    os.environ.setdefault("RDZVSCOPE", f"{common.ROOT}/target/release/rdzvscope")
    if os.geteuid() != 0:
        raise SystemExit("conformance: needs root: a memory cgroup, a network namespace and vm.overcommit_memory are set up")
    if "RDZVSCOPE_CONFORMANCE" not in os.environ:
        place = a.place = tempfile.mkdtemp(prefix="rdzvscope-conformance-")
        sys.argv += ["--place", place]
        with open(OVERCOMMIT) as f:
            before = f.read()
        try:
            if a.product == "pytorch":
                torch = releases.Torch(a.release, place, a.python)
                kept = {"python": torch.python, "env": torch.env, "origin": torch.origin}
            else:
                library, package = releases.nccl_library(a.release, place)
                kept = {"library": library, "origin": f"{package} {a.release}"}
            with open(f"{place}/release.json", "w") as f:
                json.dump(kept, f)
            if a.product == "pytorch":  # Only stores are sent claims; NCCL's frames are bounded.
                with open(OVERCOMMIT, "w") as f:
                    f.write("1")
            status = inside()
            return status or table.write()
        finally:
            if a.product == "pytorch":
                with open(OVERCOMMIT, "w") as f:
                    f.write(before)
            if a.keep:
                print(f"kept: {place}")
            else:
                shutil.rmtree(place, ignore_errors=True)
    with open(f"{a.place}/release.json") as f:
        kept = json.load(f)
    result = common.Result(a.product, a.release)
    if a.product == "pytorch":
        import stores

        torch = releases.Torch.__new__(releases.Torch)
        torch.version, torch.python, torch.env, torch.origin = a.release, kept["python"], kept["env"], kept["origin"]
        if a.python:
            torch.origin = f"{a.python}, installed here"
        stores.run(result, torch, a.place)
    else:
        import nccl

        result.data["origin"] = kept["origin"]
        nccl.run(result, kept["library"], a.place)
    result.write(f"{common.ROOT}/conformance/results")
    return 0


sys.exit(main())
