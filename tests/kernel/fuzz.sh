#!/bin/sh
# fuzz.sh RDZVSCOPE CONNECTIONS [SEED]: so many connections of a hostile sender to this kernel, in portions of 5,000, IPv4 and
# IPv6 in turn; each is held against what recv() returned. Ends with 1 where any differs, with 77 where namespaces are not to
# be had. A portion that differs stays in target/kernel-fuzz, with the connections that do.
set -eu

program="$1"
wanted="$2"
seed="${3:-1}"
here="$(dirname "$0")"
place="target/kernel-fuzz"
mkdir -p "$place"
done=0
status=0
while [ "$done" -lt "$wanted" ]; do
    for family in 4 6; do
        name="$place/$seed-$family"
        python3 "$here/inject.py" --count 5000 --seed "$seed" --family "$family" "$name.pcap" "$name.json"
        if python3 "$here/compare.py" "$program" "$name.pcap" "$name.json" >"$name.txt"; then
            rm -f "$name.pcap" "$name.json" "$name.txt"
        else
            status=1
            echo "seed $seed, IPv$family: $(tail -n 1 "$name.txt")"
        fi
    done
    done=$((done + 10000))
    seed=$((seed + 1))
done
echo "$done connections held against this kernel ($(uname -r))"
exit $status
