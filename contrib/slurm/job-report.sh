#!/bin/sh
# job-report.sh JOB NODELIST: waits for the evidence of the job's nodes (RDZVSCOPE_WAIT seconds, 120), then writes report.md beside it. Evidence of
# jobs that failed within the same quarter of an hour is merged in: what killed several jobs at once is one incident.
set -u
job="$1"
folder="${RDZVSCOPE_SHARED:?}/job-$job"
nodes=$(scontrol show hostnames "${2:-}" 2>/dev/null | wc -l)
until=$(($(date +%s) + ${RDZVSCOPE_WAIT:-120}))
while [ "$(find "$folder" -maxdepth 1 -name '*.jsonl' 2>/dev/null | wc -l)" -lt "$nodes" ] && [ "$(date +%s)" -lt "$until" ]; do
    sleep 2
done
[ -d "$folder" ] || exit 0
scontrol show node >"$folder/nodes.txt" 2>/dev/null || rm -f "$folder/nodes.txt"
set -- --format markdown --exit-zero -o "$folder/.report.part"
[ ! -s "$folder/nodes.txt" ] || set -- --hosts "$folder/nodes.txt" "$@"
find "$RDZVSCOPE_SHARED" -name '*.jsonl' ! -name '.*' -mmin -15 -print0 |
    xargs -0 -r nice "${RDZVSCOPE:-rdzvscope}" merge "$@" 2>"$folder/report.err" && mv "$folder/.report.part" "$folder/report.md"
exit 0
