#!/usr/bin/env python3
"""Runs the test suites of Redis clients, unchanged, against redis-server and against Larder.

    scripts/client-suites.py fetch [suite ...]
    scripts/client-suites.py run [--larder target/debug/larder] [suite ...]

`fetch` gets the suites from PyPI, the Go module proxy, crates.io and Debian, and builds them; `run`
needs root and no network: each suite runs in a network namespace of its own, on the ports it
expects. Both servers are started with the same options. Counted are the tests that pass with
redis-server: those that pass with Larder too, and the others, by name. Left out for both are
clusters, sentinels, replicas, TLS and modules.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve()
# Seconds that a suite may take.
PATIENCE = 900
COLOURS = re.compile(r"\x1b\[[0-9;]*m")

VERSIONS = {
    "redis-py": "6.4.0",
    "go-redis": "v9.14.0",
    "redigo": "v1.9.2",
    "rueidis": "v1.0.64",
    "redis-rs": "0.27.6",
    "phpredis": "5.3.7",
    "hiredis": "0.14.1",
    "Redis.pm": "2.000",
}
GO_MODULES = {
    "go-redis": "github.com/redis/go-redis/v9",
    "redigo": "github.com/gomodule/redigo",
    "rueidis": "github.com/redis/rueidis",
}
GO_PACKAGES = {"go-redis": ".", "redigo": "./redis", "rueidis": "."}
DEBIAN_SOURCES = {"phpredis": "php-redis", "hiredis": "hiredis", "Redis.pm": "libredis-perl"}
# Debian packages that the suites of Perl and PHP need.
DEBIAN_PACKAGES = {
    "phpredis": ["php-cli", "php-redis", "php-igbinary"],
    "hiredis": ["gcc", "make"],
    "Redis.pm": [
        "libredis-perl", "libtest-deep-perl", "libtest-fatal-perl", "libtest-sharedfork-perl",
        "libtest-tcp-perl", "libio-string-perl",
    ],
}
PYTHON_PACKAGES = [
    "pytest==8.3.5", "pytest-asyncio==0.24.0", "pytest-timeout==2.3.1", "pytest-json-report==1.5.0",
    "pytest-cov", "mock", "numpy", "packaging", "cachetools", "xxhash", "redis-entraid==1.0.0",
]
RUST_TESTS = ["acl", "async", "basic", "bignum", "geospatial", "script", "streams", "types"]
RUST_FEATURES = "tokio-comp,connection-manager"
# Without clusters, sentinels, TLS, replicas and modules.
PYTHON_MARKS = (
    "not onlycluster and not redismod and not ssl and not replica and not cp_integration"
)
PYTHON_LEFT_OUT = ["cluster", "sentinel", "search", "json", "timeseries", "bloom"]
GO_LEFT_OUT = [
    "osscluster", "sentinel", "search", "search_builders", "json", "probabilistic",
    "timeseries_commands", "vectorset",
]


def sh(*words, **more):
    subprocess.run([str(word) for word in words], check=True, **more)


def output_of(words, seconds=PATIENCE, **more):
    """What a suite prints; one that takes too long is ended and says so."""
    suite = subprocess.Popen(
        [str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", start_new_session=True, **more,
    )
    try:
        printed, _ = suite.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(suite.pid, signal.SIGKILL)
        printed = suite.communicate()[0] + "\nthe suite took too long\n"
    return COLOURS.sub("", printed)


# ---- getting the suites

def fetch(name, folder):
    place = folder / name
    if (place / "fetched").exists():
        return
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if name == "redis-py":
        fetch_python(place)
    elif name in GO_MODULES:
        fetch_go(name, place)
    elif name == "redis-rs":
        fetch_rust(place)
    else:
        fetch_debian(name, place)
    (place / "fetched").touch()


def fetch_python(place):
    version = VERSIONS["redis-py"]
    sh(sys.executable, "-m", "venv", place / "venv")
    python = place / "venv/bin/python"
    sh(python, "-m", "pip", "install", "--quiet", *PYTHON_PACKAGES)
    sh(python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
       "--dest", place, f"redis=={version}")
    sh("tar", "xzf", place / f"redis-{version}.tar.gz", "-C", place, "--strip-components=1")


def fetch_go(name, place):
    module = f"{GO_MODULES[name]}@{VERSIONS[name]}"
    found = subprocess.check_output(["go", "mod", "download", "-json", module], text=True)
    shutil.copytree(json.loads(found)["Dir"], place / "source")
    sh("chmod", "-R", "u+w", place / "source")
    sh("go", "test", "-c", "-o", place / "suite", GO_PACKAGES[name], cwd=place / "source")


def fetch_rust(place):
    """The crate as cargo unpacks it for a package that depends on it."""
    stub = place / "stub"
    (stub / "src").mkdir(parents=True)
    (stub / "src/lib.rs").touch()
    (stub / "Cargo.toml").write_text(
        '[package]\nname = "stub"\nversion = "0.0.0"\nedition = "2021"\n\n[workspace]\n\n'
        f'[dependencies]\nredis = "={VERSIONS["redis-rs"]}"\n'
    )
    sh("cargo", "fetch", "--quiet", cwd=stub)
    told = subprocess.check_output(["cargo", "metadata", "--format-version=1"], cwd=stub)
    manifest = next(
        package["manifest_path"] for package in json.loads(told)["packages"]
        if package["name"] == "redis"
    )
    shutil.copytree(pathlib.Path(manifest).parent, place / "source")
    # It is no part of the workspace that the folder may lie in.
    with open(place / "source/Cargo.toml", "a") as own:
        own.write("\n[workspace]\n")
    tests = [word for test in RUST_TESTS for word in ("--test", f"test_{test}")]
    sh("cargo", "test", "--locked", "--no-run", "--features", RUST_FEATURES, *tests,
       cwd=place / "source",
       env={**os.environ, "CARGO_TARGET_DIR": str(place / "target"),
            "CARGO_PROFILE_TEST_DEBUG": "0", "CARGO_PROFILE_DEV_DEBUG": "0"})


def fetch_debian(name, place):
    """A source package, through lists of packages of its own: the machine's lack the sources."""
    known = ["dpkg-query", "--show", "--showformat=${db:Status-Status}\n"]
    for package in DEBIAN_PACKAGES[name]:
        state = subprocess.run([*known, package], capture_output=True, text=True).stdout.split()
        if state != ["installed"]:
            sh("apt-get", "install", "-qq", "-y", "--no-install-recommends", package)
    apt = place / "apt"
    (apt / "lists/partial").mkdir(parents=True)
    (apt / "cache/archives/partial").mkdir(parents=True)
    (apt / "debian.sources").write_text(
        "Types: deb-src\nURIs: http://deb.debian.org/debian\nSuites: bookworm\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    )
    own = [
        "-o", f"Dir::Etc::sourcelist={apt}/debian.sources", "-o", "Dir::Etc::sourceparts=/dev/null",
        "-o", f"Dir::State::lists={apt}/lists", "-o", f"Dir::Cache={apt}/cache",
        "-o", "APT::Sandbox::User=root",
    ]
    sh("apt-get", *own, "-qq", "update")
    # The patches of Debian are of no use here: the original source is enough.
    subprocess.run(
        ["apt-get", *own, "-qq", "source", "--download-only", "--only-source",
         DEBIAN_SOURCES[name]], cwd=place, check=False,
    )
    (place / "source").mkdir()
    strip = [] if name == "phpredis" else ["--strip-components=1"]
    for archive in place.glob("*.orig.tar.*"):
        sh("tar", "xf", archive, "-C", place / "source", *strip)
    if name == "hiredis":
        sh("make", "-s", "hiredis-test", cwd=place / "source")


# ---- servers

class Place:
    """Where a suite runs: the kind of server, and the programs."""

    def __init__(self, kind, options):
        self.kind = kind
        self.options = options
        self.folder = options.folder.resolve()
        self.work = self.folder / "work" / kind
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)

    @contextlib.contextmanager
    def server(self, port, *more, kind=None):
        """A server on a port; `kind` where the suite wants Redis itself beside the tested one."""
        kind = kind or self.kind
        words = ["--port", port, "--save", "", "--bind", "127.0.0.1", *more]
        if kind == "redis":
            words = [self.options.redis, *words, "--dir", self.work]
            words += ["--enable-debug-command", "yes", "--dbfilename", f"{port}.rdb"]
        else:
            words = [self.options.larder, "redis", *words, "--memory", self.options.memory]
        with open(self.work / f"{port}.log", "w") as log, running(words, port, self.work, log):
            yield

    def environment(self):
        """For suites that start `redis-server` themselves: that name is the tested server."""
        found = self.work / "bin"
        found.mkdir(exist_ok=True)
        stand_in = found / "redis-server"
        if self.kind == "redis":
            stand_in.write_text(f'#!/bin/sh\nexec {self.options.redis} "$@"\n')
        else:
            stand_in.write_text(
                f'#!/bin/sh\nexec {sys.executable} {HERE} as-server {self.options.larder} "$@"\n'
            )
        stand_in.chmod(0o755)
        return {**os.environ, "PATH": f"{found}:{os.environ['PATH']}"}


