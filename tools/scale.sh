#!/bin/sh
# scale.sh BINARY [DIR] [HOSTS [EVENTS]]: time and memory at scale.
#
# First of `analyze` at a quarter, half and all of a large cluster: HOSTS hosts (10 000), EVENTS kills and as many findings (1 000 000); twice the
# input should take little more than twice as long. Then of fleets' evidence: host-days of 20 000 ordinary connections merged; HOSTS hosts in one night
# with one scan over all of them merged; and a new segment taken into a case that holds HOSTS/10 hosts.
set -eu
here=$(dirname "$0")
binary=${1:?usage: scale.sh BINARY [DIR] [HOSTS [EVENTS]]}
dir=${2:-target/scale}
hosts=${3:-10000}
events=${4:-1000000}
# measure WHAT COMMAND...: seconds, seconds of a processor, memory.
measure() {
    python3 - "$@" <<'PY'
import resource, subprocess, sys, time
begun = time.monotonic()
status = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{sys.argv[1]}: {time.monotonic() - begun:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of a processor, {used.ru_maxrss / 1024:.0f} MiB, status {status}", flush=True)
PY
}
for share in 4 2 1; do
    d=$dir/$share
    [ -e "$d/cluster.log" ] ||
        python3 "$here/make-large-incident.py" "$d" --hosts $((hosts / share)) --kills $((events / share)) --findings $((events / share))
    measure "analyze 1/$share" "$binary" analyze "$d/tap-00000.pcap" --oom "$d/cluster.log" --hosts "$d/hosts" --format json -o /dev/null
done
many=$((hosts / 10))
make() {
    name=$1
    shift
    [ -d "$dir/$name" ] || { python3 "$here/make-fleet.py" "$binary" "$dir/$name.part" "$@" && mv "$dir/$name.part" "$dir/$name"; }
}
make days --hosts "$many" --connections 20000 --killed 3
make days-lean --hosts "$many" --connections 20000 --killed 3 --lean
make night --hosts "$hosts" --connections 50 --killed "$hosts"
make one --hosts 1 --first "$many" --connections 50 --killed $((many + 1))
measure "merge of $many host-days" "$binary" merge "$dir/days" --format json -o /dev/null
measure "merge of $many lean host-days" "$binary" merge "$dir/days-lean" --format json -o /dev/null
measure "merge of a night of $hosts hosts" "$binary" merge "$dir/night" --format json -o /dev/null
# The time from a segment's arrival until what it tells is told, by a process that runs.
python3 "$here/follow-figures.py" "$binary" "$dir/days-lean" "$dir/one"
