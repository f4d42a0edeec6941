#!/usr/bin/env bash
# mount-speed.sh [LARDER [ROUNDS]]: how long `pread`, and open, read and close, of a 26 KB file take on a mount by LARDER
# (target/release/larder), with passthrough and without, as ratios to the same on the source. Medians of interleaved rounds, and
# the least of them, which a busy machine disturbs less; the machine should be quiet. Needs /dev/fuse, and root for passthrough.
set -euo pipefail
cd "$(dirname "$0")/.."
larder=${1:-${CARGO_TARGET_DIR:-target}/release/larder} rounds=${2:-15}
place=$(mktemp -d)
pids=()
end() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait || true
    rm -rf "$place"
}
trap end EXIT
mkdir "$place/source" "$place/passthrough" "$place/without"
head -c 26510 /dev/urandom > "$place/source/page"
"$larder" mount "$place/source" "$place/passthrough" &
pids+=($!)
"$larder" mount "$place/source" "$place/without" -o nopassthrough &
pids+=($!)
for mount in passthrough without; do
    for _ in $(seq 200); do [ ! -e "$place/$mount/page" ] || break; sleep 0.05; done
done
python3 - "$place" "$rounds" <<'PYTHON'
import os, statistics, sys, time

place, rounds = sys.argv[1], int(sys.argv[2])
ways = ["source", "passthrough", "without"]
SIZE, TURNS = 26510, 500

def pread(path):
    file = os.open(path, os.O_RDONLY)
    start = time.perf_counter()
    for _ in range(TURNS):
        assert len(os.pread(file, SIZE, 0)) == SIZE
    spent = time.perf_counter() - start
    os.close(file)
    return spent

def whole(path):
    start = time.perf_counter()
    for _ in range(TURNS):
        file = os.open(path, os.O_RDONLY)
        os.read(file, SIZE)
        os.close(file)
    return time.perf_counter() - start

for name, measure in ("pread", pread), ("open+read+close", whole):
    spent = {way: [] for way in ways}
    for turn in range(rounds):
        for way in ways[turn % 3:] + ways[:turn % 3]:
            spent[way].append(measure(f"{place}/{way}/page"))
    for figure, of in ("median", statistics.median), ("least", min):
        direct = of(spent["source"])
        for way in ways:
            time_spent = of(spent[way])
            print(f"{name:16} {way:12} {figure:7} {time_spent / TURNS * 1e6:7.2f} us  {time_spent / direct:5.2f} x direct")
PYTHON