@contextlib.contextmanager
def running(words, port, folder, log):
    process = subprocess.Popen(
        [str(word) for word in words], stdout=log, stderr=subprocess.STDOUT, cwd=folder
    )
    try:
        wait_for(port, process)
        yield
    finally:
        process.terminate()
        process.wait()


def wait_for(port, server):
    for _ in range(600):
        if server.poll() is not None:
            raise SystemExit(f"a server has ended: {server.args}")
        try:
            socket.create_connection(("127.0.0.1", int(port)), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"a server does not listen: {server.args}")


def as_server(larder, words):
    """Larder in the place of redis-server: a file of options, and its line of readiness."""
    if words[:1] == ["--version"]:
        print("Redis server v=7.0.15 sha=00000000:0 malloc=none bits=64 build=0")
        return
    if words and not words[0].startswith("--"):
        lines = pathlib.Path(words[0]).read_text().splitlines()
        from_file = [line.split() for line in lines if line.strip()]
        words = [part for name, *values in from_file for part in (f"--{name}", *values)] + words[1:]
    if "--unixsocket" in words:
        # Redis replaces whatever file is there; Larder a socket without a program only.
        unix = pathlib.Path(words[words.index("--unixsocket") + 1])
        if unix.is_file():
            unix.unlink()
    port = int(words[words.index("--port") + 1]) if "--port" in words else 6379
    if port and os.fork() == 0:
        for _ in range(200):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                print("1:M 01 Jan 2026 00:00:00.000 * Ready to accept connections", flush=True)
                break
            time.sleep(0.02)
        os._exit(0)
    os.execv(larder, [larder, "redis", *words])


