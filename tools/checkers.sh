#!/bin/sh
# checkers.sh: puts the programs that read the files of contrib/ into target/tools, without installing them: the packages of
# Prometheus and Alertmanager would start daemons. Debian and its relatives only; the tests say what they had to skip.
set -u

place="$(dirname "$0")/../target/tools"
mkdir -p "$place" && place="$(cd "$place" && pwd)" || exit 0

fetch() { # fetch PROGRAM PACKAGE
    command -v "$1" >/dev/null 2>&1 && return
    [ -x "$place/usr/bin/$1" ] || [ -x "$place/usr/sbin/$1" ] && return
    command -v apt-get >/dev/null 2>&1 || return
    echo "checkers: fetching $2"
    (cd "$place" && apt-get download -qq "$2" >/dev/null 2>&1 && dpkg -x "$2"_*.deb . && rm -f "$2"_*.deb) ||
        echo "checkers: $2 cannot be had: what it checks is skipped" >&2
}

fetch promtool prometheus
fetch amtool prometheus-alertmanager
fetch tcpreplay tcpreplay
if ! command -v rsyslogd >/dev/null 2>&1; then
    fetch rsyslogd rsyslog
    for library in libestr libfastjson; do
        ls "$place"/usr/lib/*/"$library".so.* >/dev/null 2>&1 || fetch none "$(apt-cache depends rsyslog | sed -n "s/.*Depends: \($library[0-9]*\)$/\1/p")"
    done
fi

# Kubernetes' own schemas.
if ! [ -e "$place/python/kubernetes_validate" ] && ! python3 -c 'import kubernetes_validate' 2>/dev/null; then
    python3 -m pip install --quiet --disable-pip-version-check --target "$place/python" kubernetes-validate >/dev/null 2>&1 ||
        echo "checkers: kubernetes-validate cannot be had: the DaemonSet is checked by the test's own rules alone" >&2
fi

# The engine that contrib/lake/ is asked by.
if ! [ -e "$place/python/duckdb" ] && ! python3 -c 'import duckdb' 2>/dev/null; then
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$place/python" duckdb >/dev/null 2>&1 ||
        echo "checkers: duckdb cannot be had: the questions of contrib/lake are not asked" >&2
fi
if ! [ -e "$place/python/duckdb_cli/duckdb" ] && ! command -v duckdb >/dev/null 2>&1; then
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$place/python" --upgrade duckdb-cli >/dev/null 2>&1 ||
        echo "checkers: duckdb-cli cannot be had: a recipe of the cookbook is not tried" >&2
fi
exit 0
