#!/usr/bin/env bash
# dist-smoke.sh [DIR]: tries what `make dist` left in DIR (dist), as those do who install it.
#
#   1. the tarball in a root that holds nothing else: analyze on the recorded incident, live on loopback
#   2. the .rpm in an empty root
#   3. the .deb in a new Debian: live on loopback as the package's user, man pages, completions, removal
#
# Needs root, for chroot and network namespaces. The new Debian comes from debootstrap and is kept for the next time in
# $RDZVSCOPE_CACHE (~/.cache/rdzvscope). What cannot be tried here is said, in a line that begins with NOT TRIED.
set -euo pipefail
cd "$(dirname "$0")/.."

dist="${1:-dist}"
cache="${RDZVSCOPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rdzvscope}"
suite=bookworm

fail() { echo "dist-smoke: $*" >&2; exit 1; }
ok() { echo "ok         $*"; }
skip() { echo "NOT TRIED  $*"; }

[ "$(id -u)" = 0 ] || { echo "dist-smoke: needs root, for chroot and network namespaces: sudo make dist-smoke" >&2; exit 2; }
triple="$(uname -m)-unknown-linux-gnu"
tarball="$(ls "$dist"/rdzvscope-*-"$triple".tar.gz 2>/dev/null | head -n 1)" || true
[ -n "$tarball" ] || { echo "dist-smoke: no tarball for $triple in $dist: make dist" >&2; exit 2; }
name="$(basename "$tarball" .tar.gz)"

work="$(mktemp -d)"
children=()
cleanup() {
    for pid in "${children[@]}"; do kill "$pid" 2>/dev/null || true; done
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT

(cd "$dist" && sha256sum --quiet -c SHA256SUMS) || fail "SHA256SUMS does not fit"
ok "sha256sums"

# bare ROOT COMMAND...: in ROOT, with no environment.
bare() {
    local root="$1"
    shift
    env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/ chroot "$root" "$@"
}

# live ROOT PROGRAM USER: whether `live` in ROOT sees a probe on the loopback of a network namespace of its own. The
# server that is probed is a decoy: nothing is allocated.
live() {
    local root="$1" program="$2" user="$3"
    command -v ip >/dev/null 2>&1 || { skip "live on loopback: no ip command (iproute2) to bring up a namespace's loopback"; return; }
    export -f bare
    unshare --net bash -c '
        set -u
        ip link set lo up
        bare "$1" "$2" decoy --as tcpstore:1.13 --listen 127.0.0.1:29500 --for 20s --quiet >/dev/null 2>&1 &
        decoy=$!
        bare "$1" "$2" live -i lo --user "$3" --duration 8 >"$4/live.out" 2>"$4/live.err" &
        live=$!
        for _ in $(seq 50); do grep -q "listening to" "$4/live.err" && break; sleep 0.1; done
        exec 3<>/dev/tcp/127.0.0.1/29500
        # An RDP greeting, as scanners send it.
        printf "\003\000\000\013\006\340\000\000\000\000\000" >&3
        sleep 1
        exec 3>&-
        wait $live
        status=$?
        kill $decoy 2>/dev/null
        exit $status' live "$root" "$program" "$user" "$work" && status=0 || status=$?
    if [ "$status" != 1 ] || ! grep -q store-claim "$work/live.out"; then
        cat "$work/live.out" "$work/live.err" >&2
        fail "live in $root: status $status, and a claim was to be found"
    fi
}

# 1. An empty root: no libc, no shell, no /proc, no /etc.
root="$work/empty"
mkdir -p "$root/evidence"
tar -C "$root" -xzf "$tarball"
cp -r testdata/incident-torch1.13/node-*.pcap testdata/incident-torch1.13/logs testdata/hosts "$root/evidence/"
set +e
bare "$root" "/$name/rdzvscope" analyze /evidence/node-a.pcap /evidence/node-b.pcap /evidence/node-c.pcap --oom /evidence/logs \
    --hosts /evidence/hosts --boot node-a=2026-11-29T11:12:08Z >"$work/report" 2>"$work/errors"
status=$?
set -e
[ "$status" = 1 ] || { cat "$work/errors" >&2; fail "analyze in an empty root: status $status, 1 was expected"; }
grep -q '^CONFIRMED: one synchronized failure of 3 hosts' "$work/report" || fail "analyze in an empty root: no verdict"
grep -q '962 696 183 808' "$work/report" || fail "analyze in an empty root: no claim"
ok "tarball in an empty root: analyze"
live "$root" "/$name/rdzvscope" 65534:65534
ok "tarball in an empty root: live on loopback, as 65534:65534"
bare "$root" "/$name/rdzvscope" live -i lo --user nobody --duration 1 >"$work/live.out" 2>&1 && fail "a user that no file names was found"
grep -q 'UID:GID' "$work/live.out" || fail "--user NAME in an empty root: no advice: $(cat "$work/live.out")"
ok "tarball in an empty root: --user NAME says what to give instead"

# 2. The .rpm.
package="$(ls "$dist"/rdzvscope-*."$(uname -m)".rpm 2>/dev/null | head -n 1)" || true
if [ -z "$package" ]; then
    skip ".rpm: none in $dist"
elif ! command -v rpm >/dev/null 2>&1; then
    skip ".rpm: no rpm command here"
else
    root="$work/rpm"
    mkdir -p "$root"
    package="$(realpath "$package")"
    # The new root has no shell for the scripts; they are looked at, not run.
    rpm -qp --scripts "$package" 2>/dev/null | grep -q 'useradd --system' || fail ".rpm: no script makes the user"
    rpm --root "$root" --dbpath /var/lib/rpm --noscripts --nodeps -i "$package" 2>"$work/errors" || { cat "$work/errors" >&2; fail ".rpm: cannot install"; }
    bare "$root" /usr/bin/rdzvscope --version >/dev/null || fail ".rpm: does not run"
    [ -e "$root/usr/share/man/man1/rdzvscope.1.gz" ] || fail ".rpm: no man page"
    ok ".rpm in an empty root"
fi

# 3. The .deb, in a Debian that has no Rust and no libpcap.
package="$(ls "$dist"/rdzvscope_*_"$(dpkg --print-architecture 2>/dev/null || echo amd64)".deb 2>/dev/null | head -n 1)" || true
base="$cache/debian-$suite.tar"
if [ -z "$package" ]; then
    skip ".deb: none in $dist"
    exit 0
fi
if [ ! -e "$base" ]; then
    if ! command -v debootstrap >/dev/null 2>&1; then
        skip ".deb in a new Debian: no debootstrap here (apt-get install debootstrap)"
        exit 0
    fi
    mirror="$(sed -n 's/^URIs: *\(.*debian\/*\)$/\1/p' /etc/apt/sources.list.d/*.sources 2>/dev/null | head -n 1)"
    if ! debootstrap --variant=minbase --include=man-db,bash-completion "$suite" "$work/base" ${mirror:+"$mirror"} >"$work/debootstrap.log" 2>&1; then
        tail -n 3 "$work/debootstrap.log" >&2
        skip ".deb in a new Debian: debootstrap failed"
        exit 0
    fi
    mkdir -p "$cache"
    tar -C "$work/base" --exclude='./proc/*' --exclude='./sys/*' --exclude='./var/cache/apt/archives/*.deb' -cf "$base.new" .
    mv "$base.new" "$base"
    rm -rf --one-file-system "$work/base"
fi
root="$work/debian"
mkdir -p "$root"
tar -C "$root" -xf "$base"
cp "$package" "$root/tmp/rdzvscope.deb"
bare "$root" dpkg -i /tmp/rdzvscope.deb >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; fail ".deb: cannot install"; }
bare "$root" getent passwd rdzvscope >/dev/null || fail ".deb: no user rdzvscope"
bare "$root" dpkg --verify rdzvscope | grep . && fail ".deb: files differ from what the package says"
[ -z "$(find "$root" -name 'libpcap.so*')" ] || fail "this Debian has a libpcap: nothing is proved by it"
ok ".deb: installed in a new Debian without libpcap"
live "$root" /usr/bin/rdzvscope rdzvscope
ok ".deb: live on loopback, as user rdzvscope"
for page in rdzvscope rdzvscope-analyze rdzvscope-case-info; do
    bare "$root" env MANWIDTH=80 man "$page" 2>"$work/errors" | grep -q '^NAME' || fail "man $page: $(cat "$work/errors")"