# ---- running the suites: each gives the outcome of every test by its name

def run_python(place, protocol):
    source = place.folder / "redis-py"
    report = place.work / f"redis-py-{protocol}.json"
    words = [source / "venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider",
             "--json-report", f"--json-report-file={report}", "-m", PYTHON_MARKS,
             "--protocol", protocol]
    for part in PYTHON_LEFT_OUT:
        words += [f"--ignore=tests/test_{part}.py", f"--ignore=tests/test_asyncio/test_{part}.py"]
    with place.server(6379):
        printed = output_of([*words, "tests"], cwd=source)
    outcomes = {}
    for test in json.loads(report.read_text())["tests"] if report.exists() else []:
        # A test that passes although it is expected to fail depends on time: left out.
        if test["outcome"] in ("passed", "failed", "error"):
            outcomes[test["nodeid"]] = test["outcome"] == "passed"
    return outcomes, printed


def run_go_redis(place):
    """The suite wants a ring of three servers beside its server; its start also asks for
    sentinels and a cluster, which are Redis's own in both runs, and whose tests are left out."""
    report = place.work / "go-redis.json"
    words = [place.folder / "go-redis/suite", "-test.timeout", f"{PATIENCE}s",
             "--ginkgo.json-report", report, "--ginkgo.no-color", "--ginkgo.seed", "1"]
    words += [f"--ginkgo.skip-file={part}_test.go" for part in GO_LEFT_OUT]
    words += ["-test.run", "TestGinkgoSuite"]
    words += ["--ginkgo.skip", "[Cc]luster|Failover|[Ss]entinel"]
    with contextlib.ExitStack() as servers:
        for port in [6379, 6390, 6391, 6392]:
            servers.enter_context(place.server(port))
        for port in [9121, 9122, 9123]:
            servers.enter_context(place.server(port, kind="redis"))
        for port in range(16600, 16606):
            servers.enter_context(place.server(
                port, "--cluster-enabled", "yes", "--cluster-config-file", f"{port}.conf",
                kind="redis",
            ))
        for port in [26379, 26380, 26381]:
            (place.work / f"{port}.conf").write_text("")
            servers.enter_context(sentinel(place, port))
        printed = output_of(words, cwd=place.folder / "go-redis/source",
                            env={**os.environ, "REDIS_VERSION": "7.0"})
    outcomes = {}
    specs = json.loads(report.read_text())[0]["SpecReports"] if report.exists() else []
    for spec in specs or []:
        name = " ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])
        if spec["LeafNodeType"] == "It" and spec["State"] in ("passed", "failed", "panicked"):
            outcomes[name] = spec["State"] == "passed"
    return outcomes, printed


