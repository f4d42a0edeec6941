#!/usr/bin/env bash
# stage.sh BIN ROOT: lays out what a system gets of Larder below ROOT: the programs of the directory BIN, man pages, completions,
# units, documents. Debian's package, the tarball and the image for containers are made of it.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1 root=$2
mkdir -p "$root"
put() { install -D -m "$1" "$2" "$root/$3"; }

put 0755 "$bin/larder" usr/bin/larder
# Test builds may lack the second program.
[ ! -f "$bin/larder-lab" ] || put 0755 "$bin/larder-lab" usr/bin/larder-lab
strip --strip-unneeded "$root"/usr/bin/*

generated=$(mktemp -d)
trap 'rm -rf "$generated"' EXIT
"$bin/larder" generate "$generated"
mkdir -p "$root/usr/share/man/man1"
for page in "$generated"/man/*.1; do
    gzip -9 -n -c "$page" > "$root/usr/share/man/man1/$(basename "$page").gz"
done
put 0644 "$generated/larder.bash" usr/share/bash-completion/completions/larder
put 0644 "$generated/_larder" usr/share/zsh/vendor-completions/_larder
put 0644 "$generated/larder.fish" usr/share/fish/vendor_completions.d/larder.fish

put 0644 contrib/systemd/larder.service lib/systemd/system/larder.service
put 0644 contrib/systemd/larder.socket lib/systemd/system/larder.socket
put 0644 contrib/systemd/sysusers.conf usr/lib/sysusers.d/larder.conf
put 0644 contrib/larder/index.html usr/share/larder/welcome/index.html
put 0644 contrib/prometheus/alerts.yml usr/share/larder/prometheus/alerts.yml
put 0644 contrib/grafana/larder.json usr/share/larder/grafana/larder.json
for document in README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE docs/*.md docs/openapi.json; do
    put 0644 "$document" "usr/share/doc/larder/$(basename "$document")"
done
