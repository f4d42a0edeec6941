#!/usr/bin/env bash
# Eight clients read random ranges of a file of 1 GiB (or MIB, the first argument) through a Larder
# with `slice = "auto"`, before an origin that counts the bytes it sends: at most 1.02 of the file's
# size. Prints both. LARDER (the second argument) is the program, by default target/release/larder,
# which it builds. Takes twice the memory of the file, and some minutes.
set -eu
cd "$(dirname "$0")/.."
larder=${2:-}
if [ -z "$larder" ]; then
    cargo build --release -p larder
    larder=${CARGO_TARGET_DIR:-target}/release/larder
fi
LARDER_BIN=$(realpath "$larder") LARDER_TEST_SLICES_MIB=${1:-1024} \
    cargo test -p larder-tests --test bodies slices_auto::eight_clients -- --nocapture
