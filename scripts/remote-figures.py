#!/usr/bin/env python3
"""Figures of the remote tier, as mod_mcpage's were made: mean and tail of one page, for 1 and 5 connections.

Starts three memcacheds, nginx with the page as a static file, an origin that takes its time, and Larders of one thread:

  static file    nginx, the same bytes as a file
  memory         Larder without [remote]: what the tier is compared with
  local+remote   the page was rendered by another Larder; copies of 5 s (the default)
  remote only    many pages in turn, each asked for after its copy of 100 ms (the least allowed) is over: the fleet answers;
                 where a round of them takes less time (see "asked the fleet"), raise --pages
  no cache       Larder passes everything on to the origin

Each round visits all of them for both numbers of connections, in a new order, with wrk for a few seconds each; longer than
a copy lasts, so that what it takes to renew one is in it. Printed are medians over the rounds, and medians of the ratio to
the static file of the same round: 1.05 was mod_mcpage's. Every body is compared before and after each visit.

Needs a quiet machine, and Debian's memcached, nginx-light and wrk. With the defaults it takes 13 minutes:

    cargo build --release -p larder
    scripts/remote-figures.py --larder target/release/larder

Where others use the machine, too, short visits in many rounds say more about a ratio: what stalls it then falls on few of them.
(Of each visit of a second to local+remote, the renewal of a copy is a part.)

    scripts/remote-figures.py --larder target/release/larder --seconds 1 --rounds 50 --only "static file,memory,local+remote"
"""

import argparse
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from fleet_house import HOST, House, Origin, ask, free_port, until

CONNECTIONS = (1, 5)
MODES = ("static file", "memory", "local+remote", "remote only", "no cache")
# mod_mcpage's mean for 1 and 5 connections, and its 95th percentile for 5, in milliseconds.
ORIGINAL = {
    "local+remote": (4.004, 3.926, 135),
    "remote only": (13.878, 13.359, 90),
    "no cache": (778.267, 718.912, 3766),
}

REPORT = """
local targets, at = {}, 0
for line in io.lines("%(targets)s") do targets[#targets + 1] = line end
request = function()
  at = at %% #targets + 1
  return wrk.format("GET", targets[at])
end
done = function(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format("RESULT %%d %%d %%f %%d %%d %%d %%d\\n", summary.requests, failed, latency.mean,
    latency:percentile(50), latency:percentile(95), latency:percentile(99), latency.max))
end
"""


