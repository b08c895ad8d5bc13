#!/bin/sh
# bench.sh BINARY [DIR]: ratios of CPU time against other readers of the same captures.
#
# Makes a capture of large packets (1 GiB) and one of small ones (256 MiB) in DIR (a temporary folder by default), runs
# each program in turn, several rounds, and prints the median of each one's user and system time and the ratio to ours.
set -eu
bin="$1"
dir="${2:-$(mktemp -d)}"
rounds="${ROUNDS:-5}"
here="$(dirname "$0")"

[ -e "$dir/large.pcap" ] || python3 "$here/make-large-capture.py" testdata/incident-torch1.13/node-a.pcap "$dir/large.pcap" 1024
[ -e "$dir/small.pcap" ] || python3 "$here/make-large-capture.py" testdata/incident-torch1.13/node-a.pcap "$dir/small.pcap" 256 10

exec python3 "$here/bench.py" "$rounds" "$bin" "$dir"
