#!/usr/bin/env bash
# Everything that must hold, stage by stage. A failed stage does not stop the next, so that one run tells all.
# The last line is "N passed, N failed": the tests cargo ran, and a failure for each other stage that failed.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
log=$target/test.log
: > "$log"
# What stands there when this script is ended from outside.
echo '0 passed, 1 failed' > "$target/test-summary"
broken=()
timings=()
others=0

# results COLUMN: the sum over all that cargo reported so far (4 passed, 6 failed).
results() {
    awk -v column="$1" '/^test result:/ { sum += $column } END { print sum + 0 }' "$log"
}

# stage NAME COMMAND...: runs it, keeps its output in the log, notes its time and whether it failed. (Inside it `set -e`
# does not hold: a command of several steps returns at the first that fails.)
stage() {
    local name=$1 started=$SECONDS status=0 before
    shift
    before=$(results 6)
    printf '\n== %s\n' "$name"
    "$@" 2>&1 | tee -a "$log" || status=$?
    timings+=("$(printf '%5d s  %s' $((SECONDS - started)) "$name")")
    [ "$status" != 0 ] || return 0
    broken+=("$name")
    # A stage that broke without a failed test counts for itself.
    [ "$(results 6)" -gt "$before" ] || others=$((others + 1))
}

# The tests and, since crates/larder and crates/lab have tests that run them, the binaries: one profile, everything compiled once.
build() {
    cargo test --workspace --no-run
}

# Most tests wait for programs they started: two more at a time than there are processors.
tests() {
    RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) + 2))} cargo test --workspace --no-fail-fast
}

# Every order of the store's concurrent steps. Its own target directory: --cfg loom changes every crate. The lints do not
# see what only this builds, so warnings are errors here too.
loom() {
    RUSTFLAGS="--cfg loom -D warnings" CARGO_TARGET_DIR="$target/loom" cargo test -p larder-store --release --test loom
}

# A short look for inputs that break a codec; without a nightly compiler the same bodies run on their seeds alone.
fuzz() (
    cd fuzz
    local body name seeds
    for body in fuzz_targets/*.rs; do
        name=$(basename "$body" .rs)
        seeds=$(if [ -d "seeds/$name" ]; then echo "seeds/$name"; fi)
        mkdir -p "corpus/$name"
        if cargo +nightly fuzz --version >/dev/null 2>&1; then
            # shellcheck disable=SC2086 # no seeds: no argument
            cargo +nightly fuzz run "$name" "corpus/$name" $seeds -- -max_total_time="${FUZZ_SECONDS:-10}" -verbosity=0 || return
        elif [ -n "$seeds" ]; then
            find "$seeds" -type f -exec cargo run --quiet --release --bin "$name" -- {} + || return
        fi
    done
)

stage deps scripts/test-deps.sh
stage format cargo fmt --all --check
stage lints cargo clippy --workspace --all-targets -- -D warnings
stage licences cargo deny check licenses bans sources
stage build build
stage tests tests
if [ -f crates/store/tests/loom.rs ]; then stage loom loom; fi
if [ -d fuzz ]; then stage fuzz fuzz; fi

passed=$(results 4)
failed=$(($(results 6) + others))

printf '\n== times\n'
printf '%s\n' "${timings[@]}"
[ ${#broken[@]} = 0 ] || printf 'failed stages: %s\n' "${broken[*]}"
printf '%d passed, %d failed\n' "$passed" "$failed" | tee "$target/test-summary"
[ "$failed" = 0 ]
