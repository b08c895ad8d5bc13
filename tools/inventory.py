#!/usr/bin/env python3
"""What a static binary is made of, from `cargo metadata` and Cargo.lock.

    inventory.py sbom --target TRIPLE [--libpcap VERSION] [--libc VERSION]    CycloneDX 1.5, JSON, on standard output
    inventory.py licences --target TRIPLE [--libpcap-licence FILE]            names, licences and their texts

Listed are the crates that the target's binary is linked from (normal dependencies with the default features; what only
builds or tests it is left out, procedural macros and what they need are marked as excluded from the binary), the C
libraries that crates carry in source, and what is linked from outside: libpcap and the C library.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

# Crates that hold the source of a C library: its name, where its version stands, its licence.
BUNDLED = {
    "libsqlite3-sys": ("sqlite", "sqlite3/sqlite3.h", r'#define SQLITE_VERSION\s+"([^"]+)"', "blessing"),
    "zstd-sys": ("zstd", "zstd/lib/zstd.h", None, "BSD-3-Clause"),
    "liblzma-sys": ("xz", "xz/src/liblzma/api/lzma/version.h", None, "0BSD"),
}


def metadata(target):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def linked(meta):
    """Packages of the binary, sorted by name and version; and which of them are needed by procedural macros alone."""
    packages = {p["id"]: p for p in meta["packages"]}
    nodes = {n["id"]: n for n in meta["resolve"]["nodes"]}
    root = meta["resolve"]["root"]

    def is_macro(i):
        return any("proc-macro" in t["kind"] for t in packages[i]["targets"])

    def reach(through_macros):
        seen, todo = {root}, [root]
        while todo:
            here = todo.pop()
            if is_macro(here) and not through_macros:
                continue
            for d in nodes[here]["deps"]:
                if any(k["kind"] is None for k in d["dep_kinds"]) and d["pkg"] not in seen:
                    seen.add(d["pkg"])
                    todo.append(d["pkg"])
        return seen

    everything, binary = reach(True), {i for i in reach(False) if not is_macro(i)}
    order = sorted(everything, key=lambda i: (packages[i]["name"], packages[i]["version"]))
    depends = {
        i: sorted(
            {d["pkg"] for d in nodes[i]["deps"] if any(k["kind"] is None for k in d["dep_kinds"])} & everything,
            key=lambda j: (packages[j]["name"], packages[j]["version"]),
        )
        for i in order
    }
    return [packages[i] for i in order], binary, depends, packages


def checksums():
    """Of Cargo.lock, by name and version: SHA-256 of the crate file."""
    text = pathlib.Path("Cargo.lock").read_text()
    found = re.findall(r'name = "([^"]+)"\nversion = "([^"]+)"\n(?:source = "[^"]+"\n)(?:checksum = "([0-9a-f]{64})")?', text)
    return {(n, v): c for n, v, c in found}


def folder(package):
    return pathlib.Path(package["manifest_path"]).parent


def bundled(package):
    """The C library that a crate carries, or None."""
    entry = BUNDLED.get(package["name"])
    if entry is None:
        return None
    name, header, pattern, licence = entry
    path = folder(package) / header
    if not path.is_file():
        sys.exit(f"inventory.py: {package['name']}: {header} is not there: where does it keep {name} now?")
    text = path.read_text(errors="replace")
    if pattern:
        version = re.search(pattern, text)
        version = version.group(1) if version else None
    else:
        parts = ("major", "minor", "(?:release|patch)")
        numbers = [re.search(rf"#define (?:zstd|lzma)_version_{part}\s+(\d+)", text, re.I) for part in parts]
        version = ".".join(m.group(1) for m in numbers) if all(numbers) else None
    if version is None:
        sys.exit(f"inventory.py: {package['name']}: no version of {name} in {header}")
    return name, version, licence


def expression(text):
    """A licence as SPDX has it; old manifests write a slash for OR."""
    return re.sub(r"\s*/\s*", " OR ", text) if text else None


def sbom(a):
    meta = metadata(a.target)
    packages, binary, depends, by_id = linked(meta)
    sums = checksums()
    root = by_id[meta["resolve"]["root"]]

    def ref(p):
        return f"pkg:cargo/{p['name']}@{p['version']}"

    components, dependencies = [], []
    extra = {}
    for p in packages:
        dependencies.append({"ref": ref(p), "dependsOn": [ref(by_id[i]) for i in depends[p["id"]]]})
        held = bundled(p)
        if held:
            name, version, licence = held
            extra.setdefault(ref(p), []).append(f"pkg:generic/{name}@{version}")
            dependencies.append({"ref": f"pkg:generic/{name}@{version}", "dependsOn": []})
            components.append({
                "type": "library", "bom-ref": f"pkg:generic/{name}@{version}", "name": name, "version": version,
                "scope": "required", "licenses": [{"license": {"id": licence}}], "purl": f"pkg:generic/{name}@{version}",
                "description": f"C source carried by the crate {p['name']}, compiled in",
            })
        if p["id"] == root["id"]:
            continue
        one = {
            "type": "library", "bom-ref": ref(p), "name": p["name"], "version": p["version"],
            "scope": "required" if p["id"] in binary else "excluded",
        }
        if (p["name"], p["version"]) in sums and sums[(p["name"], p["version"])]:
            one["hashes"] = [{"alg": "SHA-256", "content": sums[(p["name"], p["version"])]}]
        if expression(p["license"]):
            one["licenses"] = [{"expression": expression(p["license"])}]
        one["purl"] = ref(p)
        components.append(one)
    outside = [("libpcap", a.libpcap, "BSD-3-Clause"), ("glibc", a.libc, "LGPL-2.1-or-later")]
    for name, version, licence in outside:
        if version:
            # A version with a revision is Debian's.
            purl = f"pkg:{'deb/debian' if '-' in version else 'generic'}/{name}@{version}"
            extra.setdefault(ref(root), []).append(purl)
            components.append({
                "type": "library", "bom-ref": purl, "name": name, "version": version, "scope": "required",
                "licenses": [{"license": {"id": licence}}], "purl": purl, "description": "linked statically",
            })
            dependencies.append({"ref": purl, "dependsOn": []})
    for d in dependencies:
        d["dependsOn"] = sorted(d["dependsOn"] + extra.get(d["ref"], []))
    components.sort(key=lambda c: (c["name"], c["version"]))
    dependencies.sort(key=lambda d: d["ref"])
    when = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {
            "timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application", "bom-ref": ref(root), "name": root["name"], "version": root["version"],
                "licenses": [{"expression": expression(root["license"])}], "purl": ref(root),
            },
            "properties": [
                {"name": "rdzvscope:target", "value": a.target},
                {"name": "rdzvscope:commit", "value": os.environ.get("RDZVSCOPE_COMMIT", "unknown")},
            ],
        },
        "components": components, "dependencies": dependencies,
    }
    identity = json.dumps(document, sort_keys=True)
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, identity)}"
    json.dump(document, sys.stdout, indent=1)
    print()


def licences(a):
    packages, binary, _, _ = linked(metadata(a.target))
    print("rdzvscope is linked from what follows, each part under the licence named with it.\n")
    texts = {}
    for p in (p for p in packages if p["id"] in binary and p["source"]):
        print(f"{p['name']} {p['version']}: {expression(p['license']) or 'see its text below'}")
        if bundled(p):
            name, version, licence = bundled(p)
            print(f"  with the C library {name} {version}: {licence}")
        names = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|UNLICENSE|COPYRIGHT)", re.I)
        files = sorted(f for f in folder(p).iterdir() if f.is_file() and names.match(f.name))
        if "zstd-sys" == p["name"]:
            files += [f for f in [folder(p) / "zstd" / "LICENSE"] if f.is_file()]
        for f in files:
            # Copies that differ in white space alone are one text.
            text = f.read_text(errors="replace").strip()
            texts.setdefault(" ".join(text.split()), (text, []))[1].append(f"{p['name']} {p['version']}")
    print("libpcap: BSD-3-Clause\nGNU C Library (builds for -gnu targets): LGPL-2.1-or-later\n")
    print("The GNU C Library is used unmodified. `make dist` in the source of rdzvscope links the program again with\n"
          "another version of it. Its licence: https://www.gnu.org/licenses/old-licenses/lgpl-2.1.html\n")
    if a.libpcap_licence:
        text = pathlib.Path(a.libpcap_licence).read_text(errors="replace").strip()
        texts.setdefault(" ".join(text.split()), (text, []))[1].append("libpcap")
    for text, owners in texts.values():
        print("=" * 78 + "\n" + ", ".join(dict.fromkeys(owners)) + "\n" + "=" * 78 + "\n\n" + text + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sbom", "licences"])
    parser.add_argument("--target", required=True)
    parser.add_argument("--libpcap")
    parser.add_argument("--libc")
    parser.add_argument("--libpcap-licence")
    a = parser.parse_args()
    sbom(a) if a.what == "sbom" else licences(a)


if __name__ == "__main__":
    main()
