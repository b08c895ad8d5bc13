#!/bin/sh
# stage.sh BINARY ROOT PREFIX: an installation below ROOT, as packages and `make install` have it: the binary, man pages,
# completions, documents, and all of contrib/.
set -eu

binary="$1"
root="$2"
prefix="$3"
share="$root$prefix/share"
doc="$share/doc/rdzvscope"

install -D -m 755 "$binary" "$root$prefix/bin/rdzvscope"
# A binary for another machine cannot print these; RDZVSCOPE names one that runs here.
tool="${RDZVSCOPE:-$binary}"
mkdir -p "$share/man/man1"
"$tool" man "$share/man/man1"
install -d "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
"$tool" completions bash >"$share/bash-completion/completions/rdzvscope"
"$tool" completions zsh >"$share/zsh/site-functions/_rdzvscope"
"$tool" completions fish >"$share/fish/vendor_completions.d/rdzvscope.fish"

# Units, users and temporary files go where systemd looks for them, everything else of contrib/ stands by the documents.
find contrib -type f | LC_ALL=C sort | while read -r file; do
    name="${file##*/}"
    case $file in
    *.service | *.timer | *.socket | *.path | *.target | *.slice) to="$root$prefix/lib/systemd/system/$name" ;;
    */sysusers.d/*.conf) to="$root$prefix/lib/sysusers.d/$name" ;;
    *sysusers*.conf | *.sysusers) to="$root$prefix/lib/sysusers.d/rdzvscope.conf" ;;
    */tmpfiles.d/*.conf) to="$root$prefix/lib/tmpfiles.d/$name" ;;
    *tmpfiles*.conf | *.tmpfiles) to="$root$prefix/lib/tmpfiles.d/rdzvscope.conf" ;;
    */wireshark/*.lua) to="$root$prefix/lib/wireshark/plugins/$name" ;;
    */wireshark/profiles/*) to="$share/wireshark/profiles/${file#contrib/wireshark/profiles/}" ;;
    *) to="$doc/${file}" ;;
    esac
    mode=644
    [ ! -x "$file" ] || mode=755
    install -D -m "$mode" "$file" "$to"
    case $to in
    */systemd/system/*) sed -i "s,/usr/local/bin/rdzvscope,$prefix/bin/rdzvscope,g" "$to" ;;
    esac
done

for file in README.md README.zh-CN.md CHANGELOG.md SECURITY.md; do
    [ ! -e "$file" ] || install -D -m 644 "$file" "$doc/$file"
done
find docs -type f | while read -r file; do install -D -m 644 "$file" "$doc/$file"; done
install -D -m 644 LICENSE-APACHE "$doc/LICENSE-APACHE"
install -D -m 644 LICENSE-MIT "$doc/LICENSE-MIT"
