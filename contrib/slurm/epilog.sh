#!/bin/sh
# epilog.sh: Slurm's Epilog on each node (as root). Ends with 0 whatever happens, within RDZVSCOPE_EPILOG_SECONDS (50): an Epilog that
# ends with another status drains the node, and one that hangs keeps it from the next job.
#
# After a job that failed, what this node observed goes to the shared folder as evidence: job-ID/NODE.jsonl, whole or not at all. After a job that
# went well it ends the job's own capture and removes it, nothing else. docs/slurm.md tells more; settings stand in /etc/rdzvscope/slurm.env.
observe() {
    node="${SLURMD_NODENAME:-$(uname -n)}"
    to="$RDZVSCOPE_SHARED/job-$SLURM_JOB_ID"
    mkdir -p "$to" || return
    part="$to/.$node.$$"
    log="${RDZVSCOPE_LOG:-}"
    if [ -z "$log" ]; then
        log="$ring.kern"
        dmesg --time-format iso >"$log" || return
    fi
    # The analysis counts for nothing on a training host: lowest priority, the first to go where memory is short.
    echo 1000 >/proc/self/oom_score_adj
    nice -n 19 timeout -k 5 "${RDZVSCOPE_EPILOG_SECONDS:-50}" "${RDZVSCOPE:-rdzvscope}" analyze "$captures" --oom "$node=$log" \
        --memory 128M --format jsonl --exit-zero -o "$part" && mv "$part" "$to/$node.jsonl"
    rm -f "$part" "$ring.kern"
}
main() {
    [ -n "${SLURM_JOB_ID:-}" ] || return
    settings="${RDZVSCOPE_SLURM_ENV:-/etc/rdzvscope/slurm.env}"
    [ ! -r "$settings" ] || . "$settings"
    ring="${RDZVSCOPE_RING:-/var/lib/rdzvscope-capture}/job-$SLURM_JOB_ID"
    captures="${RDZVSCOPE_RING:-/var/lib/rdzvscope-capture}"
    if [ -r "$ring/pid" ]; then
        kill "$(cat "$ring/pid")"
        captures="$ring"
    fi
    # Exit code and signal of the job; "0:0" is a job that went well.
    if [ "${SLURM_JOB_EXIT_CODE2:-0:0}" != 0:0 ] && [ -n "${RDZVSCOPE_SHARED:-}" ]; then
        observe
    fi
    rm -rf "$ring"
}
main >/dev/null 2>&1
exit 0