@contextlib.contextmanager
def sentinel(place, port):
    words = [place.options.redis, place.work / f"{port}.conf", "--port", port, "--sentinel"]
    with running(words, port, place.work, subprocess.DEVNULL):
        yield


def run_go(place, name, pattern, *ports):
    with contextlib.ExitStack() as servers:
        for port in ports:
            servers.enter_context(place.server(port))
        printed = output_of([place.folder / name / "suite", "-test.v", "-test.run", pattern],
                            cwd=place.folder / name / "source", env=place.environment())
    lines = re.findall(r"^\s*--- (PASS|FAIL): (\S+)", printed, re.M)
    return {name: outcome == "PASS" for outcome, name in lines}, printed


def run_rust(place, protocol):
    outcomes, printed = {}, ""
    for test in RUST_TESTS:
        built = place.folder.glob(f"redis-rs/target/debug/deps/test_{test}-*")
        program = max((path for path in built if not path.suffix), key=os.path.getmtime)
        one = output_of([program, "--test-threads", "1"], cwd=place.folder / "redis-rs/source",
                        env={**place.environment(), "PROTOCOL": protocol})
        for name, outcome in re.findall(r"^test (\S+).* \.\.\. (ok|FAILED)$", one, re.M):
            # Those of the suite's own helpers ask no server, and depend on time.
            if not name.startswith("support::"):
                outcomes[f"{test}: {name}"] = outcome == "ok"
        printed += one
    return outcomes, printed


def run_php(place):
    environment = {**os.environ, "TEST_PHP_ARGS": "-d display_errors=0"}
    # Where a test looks for it.
    unix = pathlib.Path(tempfile.gettempdir()) / "redis.sock"
    with place.server(6379, "--unixsocket", unix):
        printed = output_of(
            ["php", "-d", "error_reporting=0", "TestRedis.php", "--nocolors", "--class", "Redis"],
            cwd=next(place.folder.glob(f"phpredis/source/**/redis-{VERSIONS['phpredis']}/tests")),
            env=environment,
        )
    # Notices of PHP may stand between a test's name and its outcome.
    lines = re.findall(r"^(test\w+) .*?\[(PASSED|FAILED|SKIPPED)\]$", printed, re.M | re.S)
    outcomes = {name: outcome == "PASSED" for name, outcome in lines if outcome != "SKIPPED"}
    return outcomes, printed


def run_hiredis(place):
    unix = place.work / "hiredis.sock"
    with place.server(6379, "--unixsocket", unix):
        printed = output_of(["./hiredis-test", "-h", "127.0.0.1", "-p", "6379", "-s", unix],
                            cwd=place.folder / "hiredis/source")
    lines = re.findall(r"^#(\d+) ([^#\n]*): (PASSED|FAILED)", printed, re.M)
    return {f"{number} {name}": outcome == "PASSED" for number, name, outcome in lines}, printed


