#!/usr/bin/env bash
# Eight clients read random ranges of a file of 1 GiB (or MIB, the first argument) through a Larder
# with `slice = "auto"`, before an origin that counts the bytes it sends: at most 1.02 of the file's
# size. Takes twice the memory of the file, and some minutes.
set -eu
cd "$(dirname "$0")/.."
cargo build --release -p larder
LARDER_BIN=target/release/larder LARDER_TEST_SLICES_MIB=${1:-1024} \
    cargo test --release -p larder-tests --test bodies slices_auto::eight_clients
