#!/bin/sh
# Prints what rdzvscope wants to know of this host, and the kernel's lines of OOM kills, as text on standard output.
#
#   usage: sh collect.sh [HOST]      HOST: the name to print instead of `hostname`
#
# It reads only: no network, no files written, no root needed (root sees more: the processes behind sockets, the kernel
# log where it is restricted). Every line is `rdzvscope/1 HOST KEY VALUE`, so lines of many hosts may come mixed in one
# file and behind the labels of pdsh, clush or `srun -l`. `rdzvscope analyze FILE` reads it as facts and log at once.
#
# docs/collect.md has the lines for pdsh, clush, Ansible, kubectl and srun.

set -u
LC_ALL=C
export LC_ALL
PATH=$PATH:/usr/sbin:/sbin

host=${1:-$(hostname 2>/dev/null || uname -n)}
host=$(printf '%s' "$host" | tr -cd 'A-Za-z0-9._-')

say() {
    printf 'rdzvscope/1 %s %s\n' "$host" "$*"
}

# The clock and the time since boot, read as close together as a shell can.
clock=$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)
read -r uptime _ </proc/uptime 2>/dev/null || uptime=
seconds=$(date -u +%s.%N)

case $clock in
*N*) clock=$(date -u +%Y-%m-%dT%H:%M:%SZ) seconds=$(date -u +%s) ;; # a date(1) without nanoseconds
esac
say now "$clock"

zone=$(date +%z)
say zone "$zone"

if [ -n "$uptime" ]; then
    say boot_time "$(awk -v now="$seconds" -v up="$uptime" 'BEGIN { printf "%.3f", now - up }')"
    # /proc/uptime counts the time asleep, the kernel log does not: the difference is the time asleep.
    monotonic=$(awk '/^now at [0-9]+ nsecs/ { printf "%.3f", $3 / 1e9; exit }' /proc/timer_list 2>/dev/null)
    if [ -z "$monotonic" ] && command -v python3 >/dev/null 2>&1; then
        slept=$(python3 -c 'import time
print("%.3f" % max(0, time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)))' 2>/dev/null)
    else
        slept=${monotonic:+$(awk -v up="$uptime" -v mono="$monotonic" \
            'BEGIN { d = up - mono; printf "%.3f", (d < 1 ? 0 : d) }')}
    fi
    [ -z "${slept:-}" ] || say suspend_seconds "$slept"
fi
if read -r id 2>/dev/null </proc/sys/kernel/random/boot_id; then say boot_id "$id"; fi
say kernel_release "$(uname -r)"

if command -v ip >/dev/null 2>&1; then
    ip -o addr show 2>/dev/null | awk '$3 == "inet" || $3 == "inet6" { print $4, $2 }'
else
    hostname -I 2>/dev/null | tr ' ' '\n' | awk 'NF { print $1, "-" }'
fi | while read -r address interface; do
    case $address in
    127.* | ::1/* | ::1 | fe80:*) ;;
    *) say address "$address $interface" ;;
    esac
done

awk '/^MemTotal:/ { printf "%.0f\n", $2 * 1024 }' /proc/meminfo 2>/dev/null | while read -r bytes; do
    say memory_total_bytes "$bytes"
done
for name in overcommit_memory overcommit_ratio panic_on_oom oom_kill_allocating_task; do
    if read -r value 2>/dev/null <"/proc/sys/vm/$name"; then say "$name" "$value"; fi
done

# The version of PyTorch that a process runs, from the paths of the libraries that it has mapped.
torch_of() {
    lib=$(awk '/libtorch_cpu\.so|libtorch\.so|libc10\.so/ { print $6; exit }' "/proc/$1/maps" 2>/dev/null)
    [ -n "$lib" ] || return 0
    dir=${lib%/lib/*}
    # In a container the path is that of its own root.
    for file in "/proc/$1/root$dir/version.py" "$dir/version.py"; do
        version=$(awk -F"'" '/^__version__/ { print $2; exit }' "$file" 2>/dev/null)
        if [ -n "$version" ]; then
            say torch "$1 $version"
            return 0
        fi
    done
}

if command -v ss >/dev/null 2>&1; then
    ss -H -l -n -t -p 2>/dev/null | awk '
        { pid = "-"; name = "-" }
        match($0, /pid=[0-9]+/) { pid = substr($0, RSTART + 4, RLENGTH - 4) }
        match($0, /\(\("[^"]*"/) { name = substr($0, RSTART + 3, RLENGTH - 4); gsub(/[^A-Za-z0-9._-]/, "_", name) }
        { print $4, pid, name }'
fi | {
    seen=' '
    while read -r endpoint pid name; do
        say listen "$endpoint $pid $name"
        case $seen in
        *" $pid "*) ;;
        *)
            seen="$seen$pid "
            [ "$pid" = - ] || torch_of "$pid"
            ;;
        esac
    done
}

# Counters of kills tell of those whose lines the kernel log has lost.
awk '$1 == "oom_kill" { print $2 }' /proc/vmstat 2>/dev/null | while read -r kills; do say oom_kills "$kills"; done

# The kernel's lines, raw: seconds since boot need no zone.
oom='oom-kill:|invoked oom-killer|Killed process|Kill process|oom_reaper: reaped|[Oo]ut of memory|pages RAM$|Total swap = |Task in .* killed as a result'
if log=$(dmesg 2>/dev/null) && [ -n "$log" ]; then
    printf '%s\n' "$log"
else
    # No right to read the ring: the journal may have it (stamped with an offset).
    journalctl -k -b --no-pager -o short-iso-precise 2>/dev/null
fi | grep -E "$oom" | tail -n 4000 | while IFS= read -r line; do
    printf 'rdzvscope/1 %s kernel %s\n' "$host" "$line"
done
say end 1
