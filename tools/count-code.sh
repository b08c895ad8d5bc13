#!/usr/bin/env bash
# Lines of code in src/: without blank lines, comments and tests (files of tests, and `#[cfg(test)]` modules inside files).
#
#   tools/count-code.sh          the total, and a line for each room
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files 'src/*.rs' | awk '!/(^|\/)tests?(\.rs$|\/)|_tests\.rs$|fixture\.rs$|trial\.rs$|test_support|\/toy\//' | while read -r file; do
    [ -f "$file" ] || continue
    awk -v file="$file" '
        /^#\[cfg\(test\)\]/ { pending = 1; next }
        pending && /^(pub(\([a-z]+\))? )?mod [a-z_]+ \{/ { skipping = 1; pending = 0; next }
        pending { pending = 0; if (/;$/) next; else { inside = 1 } }
        skipping { if (/^}/) skipping = 0; next }
        inside { if (/^}/) inside = 0; next }
        /^[[:space:]]*(\/\/|$)/ { next }
        { lines++ }
        END {
            split(file, part, "/")
            print lines + 0, (part[3] == "" ? "(top)" : part[2])
        }' "$file"
done | awk '{ total += $1; room[$2] += $1 } END { for (r in room) print room[r], r; print total, "TOTAL" }' | sort -rn
