#!/bin/sh
# setup.sh build|test|dist|smoke: installs what is missing, by the package manager, on Debian and its relatives.
#
# build: a C compiler (zstd and xz are compiled in) and libpcap's headers. test: besides, the programs that tests compare
# with (tshark, nmap, tcpdump, nft, masscan, suricata), that feed it (tcpreplay, pdsh) or that tests run on (python3, ip,
# setpriv). dist: what packages are made with. smoke: what they are tried in. Tests skip a comparison, and say so, where its
# program is missing.
set -eu

want="${1:-build}"
missing=""

# Before anything is installed: Rust, which this script does not install.
rust() {
    echo "setup: $1: install Rust 1.89 or later (https://rustup.rs, or the packages rustc and cargo of a distribution that has it)" >&2
    exit 1
}
command -v cargo >/dev/null 2>&1 || rust "there is no cargo"
version="$(cargo --version | cut -d' ' -f2)"
minor="$(echo "$version" | cut -d. -f2)"
[ "${version%%.*}" -gt 1 ] || [ "$minor" -ge 89 ] || rust "cargo $version is too old"

need() { # need COMMAND PACKAGE
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}

need cc gcc
need ld binutils
[ -e /usr/include/pcap/pcap.h ] || [ -e /usr/include/pcap.h ] || missing="$missing libpcap-dev"
[ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
if [ "$want" = test ]; then
    need tshark tshark
    need nmap nmap
    need tcpdump tcpdump
    need tcpreplay tcpreplay
    need pdsh pdsh
    need jq jq
    need zsh zsh
    need fish fish
    need setpriv util-linux
    need ssh-keygen openssh-client
    need logrotate logrotate
    need python3 python3
    need pip3 python3-pip
    need ip iproute2
    need systemd-analyze systemd
    need nft nftables
    need masscan masscan
    /usr/bin/python3 -c 'import yaml' 2>/dev/null || missing="$missing python3-yaml"
    # Not in every release of Debian; the test that wants it says so.
    if ! command -v suricata >/dev/null 2>&1 && apt-cache policy suricata 2>/dev/null | grep -q 'Candidate: [0-9]'; then
        missing="$missing suricata"
    fi
    # A shell has a kill of its own: the program is what tests run.
    [ -x /bin/kill ] || [ -x /usr/bin/kill ] || missing="$missing procps"
fi
if [ "$want" = dist ]; then
    need python3 python3
    need git git
    need make make
    need flex flex
    need bison bison
    need dpkg-source dpkg-dev
    need rpmbuild rpm
    need xz xz-utils
fi

if [ "$want" = smoke ]; then
    need ip iproute2
    need debootstrap debootstrap
    need rpm rpm
fi

if [ -n "$missing" ]; then
    if command -v apt-get >/dev/null 2>&1; then
        root=""
        if [ "$(id -u)" != 0 ]; then
            command -v sudo >/dev/null 2>&1 || {
                echo "setup: missing:$missing; install them as root: apt-get install$missing" >&2
                exit 1
            }
            root="sudo"
        fi
        echo "setup: installing$missing"
        export DEBIAN_FRONTEND=noninteractive
        $root apt-get update -qq
        # shellcheck disable=SC2086
        $root apt-get install -y -qq --no-install-recommends $missing >/dev/null
    else
        echo "setup: missing:$missing; install them with your package manager (names are Debian's)" >&2
        [ "$want" = test ] || exit 1
    fi
fi

[ "$want" != test ] || sh "$(dirname "$0")/checkers.sh"
