#!/bin/sh
# vendor.sh: dist/rdzvscope-VERSION-vendored.tar.gz: the source at this commit with everything that it is built from, for
# machines without a network. In it `cargo build --release --offline` works, and so does
# `LIBPCAP_SOURCE=third-party/libpcap make dist`.
set -eu

export LC_ALL=C
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
name="rdzvscope-$version-vendored"
work="target/vendor"
rm -rf "$work"
mkdir -p "$work/$name" dist
git archive HEAD | tar -x -C "$work/$name"
commit="$(git rev-parse HEAD)"
(
    cd "$work/$name"
    mkdir -p .cargo third-party
    cargo vendor --locked --versioned-dirs vendor >.cargo/config.toml 2>vendor.log || { tail -n 5 vendor.log >&2; exit 1; }
    rm vendor.log
    echo "$SOURCE_DATE_EPOCH" >.source-date-epoch
    # Where there is no git to ask.
    printf '\n[env]\nRDZVSCOPE_COMMIT = "%s"\n' "$commit" >>.cargo/config.toml
)
sh tools/libpcap.sh --source "$work/$name/third-party/libpcap"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$work" -cf - "$name" | gzip -9n >"dist/$name.tar.gz"
rm -rf "$work"
ls -l "dist/$name.tar.gz"
