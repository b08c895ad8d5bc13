#!/bin/sh
# dist.sh [TRIPLE]: what users install, in dist/: a static tarball, a .deb, an .rpm, an SBOM, sha256sums.
#
# Tried: x86_64-unknown-linux-gnu. Prepared and untried, for want of their standard libraries and C compilers:
# x86_64-unknown-linux-musl (musl-tools), aarch64-unknown-linux-gnu (gcc-aarch64-linux-gnu, libc6-dev-arm64-cross),
# aarch64-unknown-linux-musl; each after `rustup target add TRIPLE`.
#
# The same commit, compiler and packages should give the same bytes: times are the commit's (SOURCE_DATE_EPOCH), paths
# are mapped away, and packing adds nothing of its own.
set -eu

triple="${1:-x86_64-unknown-linux-gnu}"
case $triple in
x86_64-*) arch=amd64 machine=x86_64 ;;
aarch64-*) arch=arm64 machine=aarch64 ;;
*)
    echo "dist.sh: $triple is not prepared: x86_64 and aarch64, -unknown-linux-gnu and -unknown-linux-musl are" >&2
    exit 2
    ;;
esac

export LC_ALL=C TZ=UTC
umask 022
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
commit="$(git rev-parse HEAD 2>/dev/null || true)"
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || cat .source-date-epoch 2>/dev/null || date +%s)}"
export SOURCE_DATE_EPOCH
[ -z "$commit" ] || export RDZVSCOPE_COMMIT="$commit"
here="$(pwd)"
cargo_home="${CARGO_HOME:-$HOME/.cargo}"
static="target/static/$triple"
dist="dist"
name="rdzvscope-$version-$triple"

sh tools/libpcap.sh "$triple" "$static/libpcap"

# Static, with the C library in it. Only what the target runs is built so: --target keeps build scripts apart.
maps="-ffile-prefix-map=$here=. -ffile-prefix-map=$cargo_home=cargo"
upper="$(echo "$triple" | tr 'a-z-' 'A-Z_')"
case $triple in
*-musl) export "CC_$(echo "$triple" | tr - _)=${CC:-musl-gcc}" "CARGO_TARGET_${upper}_LINKER=${CC:-musl-gcc}" ;;
"$(uname -m)"-*) ;;
*) export "CC_$(echo "$triple" | tr - _)=${CC:-aarch64-linux-gnu-gcc}" "CARGO_TARGET_${upper}_LINKER=${CC:-aarch64-linux-gnu-gcc}" ;;
esac
export CFLAGS="${CFLAGS:-} $maps"
export RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$here=. --remap-path-prefix=$cargo_home=cargo"
export LIBPCAP_LIBDIR="$here/$static/libpcap/lib"
LIBPCAP_VER="$(sed 's/^[0-9]*://; s/[-+~].*//' "$static/libpcap/version")"
export LIBPCAP_VER
CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_STRIP=debuginfo \
    "${CARGO:-cargo}" build --release --locked --target "$triple" --bin rdzvscope
binary="target/$triple/release/rdzvscope"

if command -v readelf >/dev/null 2>&1 && readelf -d "$binary" | grep -q NEEDED; then
    echo "dist.sh: $binary needs shared libraries:" >&2
    readelf -d "$binary" | grep NEEDED >&2
    exit 1
fi
# Man pages and completions are printed by a binary that runs here.
case $triple in
"$(uname -m)"-*) RDZVSCOPE="$binary" ;;
*)
    (unset RUSTFLAGS LIBPCAP_LIBDIR LIBPCAP_VER CFLAGS; "${CARGO:-cargo}" build --release --locked)
    RDZVSCOPE="target/release/rdzvscope"
    ;;
esac
export RDZVSCOPE

rm -rf "$static/stage" "$static/root"
mkdir -p "$dist" "$static/stage/$name"
glibc=""
case $triple in
*-gnu) glibc="$(getconf GNU_LIBC_VERSION 2>/dev/null | sed 's/.* //')" ;;
esac
python3 tools/inventory.py sbom --target "$triple" --libpcap "$(cat "$static/libpcap/version")" --libc "$glibc" \
    >"$dist/$name.cdx.json"
python3 tools/inventory.py licences --target "$triple" --libpcap-licence "$static/libpcap/share/LICENSE.libpcap" \
    >"$static/THIRD-PARTY.txt"

# Everything as it is installed, for packages; the tarball has the same in folders that need no installation.
sh tools/stage.sh "$binary" "$static/root" /usr
doc="$static/root/usr/share/doc/rdzvscope"
cp "$static/THIRD-PARTY.txt" "$doc/THIRD-PARTY.txt"
cp "$dist/$name.cdx.json" "$doc/sbom.cdx.json"
cp packaging/copyright "$doc/copyright"

tarball="$static/stage/$name"
cp "$binary" "$tarball/rdzvscope"
cp -r "$static/root/usr/share/man" "$tarball/man"
mkdir -p "$tarball/completions"
cp "$static/root/usr/share/bash-completion/completions/rdzvscope" "$tarball/completions/rdzvscope.bash"
cp "$static/root/usr/share/zsh/site-functions/_rdzvscope" "$static/root/usr/share/fish/vendor_completions.d/rdzvscope.fish" \
    "$tarball/completions/"
cp -r contrib docs README.md README.zh-CN.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$tarball/"
[ ! -e SECURITY.md ] || cp SECURITY.md "$tarball/"
cp "$static/THIRD-PARTY.txt" "$tarball/"
cp "$dist/$name.cdx.json" "$tarball/sbom.cdx.json"
pack() { # pack DIRECTORY NAME: a tar of DIRECTORY/NAME that depends on nothing but its content
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r,go-w \
        -C "$1" -cf - "$2" | gzip -9n
}
pack "$static/stage" "$name" >"$dist/$name.tar.gz"

find "$static/root" -name '*.1' -exec gzip -9n {} +
find "$static/root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
sh tools/package.sh "$static/root" "$version" "$arch" "$machine" "$dist"

(cd "$dist" && sha256sum ./*.tar.gz ./*.deb ./*.rpm ./*.cdx.json 2>/dev/null | sed 's, \./, ,' >SHA256SUMS)
ls -l "$dist"
