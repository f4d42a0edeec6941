#!/usr/bin/env bash
# Compares Larder with every other server, and leaves tables in target/bench. `ROUNDS=5 make bench` is shorter and noisier; PLANS names
# plans of bench/ (http, objects, memory, hitratio).
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/bench"
status=0
for plan in ${PLANS:-http objects}; do
    out=$target/bench/$plan
    # A server that does not start, or answers wrongly, does not keep the next plan from being measured.
    "$target/release/larder" bench compare --plan "$plan" ${ROUNDS:+--rounds "$ROUNDS"} \
        --json "$out.json" --html "$out.html" --markdown "$out.md" || status=$?
    [ "$status" != 130 ] || break
done
echo "tables: $target/bench/*.md, pages: $target/bench/*.html, every round: $target/bench/*.json"
exit "$status"
