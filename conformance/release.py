"""A release as its index has it: installed into an environment of its own, without a GPU and without what only a GPU needs."""
import glob
import os
import re
import shutil
import subprocess
import sys

PURE = ["typing_extensions", "filelock", "sympy", "networkx", "jinja2", "fsspec", "setuptools<81", "numpy<3"]
LIMIT = 8 << 30  # Bytes that one release may take on disk.


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def pythons():
    """Interpreters that are here, newest first, as (version, path)."""
    found = {}
    for path in glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python")) + [
        shutil.which(f"python3.{minor}") or "" for minor in range(6, 20)
    ] + [sys.executable]:
        if path and os.access(path, os.X_OK):
            version = output(path, "-c", "import sys; print(*sys.version_info[:2])").split()
            if len(version) == 2:
                found.setdefault(tuple(map(int, version)), path)
    return sorted(found.items(), reverse=True)


def stand_ins(libraries, place):
    """Empty libraries in the place of those of the GPU that `libraries` (a folder of shared objects) were linked with.

    Loading needs each by its name, with the versions and symbols that are asked of it; nothing here ever calls one.
    """
    os.makedirs(place, exist_ok=True)
    objects = [p for p in glob.glob(f"{libraries}/*.so*") if os.path.isfile(p)]
    cache = output("/sbin/ldconfig", "-p")
    needed, defined, versions, wanted = set(), set(), {}, {}
    for path in objects:
        needed.update(re.findall(r"\(NEEDED\).*\[(.*?)\]", output("readelf", "-d", path)))
        file = None
        for line in output("readelf", "-VW", path).splitlines():
            if m := re.search(r"Version: \d+\s+File: (\S+)", line):
                file = m.group(1)
            elif (m := re.search(r"Name: (\S+)\s+Flags:", line)) and file:
                versions.setdefault(file, set()).add(m.group(1))
        for line in output("nm", "-D", path).splitlines():
            words = line.split()
            if len(words) == 2 and words[0] in "Uw":
                name, _, version = words[1].partition("@")
                wanted.setdefault(version.lstrip("@"), set()).add(name)
            elif len(words) == 3:
                defined.add(words[2].split("@")[0])
    have = {os.path.basename(p) for p in objects}
    missing = sorted(n for n in needed - have if f"\t{n} " not in cache and not n.startswith("ld-linux"))
    loose = {n for n in wanted.get("", ()) if n not in defined and re.match(r"(cu|nv|nccl|__cuda)", n)}
    for i, name in enumerate(missing):
        symbols, script = set(loose) if i == 0 else set(), ""
        for version in sorted(versions.get(name, ())):
            symbols |= wanted.get(version, set())
            script += f"{version} {{ global: " + " ".join(f"{s};" for s in sorted(wanted.get(version, ()))) + " };\n"
        with open(f"{place}/stand-in.c", "w") as c, open(f"{place}/stand-in.map", "w") as m:
            c.write("".join(f"int {s}(void) {{ return 100; }}\n" for s in sorted(symbols)) or "int none;\n")
            m.write(script)
        flags = [f"-Wl,--version-script={place}/stand-in.map"] if script else []
        subprocess.check_call(["cc", "-shared", "-fPIC", "-w", "-fno-builtin", "-o", f"{place}/{name}", f"-Wl,-soname,{name}",
                               f"{place}/stand-in.c", *flags])
    return missing


def size(folder):
    return int(output("du", "-sb", folder).split()[0])


class Torch:
    """A PyTorch: its interpreter and the environment that it runs in."""

    def __init__(self, version, place, python=None):
        self.version, self.python, self.env, self.origin = version, python, dict(os.environ), "installed"
        self.env.update(TORCH_CPP_LOG_LEVEL="FATAL", OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore", GLOO_SOCKET_IFNAME="lo")
        if python is None:
            self.install(place)
        self.full = output(self.python, "-c", "import torch; print(torch.__version__)") if python else version
        self.full = self.full.strip()

    def install(self, place):
        """The wheel for the newest interpreter here that has one."""
        for (major, minor), python in pythons():
            if not re.search(rf"[ ,(]{re.escape(self.version)}[,)\n ]", output(python, "-m", "pip", "index", "versions", "torch")):
                continue
            subprocess.check_call([python, "-m", "venv", f"{place}/venv"])
            self.python = f"{place}/venv/bin/python"
            pip = [self.python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-cache-dir"]
            subprocess.check_call([*pip, "--no-deps", f"torch=={self.version}"])
            subprocess.check_call([*pip, *([p if (major, minor) >= (3, 8) else p.split("<")[0] for p in PURE])])
            break
        else:
            raise SystemExit(f"conformance: no interpreter here has a wheel of torch {self.version}")
        libraries = glob.glob(f"{place}/venv/lib/python*/site-packages/torch/lib")[0]
        left_out = stand_ins(libraries, f"{place}/stand-ins")
        self.env["LD_LIBRARY_PATH"] = f"{place}/stand-ins"
        self.origin = f"wheel for CPython {major}.{minor}, {os.uname().machine}" + (
            f"; {len(left_out)} libraries of the GPU replaced by empty ones" if left_out else "")
        if size(place) > LIMIT:
            raise SystemExit(f"conformance: torch {self.version} takes {size(place)} bytes, more than {LIMIT}")


def nccl_library(version, place):
    """libnccl.so.2 of a release: downloaded from whichever of the index's three packages has it."""
    for package in ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"):
        if not re.search(rf"[ ,(]{re.escape(version)}[,)\n ]", output(sys.executable, "-m", "pip", "index", "versions", package)):
            continue
        subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-cache-dir",
                               "--no-deps", "--target", f"{place}/{package}", f"{package}=={version}"])
        return glob.glob(f"{place}/{package}/nvidia/nccl/lib/libnccl.so.2")[0], package
    raise SystemExit(f"conformance: no package of the index has NCCL {version}")


def newest(package):
    """The newest release that the index offers to the newest interpreter here."""
    listed = output(pythons()[0][1], "-m", "pip", "index", "versions", package)
    if not (m := re.match(r"\S+ \(([^)]+)\)", listed)):
        raise SystemExit(f"conformance: the index does not answer for {package}")
    return m.group(1)
