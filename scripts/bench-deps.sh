#!/usr/bin/env bash
# Installs the servers that `make bench` compares Larder with and the tools of bench/tools.txt, and only what is missing. As root it
# needs no sudo. Where there is no apt, whoever is missing is left out of the tables.
# Where systemd runs, Debian starts what it installs. The bench starts its own on other ports; `systemctl disable --now` ends those,
# and figures are better without them.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v apt-get >/dev/null || exit 0

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

missing=()
while read -r package; do
    dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done < <(sed 's/#.*//; /^[[:space:]]*$/d' bench/packages.txt bench/tools.txt)
if [ ${#missing[@]} -gt 0 ]; then
    echo "installing: ${missing[*]}"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
fi
