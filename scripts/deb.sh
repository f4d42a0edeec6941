#!/usr/bin/env bash
# deb.sh [BIN [OUT]]: Debian's package of the programs in the directory BIN (target/release), into the directory OUT (target/deb).
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
bin=${1:-$target/release} out=${2:-$target/deb}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
architecture=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 0755 "$root"
umask 022

scripts/stage.sh "$bin" "$root"
install -D -m 0640 contrib/debian/larder.toml "$root/etc/larder/larder.toml"
chmod 0644 "$root/etc/larder/larder.toml"
install -D -m 0644 contrib/debian/logrotate "$root/etc/logrotate.d/larder"
mkdir -p "$root/DEBIAN"
for script in postinst prerm postrm; do
    install -m 0755 "contrib/debian/$script" "$root/DEBIAN/$script"
done
printf '%s\n' /etc/larder/larder.toml /etc/logrotate.d/larder > "$root/DEBIAN/conffiles"
# The libraries of the program, by name of their packages; a static program has none.
depends=""
if ldd "$root/usr/bin/larder" 2>/dev/null | grep -q 'libc\.so'; then
    depends="libc6 (>= $(objdump -T "$root/usr/bin/larder" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -1)), libgcc-s1"
fi
{
    echo "Package: larder"
    echo "Version: $version"
    echo "Architecture: $architecture"
    echo "Maintainer: Larder's authors <larder@localhost>"
    echo "Installed-Size: $(du -k -s --apparent-size "$root" | cut -f1)"
    [ -z "$depends" ] || echo "Depends: $depends"
    echo "Recommends: ca-certificates, logrotate"
    echo "Section: web"
    echo "Priority: optional"
    echo "Description: web cache in one program"
    echo " Larder keeps the pages of a slow site in memory: HTTP/1.1, 2 and 3, TLS with"
    echo " certificates that it orders itself, purges by URL, prefix and tag. The same"
    echo " memory serves objects to memcached's and Redis's clients."
} > "$root/DEBIAN/control"
(cd "$root" && find etc lib usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) > "$root/DEBIAN/md5sums"
mkdir -p "$out"
dpkg-deb --root-owner-group -Zxz -z1 --build "$root" "$out/larder_${version}_$architecture.deb"
