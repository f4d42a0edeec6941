#!/usr/bin/env bash
# mount-speed.sh [LARDER [ROUNDS [PARTS [SECONDS [FILES]]]]]: the speed of a mount by LARDER (target/release/larder), with passthrough,
# without and with `noopen`, and where there is `go`, of go-fuse's example `loopback` on the same source, as ratios to the same on the
# source. Interleaved rounds; their median, and the best, which a busy machine disturbs less; the machine should be quiet.
# Needs /dev/fuse; root for passthrough and for the part `cold`. PARTS, with commas (default: all):
#   pread   pread, and open, read and close, of one file of 26,510 bytes that the kernel has
#   cold    open, read and close of FILES (10,000) distinct files of 4 KB, of which the kernel has nothing (drop_caches)
#   fio     fio, SECONDS (10) each: sequential, random, mapped reads of a file of 256 MB, by 1 and by 8 jobs
#   nginx   nginx with open_file_cache, asked by wrk with 400 connections, SECONDS each
# fio, wrk and nginx come from scripts/bench-deps.sh; a part whose program is missing is left out, and that is said.
set -euo pipefail
cd "$(dirname "$0")/.."
larder=${1:-${CARGO_TARGET_DIR:-target}/release/larder} rounds=${2:-15} parts=${3:-pread,cold,fio,nginx} each=${4:-10} files=${5:-10000}
gofuse=github.com/hanwen/go-fuse/v2/example/loopback@v2.12.1
place=$(mktemp -d)
chmod 755 "$place"
pids=()
end() {
    # go-fuse's example does not unmount when it is ended.
    if mountpoint -q "$place/go-fuse"; then umount -l "$place/go-fuse" || fusermount3 -uz "$place/go-fuse" || true; fi
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait || true
    rm -rf "$place"
}
trap end EXIT
mounts=(passthrough without noopen)
mkdir "$place/source" "$place/passthrough" "$place/without" "$place/noopen" "$place/go-fuse"
head -c 26510 /dev/urandom > "$place/source/page"
"$larder" mount "$place/source" "$place/passthrough" &
pids+=($!)
"$larder" mount "$place/source" "$place/without" -o nopassthrough &
pids+=($!)
"$larder" mount "$place/source" "$place/noopen" -o noopen &
pids+=($!)
if command -v go >/dev/null && GOBIN=$place go install "$gofuse" 2>/dev/null; then
    # Root mounts without the program fusermount.
    "$place/loopback" -q -directmount "$place/go-fuse" "$place/source" >/dev/null &
    pids+=($!)
    for _ in $(seq 100); do [ ! -e "$place/go-fuse/page" ] || break; sleep 0.05; done
fi
if [ -e "$place/go-fuse/page" ]; then
    mounts+=(go-fuse)
else
    echo "go-fuse: left out (go is not installed, $gofuse cannot be fetched, or it does not mount)"
fi
for mount in "${mounts[@]}"; do
    for _ in $(seq 200); do [ ! -e "$place/$mount/page" ] || break; sleep 0.05; done
    [ -e "$place/$mount/page" ] || { echo "mount-speed.sh: $mount is not mounted" >&2; exit 1; }
done
if [[ ,$parts, = *,nginx,* ]] && command -v nginx >/dev/null; then
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    cat > "$place/nginx.conf" <<NGINX
daemon off; pid $place/nginx.pid; error_log stderr crit; worker_processes auto;
$([ "$(id -u)" != 0 ] || echo "user root;")
events { worker_connections 2048; }
http {
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;
    open_file_cache max=20000 inactive=60s; open_file_cache_valid 30s; open_file_cache_errors on;
    client_body_temp_path $place; proxy_temp_path $place; fastcgi_temp_path $place; uwsgi_temp_path $place; scgi_temp_path $place;
    server { listen 127.0.0.1:$port reuseport; root $place; }
}
NGINX
    nginx -p "$place" -c "$place/nginx.conf" &
    pids+=($!)
    export MOUNT_SPEED_PORT=$port
fi
python3 - "$place" "$rounds" "$parts" "$each" "$files" "${mounts[*]}" <<'PYTHON'
import json, os, random, re, shutil, statistics, subprocess, sys, time