done
bare "$root" env MANWIDTH=80 man rdzvscope-analyze | grep -q '^EXAMPLES' || fail "man rdzvscope-analyze: no examples"
ok ".deb: man rdzvscope"
completed="$(bare "$root" bash -c '
    . /usr/share/bash-completion/bash_completion
    _completion_loader rdzvscope
    COMP_WORDS=(rdzvscope ana) COMP_CWORD=1 COMP_LINE="rdzvscope ana" COMP_POINT=13
    "$(complete -p rdzvscope | sed "s/.*-F \([^ ]*\).*/\1/")" rdzvscope ana rdzvscope
    printf "%s\n" "${COMPREPLY[@]}"')"
[ "$completed" = analyze ] || fail "completion of 'ana' is '$completed'"
[ -s "$root/usr/share/zsh/site-functions/_rdzvscope" ] && [ -s "$root/usr/share/fish/vendor_completions.d/rdzvscope.fish" ] || fail "completions for zsh and fish are missing"
ok ".deb: completions"
for unit in "$root"/usr/lib/systemd/system/rdzvscope*.service; do
    grep -q '^ExecStart=' "$unit" || fail "no units"
    ! grep -q /usr/local/bin/rdzvscope "$unit" || fail "$unit starts a program that the package does not have"
done
ok ".deb: units start what is installed"
bare "$root" dpkg -L rdzvscope >"$work/files"
while read -r file; do
    name="${file##*/}"
    grep -q "/$name\$" "$work/files" || [[ $file == *sysusers* || $file == *tmpfiles* ]] || fail "$file is not in the package"
done < <(find contrib -type f)
ok ".deb: all of contrib/"
mkdir -p "$root/var/lib/rdzvscope" && echo evidence >"$root/var/lib/rdzvscope/case.db"
bare "$root" dpkg -P rdzvscope >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; fail ".deb: cannot be removed"; }
[ ! -e "$root/usr/bin/rdzvscope" ] && [ -e "$root/var/lib/rdzvscope/case.db" ] || fail ".deb: removal left the program or took evidence"
ok ".deb: removed, evidence stays"
