#!/bin/sh
# Compares the client with libmemcached: CPU time of the client for each operation (microseconds), and the 99th percentile
# of a call (microseconds), in interleaved rounds against the same three servers. What counts is the ratio within a round.
#
#   crates/client/benches/compare.sh [ROUNDS]
#
# get, set: one after the other. multi: 100 keys over three servers; CPU for each key. set_buffered: nobody waits for answers
# (libmemcached buffers and asks for none; the client has one for each run, and counts what failed). Needs libmemcached-dev and memcached.
set -eu
cd "$(dirname "$0")/../../.."
rounds=${1:-3}
build=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null; rm -rf "$build"' EXIT
cc -O2 -o "$build/libmemcached" crates/client/benches/libmemcached.c -lmemcached
cargo build --quiet --release -p larder-client --example compare
larder=${CARGO_TARGET_DIR:-target}/release/examples/compare
servers=
for port in 24311 24312 24313; do
    memcached -u "$(id -un)" -l 127.0.0.1 -p $port & pids="$pids $!"
    servers="$servers 127.0.0.1:$port"
done
sleep 1
echo "client workload cpu_us_per_operation p99_us"
for round in $(seq "$rounds"); do
    for workload in "get 50000" "set 50000" "multi 3000" "set_buffered 300000"; do
        # shellcheck disable=SC2086
        "$build/libmemcached" $workload $servers
        # shellcheck disable=SC2086
        "$larder" $workload $servers
    done
done
