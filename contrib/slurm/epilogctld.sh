#!/bin/sh
# epilogctld.sh: Slurm's EpilogSlurmctld (on slurmctld's host). After a job that failed, one report of the job from its nodes' evidence.
# It leaves at once: slurmctld waits for it, and ends its process group with it, so that the report is made in a session of its own.
settings="${RDZVSCOPE_SLURM_ENV:-/etc/rdzvscope/slurm.env}"
[ ! -r "$settings" ] || . "$settings"
[ -n "${SLURM_JOB_ID:-}" ] && [ -n "${RDZVSCOPE_SHARED:-}" ] || exit 0
[ "${SLURM_JOB_EXIT_CODE2:-0:0}" != 0:0 ] || exit 0
export RDZVSCOPE_SHARED RDZVSCOPE RDZVSCOPE_WAIT
setsid -f "${0%/*}/job-report.sh" "$SLURM_JOB_ID" "${SLURM_JOB_NODELIST:-}" </dev/null >/dev/null 2>&1
exit 0
