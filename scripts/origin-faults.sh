#!/bin/sh
# Faults of servers behind one site, under load: the table of docs/performance.md. Each fault lasts
# the given number of seconds, 30 unless one is given. It needs what scripts/test-deps.sh installs.
set -eu
cd "$(dirname "$0")/.."
cargo build --release -p larder
LARDER_BIN="$PWD/target/release/larder" LARDER_FAULTS="${1:-30}" \
    cargo test -p larder-tests --test sources origin_faults:: -- --nocapture --test-threads=1
