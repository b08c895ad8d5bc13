#!/bin/sh
# Prints which tests were skipped, and why: a test that did not run is not a test that passed.
#
#   tools/skipped.sh FILE     FILE has a line `test: reason` for each, written by tests/common/skip.rs
if [ -s "$1" ]; then
    sort -u "$1" | awk 'END { printf "%d skipped here:\n", NR } { lines[NR] = $0 } END { for (i = 1; i <= NR; i++) print "  " lines[i] }'
else
    echo "No test was skipped."
fi
