#!/bin/sh
# scale.sh BINARY [DIR] [HOSTS [EVENTS]]: time and memory of `analyze` at a quarter, half and all of a large cluster: HOSTS hosts (10 000),
# EVENTS kills and as many findings (1 000 000). Twice the input should take little more than twice as long.
set -eu
here=$(dirname "$0")
binary=${1:?usage: scale.sh BINARY [DIR] [HOSTS [EVENTS]]}
dir=${2:-target/scale}
hosts=${3:-10000}
events=${4:-1000000}
for share in 4 2 1; do
    d=$dir/$share
    [ -e "$d/cluster.log" ] ||
        python3 "$here/make-large-incident.py" "$d" --hosts $((hosts / share)) --kills $((events / share)) --findings $((events / share))
    python3 - "$binary" "$d" "1/$share" <<'PY'
import resource, subprocess, sys
binary, d, share = sys.argv[1:]
arguments = [binary, "analyze", f"{d}/tap-00000.pcap", "--oom", f"{d}/cluster.log", "--hosts", f"{d}/hosts", "--format", "json", "-o", "/dev/null"]
status = subprocess.run(arguments, stderr=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{share}: {used.ru_utime + used.ru_stime:.1f} s of a processor, {used.ru_maxrss / 1024:.0f} MiB, status {status}", flush=True)
PY
done