class Bench(House):
    def __init__(self, options, directory):
        super().__init__(options.larder, directory)
        self.options = options
        self.body = (b"<p>All work and no play makes a page.</p>\n" * (options.size // 42 + 1))[: options.size]

    def nginx(self):
        port, root = free_port(), self.directory / "root"
        root.mkdir()
        (root / "page.html").write_bytes(self.body)
        # Its workers may not be root's.
        for path in (self.directory, root):
            path.chmod(0o755)
        config = self.directory / "nginx.conf"
        config.write_text(
            f"daemon off; worker_processes 1; pid {self.directory}/nginx.pid; error_log stderr;\n"
            "events { worker_connections 256; }\n"
            "http { access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; types { text/html html; }\n"
            f"  open_file_cache max=100; server {{ listen {HOST}:{port}; root {root}; }} }}\n"
        )
        self.start("nginx", ["nginx", "-p", str(self.directory), "-c", str(config)], port)
        return port

    def visit(self, port, targets, connections, seconds):
        """One visit of wrk: requests, and mean, median, 95th, 99th percentile and longest in milliseconds."""
        if ask(port, targets[0]) != self.body:
            raise SystemExit("another body")
        listed = self.directory / "targets"
        listed.write_text("\n".join(targets) + "\n")
        script = self.directory / "report.lua"
        script.write_text(REPORT % {"targets": listed})
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "60s", "-H", "Host: site.test"]
        command += ["-s", str(script), f"http://{HOST}:{port}"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        result = re.search(r"RESULT (\d+) (\d+) (.*)", printed)
        if not result or result[2] != "0" or result[1] == "0":
            raise SystemExit(f"wrk failed:\n{printed}")
        if ask(port, targets[-1]) != self.body:
            raise SystemExit("another body")
        return int(result[1]), [float(value) / 1000 for value in result[3].split()]


def prepare(bench):
    """Port, targets, and how to count the lookups, of each mode."""
    options = bench.options
    origin = Origin(bench.body, options.delay)
    servers = ", ".join(f'"{bench.memcached(number)}"' for number in range(3))
    patient = 'budget = "10s"\nread_timeout = "10s"\nqueue = 100000'
    writer, sending = bench.larder("writer", origin, f"[remote]\nservers = [{servers}]\n{patient}")
    filled = [f"/fill/{number}" for number in range(options.pages)]
    for target in ["/page.html", *filled]:
        ask(writer, target)
    until("pages in the fleet", lambda: bench.counted(sending, "writer", "stores") > options.pages, 120)
    common = f"[remote]\nservers = [{servers}]\nread_only = true\n"
    both = bench.larder("both", origin, common)
    remote = bench.larder("remote", origin, common + 'local_copy = "100ms"')
    memory, _ = bench.larder("memory", origin)
    passing, _ = bench.larder("passing", origin, rule="pass = true")
    page = ["/page.html"]

    def lookups(name, process):
        return lambda: bench.counted(process, name, "lookups") if name else 0

    return {
        "static file": (bench.nginx(), page, None),
        "memory": (memory, page, None),
        "local+remote": (both[0], page, lookups("both", both[1])),
        "remote only": (remote[0], filled, lookups("remote", remote[1])),
        "no cache": (passing, page, None),
    }


def run(bench):
    options, modes = bench.options, prepare(bench)
    visits = {(mode, connections): [] for mode in options.only for connections in CONNECTIONS}
    asked = {key: [0, 0] for key in visits}
    for mode in options.only:
        bench.visit(*modes[mode][:2], 1, 1)
    for number in range(options.rounds):
        order = list(visits)
        random.shuffle(order)
        for mode, connections in order:
            port, targets, lookups = modes[mode]
            before = lookups() if lookups else 0
            requests, times = bench.visit(port, targets, connections, options.seconds)
            visits[mode, connections].append(times)
            asked[mode, connections][0] += (lookups() if lookups else 0) - before
            asked[mode, connections][1] += requests
        print(f"round {number + 1} of {options.rounds}, load {os.getloadavg()[0]:.2f}", file=sys.stderr)
    return visits, asked


def spread(ratios):
    """Median and quartiles."""
    if len(ratios) < 2:
        return f"{ratios[0]:.2f}"
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def table(visits, asked):
    print("| answered from | connections | mean ms | p50 | p95 | p99 | longest | mean / static file | p95 / static file | asked the fleet | mod_mcpage |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for (mode, connections), rounds in visits.items():
        static = visits["static file", connections]
        ratio = [spread([own[at] / base[at] for own, base in zip(rounds, static)]) for at in (0, 2)]
        middle = [statistics.median(times) for times in zip(*rounds)]
        lookups, requests = asked[mode, connections]
        original = ORIGINAL.get(mode)
        was = "" if not original else f"mean {original[0]}" if connections == 1 else f"mean {original[1]}, p95 {original[2]}"
        times = " | ".join(f"{time:.3f}" for time in middle)
        print(f"| {mode} | {connections} | {times} | {ratio[0]} | {ratio[1]} | {lookups} of {requests} | {was} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--larder", type=pathlib.Path, default=pathlib.Path("target/release/larder"))
    parser.add_argument("--rounds", type=int, default=10, help="rounds (10)")
    parser.add_argument("--seconds", type=int, default=7, help="seconds of each visit, longer than a copy lasts (7)")
    parser.add_argument("--pages", type=int, default=10000, help="pages asked in turn where the fleet answers (10000)")
    parser.add_argument("--size", type=int, default=26510, help="bytes of a page (26510)")
    parser.add_argument("--delay", type=float, default=0.2, help="seconds a page takes at the origin (0.2)")
    parser.add_argument("--only", default=",".join(MODES), help="these alone, the static file among them (all)")
    options = parser.parse_args()
    options.only = options.only.split(",")
    if MODES[0] not in options.only or not set(options.only) <= set(MODES):
        raise SystemExit(f"--only takes {MODES[0]!r} and others of {', '.join(MODES[1:])}")
    options.larder = options.larder.resolve()
    missing = [name for name in ("memcached", "nginx", "wrk") if not shutil.which(name)]
    if missing or not options.larder.is_file():
        raise SystemExit(f"not found: {', '.join(missing) or options.larder}")
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(options, pathlib.Path(directory))
        try:
            visits, asked = run(bench)
        finally:
            bench.end()
    table(visits, asked)


if __name__ == "__main__":
    main()
