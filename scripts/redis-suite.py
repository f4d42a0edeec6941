#!/usr/bin/env python3
"""Runs the test suite of Redis 7.0 against Larder and against redis-server, and compares.

    scripts/redis-suite.py --source redis-7.0.15 [--larder target/debug/larder] [unit ...]

The suite comes with Redis's source (Debian: apt-get source redis) and runs unchanged, in its mode
for external servers. Each unit has a fresh server of each kind. Counted are the tests that pass
with Redis: those that pass with Larder too, and the others, by name. An exception ends a unit; the
tests behind it count as failed. Tests that need DEBUG, replication, files of data or a memory that
changes its size are left out by their tags, as are slow ones.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

TAGS = "-needs:debug -needs:repl -needs:save -needs:config-maxmemory -needs:reset -slow"
# Seconds that a unit may take.
PATIENCE = 200
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
OUTCOME = re.compile(r"^\[(ok|err|exception)\]: (.*?)(?: in tests/\S+)?(?: \(\d+ ms\))?$")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(port, server):
    for _ in range(600):
        if server.poll() is not None:
            raise SystemExit(f"a server has ended: {server.args}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("a server does not listen")


def command(kind, options, port, folder):
    if kind == "redis":
        return [options.redis, "--port", str(port), "--save", "", "--dir", folder]
    # One thread: the suite relies on the order in which commands of two connections were sent.
    one = ["--threads", "1", "--memory", options.memory]
    return [options.larder, "redis", "--port", str(port), *one]


def run(kind, unit, options):
    """The names of the tests that passed, those that failed, and what was printed."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        log = open(pathlib.Path(folder) / "log", "w")
        server = subprocess.Popen(
            command(kind, options, port, folder), stdout=log, stderr=subprocess.STDOUT
        )
        try:
            wait_for(port, server)
            words = ["./runtest", "--host", "127.0.0.1", "--port", str(port)]
            words += ["--baseport", str(options.baseport), "--single", unit, "--tags", TAGS]
            words += ["--ignore-encoding", "--ignore-digest"]
            suite = subprocess.Popen(
                words, cwd=options.source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, errors="replace", start_new_session=True,
            )
            try:
                printed, _ = suite.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(suite.pid, signal.SIGKILL)
                printed = suite.communicate()[0] + "\n[exception]: it takes too long\n"
        finally:
            server.terminate()
            server.wait()
    printed = COLOURS.sub("", printed)
    passed, failed = collections.Counter(), []
    for line in printed.splitlines():
        found = OUTCOME.match(line)
        if found and found[1] == "ok":
            passed[found[2]] += 1
        elif found:
            failed.append(found[2])
    return passed, failed, printed


def units_of(source):
    text = (source / "tests/test_helper.tcl").read_text()
    listed = re.search(r"set ::all_tests \{(.*?)\}", text, re.S)[1].split()
    return [unit for unit in listed if unit.startswith("unit/")]


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--source", type=pathlib.Path, required=True)
    options.add_argument("--larder", default="target/debug/larder")
    options.add_argument("--redis", default="redis-server")
    options.add_argument("--memory", default="512MiB")
    options.add_argument("--baseport", type=int, default=27000)
    options.add_argument("--logs", type=pathlib.Path, help="a folder for what the suite prints")
    options.add_argument("--known", type=pathlib.Path,
                         help="a file that keeps what passes with Redis for the next run")
    options.add_argument("units", nargs="*")
    options = options.parse_args()
    options.larder = str(pathlib.Path(options.larder).resolve())
    known = {}
    if options.known and options.known.exists():
        known = json.loads(options.known.read_text())
    total = [0, 0]
    print("| unit | passed of all | not passed |\n|---|---|---|", flush=True)
    for unit in options.units or units_of(options.source):
        if unit not in known:
            known[unit] = run("redis", unit, options)[0]
            if options.known:
                options.known.write_text(json.dumps(known))
        with_redis = collections.Counter(known[unit])
        if not with_redis:
            continue
        passed, failed, printed = run("larder", unit, options)
        if options.logs:
            options.logs.mkdir(parents=True, exist_ok=True)
            (options.logs / unit.replace("/", "_")).write_text(printed)
        missing = list((with_redis - passed).elements())
        count = sum(with_redis.values())
        total[0] += count - len(missing)
        total[1] += len(missing)
        why = [name for name in failed if name not in with_redis]
        print(f"| {unit} | {count - len(missing)} of {count} | {'; '.join(missing + why)} |",
              flush=True)
    print(f"{total[0]} passed, {total[1]} failed")
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main())
