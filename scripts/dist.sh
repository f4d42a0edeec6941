#!/usr/bin/env bash
# dist.sh [BIN [OUT]]: a tarball of the programs in BIN (target/release) with man pages, completions and units, into OUT (target/dist).
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
bin=${1:-$target/release} out=${2:-$target/dist}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
name=larder-$version-$(uname -m)-linux
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
umask 022
scripts/stage.sh "$bin" "$root/$name"
mkdir -p "$root/$name/etc/larder"
install -m 0644 contrib/debian/larder.toml "$root/$name/etc/larder/larder.toml"
mkdir -p "$out"
tar --sort=name --owner=0 --group=0 --numeric-owner -C "$root" -czf "$out/$name.tar.gz" "$name"
echo "$out/$name.tar.gz"
