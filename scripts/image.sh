#!/usr/bin/env bash
# image.sh BIN ROOT: lays out the root of a container at ROOT: the program of BIN, the libraries it needs (a static one has none),
# certificates of authorities, the welcome page, directories of the user 65532. contrib/Containerfile makes an image of it.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1 root=$2
umask 022
install -D -m 0755 "$bin/larder" "$root/usr/bin/larder"
strip --strip-unneeded "$root/usr/bin/larder"
if ldd "$bin/larder" >/dev/null 2>&1; then
    ldd "$bin/larder" | grep -o '/[^ ]*' | while read -r library; do
        install -D -m 0755 "$library" "$root$library"
    done
fi
if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
    install -D -m 0644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
fi
install -D -m 0644 contrib/larder/index.html "$root/usr/share/larder/welcome/index.html"
mkdir -p "$root/etc/larder"
sed 's/127\.0\.0\.1:8080/0.0.0.0:8080/' contrib/debian/larder.toml > "$root/etc/larder/larder.toml"
printf 'larder:x:65532:65532:Larder:/var/lib/larder:/nonexistent\n' > "$root/etc/passwd"
printf 'larder:x:65532:\n' > "$root/etc/group"
for directory in run/larder var/lib/larder tmp; do
    mkdir -p "$root/$directory"
done
chmod 1777 "$root/tmp"
if [ "$(id -u)" = 0 ]; then
    chown 65532:65532 "$root/run/larder" "$root/var/lib/larder"
fi
chmod 0700 "$root/run/larder" "$root/var/lib/larder"