def run_perl(place):
    source = place.folder / "Redis.pm/source"
    outcomes, printed = {}, ""
    for test in sorted(source.glob("t/[0-9]*.t")):
        one = output_of(["perl", "-Ilib", "-It/tlib", test], cwd=source, env=place.environment())
        for outcome, number, name in re.findall(r"^(ok|not ok) (\d+)(?: - (.*))?$", one, re.M):
            outcomes[f"{test.stem} {number} {name}"] = outcome == "ok"
        printed += one
    return outcomes, printed


RUNS = {
    "redis-py": {"RESP2": lambda place: run_python(place, "2"),
                 "RESP3": lambda place: run_python(place, "3")},
    "go-redis": {"": run_go_redis},
    "redigo": {"": lambda place: run_go(place, "redigo", ".")},
    "rueidis": {"": lambda place: run_go(place, "rueidis", "^TestSingleClientIntegration", 6379)},
    "redis-rs": {"RESP2": lambda place: run_rust(place, "RESP2"),
                 "RESP3": lambda place: run_rust(place, "RESP3")},
    "phpredis": {"": run_php},
    "hiredis": {"": run_hiredis},
    "Redis.pm": {"": run_perl},
}


def run_one(kind, name, how, options):
    """In a network namespace of its own, which ends with the process: this program again."""
    words = ["unshare", "--net", sys.executable, HERE, "inside", "--folder", options.folder,
             "--larder", options.larder, "--redis", options.redis, "--memory", options.memory,
             name, kind, how]
    subprocess.run([str(word) for word in words], check=True)
    kept = options.folder / "results" / f"{name}-{how}-{kind}.json"
    return json.loads(kept.read_text())


def inside(options):
    name, kind, how = options.suites
    sh("ip", "link", "set", "lo", "up")
    results = options.folder / "results"
    results.mkdir(exist_ok=True)
    outcomes, printed = RUNS[name][how](Place(kind, options))
    (results / f"{name}-{how}-{kind}.log").write_text(printed)
    (results / f"{name}-{how}-{kind}.json").write_text(json.dumps(outcomes))


def run(options):
    total = [0, 0]
    print("| client | tests | pass with Redis | of these with Larder | not with Larder |")
    print("|---|---|---|---|---|", flush=True)
    for name in options.suites or VERSIONS:
        for how in RUNS[name]:
            kept = options.folder / "results" / f"{name}-{how}-redis.json"
            if options.known and kept.exists():
                with_redis = json.loads(kept.read_text())
            else:
                with_redis = run_one("redis", name, how, options)
            with_larder = run_one("larder", name, how, options)
            good = [test for test, passed in with_redis.items() if passed]
            missing = [test for test in good if not with_larder.get(test)]
            total[0] += len(good) - len(missing)
            total[1] += len(missing)
            print(f"| {name} {VERSIONS[name]} {how} | {len(with_redis)} | {len(good)} "
                  f"| {len(good) - len(missing)} | {'; '.join(missing)} |", flush=True)
    print(f"{total[0]} passed, {total[1]} failed")
    return 1 if total[1] else 0


def main():
    if sys.argv[1:2] == ["as-server"]:
        return as_server(sys.argv[2], sys.argv[3:])
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("what", choices=["fetch", "run", "inside"])
    options.add_argument("--folder", type=pathlib.Path, default="target/client-suites",
                         help="where the suites and results are kept")
    options.add_argument("--larder", default="target/debug/larder")
    options.add_argument("--redis", default=shutil.which("redis-server") or "redis-server")
    options.add_argument("--memory", default="1GiB",
                         help="of Larder; a value may have half of it, and a suite wants 256 MiB")
    options.add_argument("--known", action="store_true",
                         help="take what passed with Redis from the last run")
    options.add_argument("suites", nargs="*")
    options = options.parse_intermixed_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    options.folder = options.folder.resolve()
    options.larder = str(pathlib.Path(options.larder).resolve())
    if options.what == "inside":
        return inside(options)
    if unknown := set(options.suites) - set(VERSIONS):
        raise SystemExit(f"no such suite: {', '.join(sorted(unknown))}")
    if options.what == "run":
        return run(options)
    for name in options.suites or VERSIONS:
        print(f"getting {name} {VERSIONS[name]}", flush=True)
        fetch(name, options.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
