#!/bin/sh
# libpcap.sh TRIPLE DIR: a static libpcap of Debian's source for that target, in DIR/lib.
# libpcap.sh --source DIR: that source, unpacked.
#
# It is configured without what pulls in other libraries (D-Bus, libnl, RDMA, USB, Bluetooth): interfaces of the kernel
# are what `live` listens to. The source comes from `apt-get source`, through a configuration of its own: the system's
# lists of sources stay as they are. LIBPCAP_SOURCE=DIRECTORY names an unpacked source instead, where there is no network.
set -eu

triple="$1"
mkdir -p "$2"
out="$(cd "$2" && pwd)"
[ ! -e "$out/lib/libpcap.a" ] || [ ! -e "$out/version" ] || exit 0

work="$out/work"
rm -rf "$work"
mkdir -p "$work"

fetch() {
    apt="$work/apt"
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/sources.d"
    # The system's own sources, with deb-src in place of deb.
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -e "$file" ] && sed 's/^Types:.*/Types: deb-src/' "$file" >"$apt/sources.d/$(basename "$file")"
    done
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n 's/^deb /deb-src /p' >"$apt/sources.list"
    cat >"$apt/apt.conf" <<END
Dir::State::Lists "$apt/lists";
Dir::Cache "$apt/cache";
Dir::Etc::SourceList "$apt/sources.list";
Dir::Etc::SourceParts "$apt/sources.d";
APT::Sandbox::User "";
END
    export APT_CONFIG="$apt/apt.conf"
    apt-get update -qq
    (cd "$work" && apt-get source -qq libpcap)
}

if [ -n "${LIBPCAP_SOURCE:-}" ]; then
    cp -r "$LIBPCAP_SOURCE" "$work/libpcap-source"
elif command -v apt-get >/dev/null 2>&1; then
    fetch
else
    echo "libpcap.sh: no apt-get here: unpack libpcap's source and name it: LIBPCAP_SOURCE=DIRECTORY make dist" >&2
    exit 2
fi

source="$(find "$work" -maxdepth 1 -type d -name 'libpcap-*' | head -n 1)"
if [ "$triple" = --source ]; then
    mv "$source"/* "$out/"
    rm -rf "$work"
    exit 0
fi
version="$(cat "$source/VERSION")"
host=""
case "$triple" in
"$(uname -m)"-*-gnu) cc="${CC:-cc}" ;;
*-musl) cc="${CC:-musl-gcc}" host="--host=$triple" ;;
aarch64-unknown-linux-gnu) cc="${CC:-aarch64-linux-gnu-gcc}" host="--host=aarch64-linux-gnu" ;;
*) cc="${CC:-cc}" host="--host=$triple" ;;
esac
(
    cd "$source"
    # shellcheck disable=SC2086
    CC="$cc" CFLAGS="-O2 -fPIC -ffile-prefix-map=$source=libpcap" ./configure -q $host --prefix="$out" --disable-shared \
        --disable-dbus --without-libnl --disable-rdma --disable-usb --disable-bluetooth --without-dag --without-septel \
        --without-snf --without-turbocap --without-dpdk --disable-netmap >configure.out 2>&1 || { tail -n 20 configure.out >&2; exit 1; }
    make -s libpcap.a >make.out 2>&1 || { tail -n 20 make.out >&2; exit 1; }
)
mkdir -p "$out/lib" "$out/share"
cp "$source/libpcap.a" "$out/lib/"
cp "$source/LICENSE" "$out/share/LICENSE.libpcap"
# The Debian version, where it is Debian's source.
if [ -e "$source/debian/changelog" ]; then
    version="$(sed -n '1s/.*(\(.*\)).*/\1/p' "$source/debian/changelog")"
fi
echo "$version" >"$out/version"
rm -rf "$work"