place, rounds, parts = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(",")
each, files = int(sys.argv[4]), int(sys.argv[5])
ways = ["source", *sys.argv[6].split()]
SIZE, TURNS = 26510, 500

def pread(way):
    file = os.open(f"{place}/{way}/page", os.O_RDONLY)
    start = time.perf_counter()
    for _ in range(TURNS):
        assert len(os.pread(file, SIZE, 0)) == SIZE
    spent = time.perf_counter() - start
    os.close(file)
    return spent / TURNS * 1e6

def whole(way):
    start = time.perf_counter()
    for _ in range(TURNS):
        file = os.open(f"{place}/{way}/page", os.O_RDONLY)
        os.read(file, SIZE)
        os.close(file)
    return (time.perf_counter() - start) / TURNS * 1e6

names = [f"cold/{n % 100:02}/{n}" for n in range(files)]
def cold(way):
    random.shuffle(names)
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3")
    start = time.perf_counter()
    for name in names:
        file = os.open(f"{place}/{way}/{name}", os.O_RDONLY)
        assert os.read(file, 8192)
        os.close(file)
    return (time.perf_counter() - start) / len(names) * 1e6

def fio(kind, engine, size, jobs):
    def run(way):
        words = ["fio", "--name=x", "--readonly", f"--filename={place}/{way}/big", f"--rw={kind}", f"--ioengine={engine}", f"--bs={size}",
                 f"--numjobs={jobs}", "--group_reporting", "--time_based", f"--runtime={each}", "--invalidate=0", "--thread", "--output-format=json"]
        told = subprocess.run(words, check=True, capture_output=True, text=True, cwd=place).stdout
        return json.loads(told[told.index("{"):])["jobs"][0]["read"]["iops"]
    return run

def wrk(way):
    url = f"http://127.0.0.1:{os.environ['MOUNT_SPEED_PORT']}/{way}/page"
    told = subprocess.run(["wrk", "-t2", "-c400", f"-d{each}s", url], check=True, capture_output=True, text=True).stdout
    assert "Non-2xx" not in told, told
    return float(re.search(r"Requests/sec:\s*([\d.]+)", told)[1])

def compare(name, measure, unit):
    found = {way: [] for way in ways}
    for turn in range(rounds):
        first = turn % len(ways)
        for way in ways[first:] + ways[:first]:
            found[way].append(measure(way))
    best, kind = (min, "least") if unit == "us" else (max, "most")
    for figure, of in ("median", statistics.median), (kind, best):
        direct = of(found["source"])
        for way in ways:
            print(f"{name:24} {way:12} {figure:7} {of(found[way]):11.2f} {unit:4} {of(found[way]) / direct:6.3f} x direct", flush=True)

def has(part, *programs):
    if part not in parts:
        return False
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        print(f"{part}: left out, {' and '.join(missing)} is not installed (scripts/bench-deps.sh)")
    return not missing

if has("pread"):
    compare("pread", pread, "us")
    compare("open+read+close", whole, "us")
if has("cold"):
    if os.geteuid() != 0:
        print("cold: left out, only root drops what the kernel has")
    else:
        for name in names:
            os.makedirs(os.path.dirname(f"{place}/source/{name}"), exist_ok=True)
            with open(f"{place}/source/{name}", "wb") as f:
                f.write(os.urandom(4096))
        compare(f"{files} cold files", cold, "us")
if has("fio", "fio"):
    with open(f"{place}/source/big", "wb") as f:
        for _ in range(256):
            f.write(os.urandom(1 << 20))
    for way in ways:
        with open(f"{place}/{way}/big", "rb") as f:
            while f.read(1 << 20): pass
    for label, kind, engine, size in ("sequential 128k", "read", "psync", "128k"), ("random 4k", "randread", "psync", "4k"), ("mapped random 4k", "randread", "mmap", "4k"):
        for jobs in 1, 8:
            compare(f"fio {label}, {jobs}", fio(kind, engine, size, jobs), "iops")
if has("nginx", "nginx", "wrk"):
    compare("nginx, wrk -c400", wrk, "r/s")
PYTHON
