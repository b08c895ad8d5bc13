#!/bin/sh
# package.sh ROOT VERSION ARCH MACHINE DIR: a .deb and an .rpm of what stands below ROOT, written to DIR. Each is made
# where its tool is there (dpkg-deb; rpmbuild, Debian's package `rpm`), and said to be missing where it is not.
set -eu

root="$(cd "$1" && pwd)"
version="$2"
arch="$3"
machine="$4"
mkdir -p "$5"
dist="$(cd "$5" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

if command -v dpkg-deb >/dev/null 2>&1; then
    cp -a "$root" "$work/deb"
    mkdir "$work/deb/DEBIAN"
    size="$(du -sk --apparent-size "$root" | cut -f 1)"
    sed -e "s/@VERSION@/$version/; s/@ARCH@/$arch/; s/@SIZE@/$size/" packaging/control >"$work/deb/DEBIAN/control"
    for script in postinst prerm postrm; do
        install -m 755 "packaging/$script" "$work/deb/DEBIAN/$script"
    done
    (cd "$work/deb" && find usr -type f | LC_ALL=C sort | xargs md5sum) >"$work/deb/DEBIAN/md5sums"
    find "$work/deb" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz --build "$work/deb" "$dist/rdzvscope_${version}_$arch.deb" >/dev/null
else
    echo "package.sh: no dpkg-deb here: no .deb was made" >&2
fi

if command -v rpmbuild >/dev/null 2>&1; then
    (cd "$root" && find usr -type f | LC_ALL=C sort | sed 's,^,/,') >"$work/files"
    # Files of the package's own folders, so that they go with it.
    printf '%%dir /usr/share/doc/rdzvscope\n' >>"$work/files"
    rpmbuild -bb --quiet --target "$machine" \
        --define "_topdir $work/rpm" --define "_rpmdir $work" --define "_rpmfilename out.rpm" \
        --define "staged $root" --define "filelist $work/files" --define "packaging $(pwd)/packaging" \
        --define "rdzvscope_version $version" packaging/rdzvscope.spec
    mv "$work/out.rpm" "$dist/rdzvscope-$version-1.$machine.rpm"
else
    echo "package.sh: no rpmbuild here (Debian's package rpm): no .rpm was made" >&2
fi
