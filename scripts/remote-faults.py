#!/usr/bin/env python3
"""What a server of the fleet costs that dies, freezes, slows down or refuses, in milliseconds a client waits.

Three servers (memcached, stand-alone Redis, or a Redis Cluster of three masters), two Larders of one thread before them, an origin
that answers at once. `larder bench http` asks both Larders for pages at a fixed rate, open loop: latency counts from when a request was
due, and bodies are compared. Every page lies in the fleet and is asked for there again after 100 ms (the shortest `local_copy`). At
3.2 s something befalls one of the servers:

  kill     kill -9
  freeze   SIGSTOP
  slow     each of its answers comes 300 ms later, above every timeout (by `larder slow` before it)
  refuse   its connections are reset, new ones as well (the same)

Each fault befalls each server in turn, in a house of its own. Printed are, over these runs and both Larders: the median of the 99th
percentiles of the seconds before; of the second of the fault the worst 99th percentile and the longest answer; of the seconds after it
the median and the worst 99th percentile; and how many answers were errors or had other bytes. The other options of `[remote]` are the
defaults: a budget of 50 ms until the origin is asked as well, timeouts of 100 and 200 ms.

Needs Debian's memcached and redis-server. With the defaults it takes 8 minutes:

    cargo build --release -p larder
    scripts/remote-faults.py --larder target/release/larder
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from fleet_house import HOST, House, Origin, ask, free_port, until

FLEETS = ("memcached", "valkey", "valkey-cluster")
FAULTS = ("kill", "freeze", "slow", "refuse")
# When the fault comes, seconds after the load began; and the seconds that count as before and after.
AT, BEFORE, DURING, AFTER = 3.2, (1, 2), 3, (4, 5, 6, 7)
# Scripts of the proxies.
RULES = {
    "slow": '[[rule]]\ndelay = "300ms"\nper = "request"\ndirection = "to-client"\n',
    "refuse": '[[rule]]\nrefuse = true\n[[rule]]\nper = "request"\nreset = 0\n',
}


def redis(port, *words):
    """Says something to a Redis; gives the first line of the reply, and what follows."""
    with socket.create_connection((HOST, port), 5) as wire:
        wire.sendall((" ".join(words) + "\r\nQUIT\r\n").encode())
        return b"".join(iter(lambda: wire.recv(1 << 16), b"")).decode()


class Faulty(House):
    """A fleet of one kind, of which one server is to suffer."""

    def __init__(self, options, directory, fleet, fault, victim):
        super().__init__(options.larder, directory)
        self.options, self.fleet, self.fault, self.victim = options, fleet, fault, victim
        self.servers, self.ports, self.buses, self.proxy = [], [], [], None

    def server(self, number):
        """Starts a server, behind a proxy if it is the one that gets slow or refuses."""
        port, shown = free_port(), None
        if number == self.victim and self.fault in RULES:
            shown = free_port()
        if self.fleet == "memcached":
            command = ["memcached", "-u", "root", "-l", HOST, "-p", str(port), "-m", "256"]
        else:
            command = ["redis-server", "--port", str(port), "--bind", HOST, "--save", "", "--appendonly", "no"]
            command += ["--dir", str(self.directory), "--maxmemory", "256mb", "--maxmemory-policy", "allkeys-lru"]
        if self.fleet == "valkey-cluster":
            command += ["--cluster-enabled", "yes", "--cluster-config-file", f"nodes-{number}.conf"]
            self.buses.append(free_port())
            command += ["--cluster-port", str(self.buses[-1]), "--cluster-node-timeout", "1000"]
            command += ["--cluster-require-full-coverage", "no", "--cluster-announce-ip", HOST]
            command += ["--cluster-announce-port", str(shown or port)]
        self.servers.append(self.start(f"server{number}", command, port))
        if shown:
            (self.directory / "script").write_text("")
            slow = [str(self.options.larder), "slow", "--listen", f"{HOST}:{shown}", "--to", f"{HOST}:{port}"]
            slow += ["--script", str(self.directory / "script")]
            slow += ["--protocol", "memcached" if self.fleet == "memcached" else "redis"]
            self.proxy = self.start("proxy", slow, shown)
        self.ports.append((port, shown or port))

    def cluster(self):
        """Makes one cluster of the servers."""
        share = 16384 // 3 + 1
        first = self.ports[0][0]
        for number, (port, _) in enumerate(self.ports):
            redis(port, "CLUSTER", "ADDSLOTSRANGE", str(number * share), str(min((number + 1) * share, 16384) - 1))
            if number:
                redis(port, "CLUSTER", "MEET", HOST, str(first), str(self.buses[0]))

        def stands(port):
            said = redis(port, "CLUSTER", "INFO")
            # Known nodes do not know yet which slots each has: until then there are keys that nobody answers for.
            return "cluster_state:ok" in said and "cluster_size:3" in said and "cluster_slots_ok:16384" in said

        until("the cluster", lambda: all(stands(port) for port, _ in self.ports))

    def befall(self):
        if self.fault == "kill":
            self.servers[self.victim].kill()
        elif self.fault == "freeze":
            self.servers[self.victim].send_signal(signal.SIGSTOP)
        else:
            (self.directory / "script").write_text(RULES[self.fault])
            self.proxy.send_signal(signal.SIGHUP)

    def end(self):
        for server in self.servers:
            server.send_signal(signal.SIGCONT)
        super().end()

    def bench(self, port, name):
        report = self.directory / f"{name}.json"
        command = [str(self.options.larder), "bench", "http", f"http://{HOST}:{port}/", "--pattern", "/fill/{}"]
        command += ["--keys", str(self.options.pages), "--rate", str(self.options.rate), "--duration", f"{AFTER[-1] + 1}s"]
        command += ["-c", "16", "--check", "bytes", "--host", "site.test", "--json", str(report)]
        return report, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def run(self):
        """Reports of both Larders."""
        body = b"<p>All work and no play makes a page.</p>\n" * 100
        origin = Origin(body, 0)
        for number in range(3):
            self.server(number)
        if self.fleet == "valkey-cluster":
            self.cluster()
        servers = ", ".join(f'"{HOST}:{shown}"' for _, shown in self.ports)
        common = f'[remote]\nprotocol = "{self.fleet}"\nservers = [{servers}]\n'
        patient = 'budget = "10s"\nread_timeout = "10s"\n'
        writer, sending = self.larder("writer", origin, common + patient, memory="256MiB")
        for page in range(self.options.pages):
            ask(writer, f"/fill/{page}")
        until("pages in the fleet", lambda: self.counted(sending, "writer", "stores") >= self.options.pages, 60)
        short = common + 'local_copy = "100ms"\n'
        larders = [self.larder(name, origin, short, memory="256MiB") for name in ("one", "two")]
        for port, _ in larders:
            for page in range(self.options.pages):
                ask(port, f"/fill/{page}")
        loads = [self.bench(port, f"load{number}") for number, (port, _) in enumerate(larders)]
        time.sleep(AT)
        self.befall()
        for _, load in loads:
            _, said = load.communicate(timeout=60)
            if load.returncode not in (0, 1):
                raise SystemExit(f"larder bench: {said}")
        return [json.loads(report.read_text()) for report, _ in loads]


def measure(options, fleet, fault):
    """Seconds of every run of a fault, and answers that were errors or wrong."""
    reports = []
    for victim in range(3):
        with tempfile.TemporaryDirectory() as directory:
            house = Faulty(options, pathlib.Path(directory), fleet, fault, victim)
            try:
                reports += house.run()
            finally:
                house.end()
        print(f"{fleet}, {fault}, server {victim + 1}: load {os.getloadavg()[0]:.2f}", file=sys.stderr)
    return reports


def row(fleet, fault, reports):
    def of(seconds, what="p99_ns"):
        return [second[what] / 1e6 for report in reports for second in report["seconds"] if second["second"] in seconds]

    failed = sum(report["errors_total"] + report["wrong"] for report in reports)
    requests = sum(report["requests"] for report in reports)
    before, during, after = of(BEFORE), of((DURING,)), of(AFTER)
    times = [statistics.median(before), max(during), max(of((DURING,), "max_ns")), statistics.median(after), max(after)]
    print(f"| {fleet} | {fault} | " + " | ".join(f"{time:.1f}" for time in times) + f" | {failed} of {requests:,} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--larder", type=pathlib.Path, default=pathlib.Path("target/release/larder"))
    parser.add_argument("--fleets", nargs="+", choices=FLEETS, default=FLEETS)
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS)
    parser.add_argument("--rate", type=int, default=300, help="requests a second to each Larder (300)")
    parser.add_argument("--pages", type=int, default=150, help="pages in the fleet (150)")
    options = parser.parse_args()
    options.larder = options.larder.resolve()
    missing = [name for name in ("memcached", "redis-server") if not shutil.which(name)]
    if missing or not options.larder.is_file():
        raise SystemExit(f"not found: {', '.join(missing) or options.larder}")
    print("| fleet | fault | p99 before, ms | p99 in its second | longest in it | p99 after, median | p99 after, worst | failed or wrong |")
    print("|---|---|---|---|---|---|---|---|")
    for fleet in options.fleets:
        for fault in options.faults:
            row(fleet, fault, measure(options, fleet, fault))


if __name__ == "__main__":
    main()
