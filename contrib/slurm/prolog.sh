#!/bin/sh
# prolog.sh: Slurm's Prolog on each node (as root). Ends with 0 whatever happens, within a second: a Prolog that fails drains the node.
#
# Where captures run always (rdzvscope-capture.service) it is not needed. Elsewhere it starts one for the job: what opens and ends connections,
# and the first bytes; 64 files of 50 MB at most. docs/slurm.md tells more; settings stand in /etc/rdzvscope/slurm.env.
main() {
    [ -n "${SLURM_JOB_ID:-}" ] || return
    settings="${RDZVSCOPE_SLURM_ENV:-/etc/rdzvscope/slurm.env}"
    [ ! -r "$settings" ] || . "$settings"
    [ "${RDZVSCOPE_PER_JOB:-no}" = yes ] || return
    ring="${RDZVSCOPE_RING:-/var/lib/rdzvscope-capture}/job-$SLURM_JOB_ID"
    mkdir -p -m 750 "$ring" || return
    command -v "${TCPDUMP:-tcpdump}" >/dev/null || return
    # A process of its own, in no control group of the job: else it would end with the job's first process, or count as its memory.
    setsid "${TCPDUMP:-tcpdump}" -i "${RDZVSCOPE_INTERFACE:-any}" -n -U --immediate-mode -Z root -s 256 -C 50 -W 64 \
        -w "$ring/capture.pcap" "${RDZVSCOPE_FILTER:-tcp}" </dev/null >"$ring/tcpdump.log" 2>&1 &
    echo $! >"$ring/pid"
}
main >/dev/null 2>&1
exit 0
