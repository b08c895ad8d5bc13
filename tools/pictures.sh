#!/bin/sh
# pictures.sh BINARY: makes the pictures of the README again: the table as a terminal shows it (aha, chromium), and the page.
set -eu

binary="$(realpath "$1")"
images="$(pwd)/docs/images"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
for program in aha chromium pngquant; do
    command -v $program >/dev/null 2>&1 || { echo "pictures.sh: $program is missing: apt-get install aha chromium pngquant" >&2; exit 2; }
done

cd testdata/incident-torch1.13
run() {
    LANG=C.UTF-8 "$binary" analyze node-a.pcap node-b.pcap node-c.pcap --oom logs --hosts ../hosts \
        --boot node-a=2026-11-29T11:12:08Z --exit-zero "$@"
}
{
    printf '\033[1m$ rdzvscope analyze node-*.pcap --oom logs/ --hosts hosts --boot node-a=2026-11-29T11:12:08Z\033[0m\n'
    # To the end of the reasons.
    COLUMNS=100 run --color always | sed '/To do/,$d'
} | aha --black >"$work/table.html"
sed -i "s|<pre>|<pre style=\"font: 14px/1.25 'DejaVu Sans Mono', monospace; margin: 12px\">|" "$work/table.html"
run --format html -o "$work/page.html"

picture() { # picture NAME WIDTH HEIGHT
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size="$2,$3" --screenshot="$work/$1.png" \
        "$work/$1.html" >/dev/null 2>&1
    pngquant --force --output "$images/$4" 64 "$work/$1.png"
}
picture table 880 445 table.png
picture page 1280 1195 report.png
ls -l "$images"
