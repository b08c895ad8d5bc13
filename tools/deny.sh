#!/bin/sh
# deny.sh: licences, versions and sources of dependencies (deny.toml), and advisories where their database can be had.
set -eu

command -v cargo-deny >/dev/null 2>&1 || {
    echo "NOT TRIED  cargo deny: not installed (cargo install --locked cargo-deny)"
    exit 0
}
cargo deny --locked --log-level error check --hide-inclusion-graph licenses bans sources
out="$(mktemp)"
trap 'rm -f "$out"' EXIT
if cargo deny --locked check --hide-inclusion-graph advisories >"$out" 2>&1; then
    tail -n 1 "$out"
elif grep -q 'failed to fetch advisory database' "$out"; then
    echo "NOT TRIED  advisories: their database cannot be fetched from here"
else
    cat "$out" >&2
    exit 1
fi
