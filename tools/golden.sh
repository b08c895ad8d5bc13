#!/usr/bin/env bash
# The golden record: what every reading command prints, over all captures and logs, as hashes.
#
#   tools/golden.sh BINARY RECORD [DIRECTORY...]          writes RECORD: a line `sha256 status command` for each run
#   tools/golden.sh --compare OLD NEW                     the commands whose output differs, one a line; status 1 if any
#   tools/golden.sh --show BINARY COMMAND                 runs one line of a record again and prints its output
#
# Directories default to testdata/. A refactoring leaves the record byte for byte equal; a change of behaviour is
# listed by --compare and then looked at with --show. The version and commit of the tool are left out of the hashes.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C.UTF-8 TZ=UTC COLUMNS=100 NO_COLOR=1 RDZVSCOPE_GOLDEN=1

normal() { # outputs without what differs between two builds and two places
    sed -E -e 's/"commit":( ?)"[0-9a-f]*(-dirty)?"/"commit":\1""/g' -e "s#$scratch#SCRATCH#g" \
        -e 's/rdzvscope [0-9]+\.[0-9]+\.[0-9]+( \([0-9a-f]*(-dirty)?\))?/rdzvscope/g'
}
one() { # one BINARY COMMAND: a line of the record
    local binary="$1" command="$2" status=0 hash
    rdzvscope() { "$binary" "$@"; }
    hash=$({ eval "rdzvscope $command" 2>&1 </dev/null || echo "status $?"; } | normal | sha256sum | cut -c1-32)
    printf '%s\t%s\n' "$hash" "$command"
}

case "${1:-}" in
--compare)
    join -t "$(printf '\t')" -1 2 -2 2 -a 1 -a 2 -e - -o 0,1.1,2.1 <(sort -t "$(printf '\t')" -k2 "$2") \
        <(sort -t "$(printf '\t')" -k2 "$3") | awk -F '\t' '$2 != $3 { print $1; n++ } END { exit n > 0 }'
    exit
    ;;
--show)
    scratch=/tmp/rdzvscope-golden
    binary="$2"
    rdzvscope() { "$binary" "$@"; }
    mkdir -p "$scratch"
    eval "rdzvscope $3" 2>&1 </dev/null | normal
    exit
    ;;
--one)
    scratch="$4"
    one "$2" "$3"
    exit
    ;;
esac

binary=$(realpath "$1")
record="$2"
shift 2
[ $# -gt 0 ] || set -- testdata
# A fixed place, so that paths in outputs have one length.
scratch=/tmp/rdzvscope-golden
rm -rf "$scratch"
mkdir -p "$scratch"
trap 'rm -rf "$scratch"' EXIT

commands() {
    local file dir
    find "$@" -type f \( -name '*.pcap' -o -name '*.pcapng' -o -name '*.pcap.*' -o -name '*.pcapng.*' \) | sort | while read -r file; do
        for format in table json jsonl csv markdown html; do echo "analyze '$file' --format $format"; done
        echo "messages '$file'"
        echo "messages '$file' --format jsonl"
        echo "messages '$file' --undecoded"
        echo "streams '$file'"
        echo "streams '$file' --format jsonl"
    done
    # Whole folders, with their logs and hosts: incidents, sets of captures, evidence, cases.
    find "$@" -type d | sort | while read -r dir; do
        case "$dir" in */logs) continue ;; esac
        ls "$dir"/*.pcap >/dev/null 2>&1 || continue
        local more="" short="${dir//\//_}"
        [ -d "$dir/logs" ] && more=" --oom '$dir/logs'"
        if [ -f "$dir/hosts" ]; then more="$more --hosts '$dir/hosts'"; elif [ -f testdata/hosts ]; then more="$more --hosts testdata/hosts"; fi
        for format in table json csv markdown html; do echo "analyze '$dir'$more --format $format"; done
        echo "analyze '$dir'$more --format jsonl > $scratch/$short.jsonl && rdzvscope merge $scratch/$short.jsonl --format json"
        echo "watch '$dir' --once --case $scratch/$short.db$more --exit-zero > /dev/null && rdzvscope report --case $scratch/$short.db --format json"
    done
    find "$@" -type f \( -name '*.dmesg*' -o -name '*.syslog' -o -name '*.log' -o -path '*/logs/*' \) | sort | while read -r file; do
        echo "oom '$file'"
        echo "oom '$file' --format json"
    done
    echo "prescan"
    echo "prescan --scanner nmap-sV --format jsonl"
    echo "prescan --intensity 9 --format json"
    echo "prescan --payload 0300002a25e000000000 --format jsonl"
    "$binary" explain 2>/dev/null | awk '/^ *[a-z]+-[a-z-]+/ { print "explain " $1 }'
}

commands "$@" | xargs -d '\n' -P "$(nproc)" -I{} bash "$0" --one "$binary" {} "$scratch" | sort -t "$(printf '\t')" -k2 >"$record"
echo "$(wc -l <"$record") outputs recorded in $record"
