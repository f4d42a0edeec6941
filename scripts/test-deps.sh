#!/usr/bin/env bash
# Installs what the tests need and only what is missing: Debian packages (MediaWiki and WordPress with PHP, memcached, Redis and their
# clients, the servers of bench/packages.txt, Chromium, Node.js, a C++ compiler), the cache suite and the dashboard's tools from npm, Django from PyPI,
# cargo-deny. As root it needs no sudo.
# Where systemd runs, Debian starts the memcached, the Redis and the databases it installs. The tests start their own on other ports;
# `systemctl disable --now memcached redis-server mariadb postgresql` ends those.
set -euo pipefail
cd "$(dirname "$0")/.."

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

missing=()
while read -r package; do
    dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done < <(sed 's/#.*//; /^[[:space:]]*$/d' tests/{mediawiki,wordpress,clients,dashboard,lab,package}/packages.txt bench/packages.txt)
# Node.js may come from elsewhere than Debian.
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
command -v curl >/dev/null || missing+=(curl)
command -v openssl >/dev/null || missing+=(openssl)
# libFuzzer is C++.
command -v c++ >/dev/null || missing+=(g++)
if [ ${#missing[@]} -gt 0 ]; then
    echo "installing: ${missing[*]}"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
fi

# The cache suite; what builds the dashboard and drives the browser; a program with queues in Redis.
for suite in tests/http-cache-tests tests/dashboard tests/clients/bullmq; do
    if ! cmp -s "$suite/package-lock.json" "$suite/node_modules/.larder-lock"; then
        echo "installing: npm packages of $suite"
        npm ci --prefix "$suite" --ignore-scripts --no-audit --no-fund --loglevel=error
        cp "$suite/package-lock.json" "$suite/node_modules/.larder-lock"
    fi
done

# Debian's Django may be older than Django's own Redis cache. Into a directory of the tests' own, which Debian's pip
# allows; the versions are fixed so that every machine tests the same.
django=tests/.cache/python
if [ ! -f "$django/django/core/cache/backends/redis.py" ]; then
    echo "installing: Django"
    /usr/bin/python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps \
        --target "$django" django==4.2.30 asgiref==3.13.0 sqlparse==0.6.1
fi

# Programs in Python with queues in Redis.
queues=tests/.cache/queues
if [ ! -d "$queues/celery" ]; then
    echo "installing: RQ and Celery"
    /usr/bin/python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
        --target "$queues" rq==2.6.1 celery==5.5.3 redis==5.2.1
fi

# A client of Kestrel's queues in Python.
kestrel=tests/.cache/kestrel
if [ ! -d "$kestrel/kestrel" ]; then
    echo "installing: pykestrel"
    /usr/bin/python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps \
        --target "$kestrel" pykestrel==0.5.1 python-memcached==1.62
fi

# A responder of FastCGI in Python.
flup=tests/.cache/flup
if [ ! -d "$flup/flup" ]; then
    echo "installing: flup"
    /usr/bin/python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps \
        --target "$flup" flup==1.0.3
fi

# Decoders of bodies that are compressed with a dictionary.
dictionary=tests/.cache/dictionary
if [ ! -d "$dictionary/zstandard" ]; then
    echo "installing: decoders of brotli and zstd"
    /usr/bin/python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps \
        --target "$dictionary" brotli==1.2.0 zstandard==0.25.0
fi

# What OpenTelemetry itself says its messages are.
otlp=tests/.cache/otlp
if [ ! -d "$otlp/opentelemetry/proto" ]; then
    echo "installing: OpenTelemetry's messages"
    /usr/bin/python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps \
        --target "$otlp" opentelemetry-proto==1.33.1 protobuf==5.29.5
fi

# Says whether docs/openapi.json is what it says it is.
openapi=tests/.cache/openapi
if [ ! -d "$openapi/openapi_spec_validator" ]; then
    echo "installing: OpenAPI's validator"
    /usr/bin/python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
        --target "$openapi" openapi-spec-validator==0.7.1
fi

# A client of HTTP/3.
http3=tests/.cache/http3
if [ ! -d "$http3/aioquic" ]; then
    echo "installing: aioquic"
    /usr/bin/python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
        --target "$http3" aioquic==1.2.0
fi

# A client of HTTP/2.
http2=tests/.cache/http2
if [ ! -d "$http2/httpx" ]; then
    echo "installing: httpx"
    /usr/bin/python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
        --target "$http2" 'httpx[http2]==0.28.1'
fi

# The conformance suite of HTTP/2; the authority of Let's Encrypt for tests of ACME, and its name server. They want Go 1.24;
# Go from 1.21 on fetches that itself, Debian 12's does not.
need_go() {
    command -v go >/dev/null || as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends golang-go >/dev/null
}
pebble=github.com/letsencrypt/pebble/v2/cmd
for module in github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible $pebble/pebble@v2.10.1 $pebble/pebble-challtestsrv@v2.10.1; do
    program=$(basename "${module%@*}")
    if [ ! -x "tests/.cache/go/bin/$program" ]; then
        echo "installing: $program"
        need_go
        GOBIN="$PWD/tests/.cache/go/bin" go install "$module"
    fi
done

# Clients in Go, among them quic-go's.
clients=tests/.cache/go/bin/clients
if [ ! -x "$clients" ] || [ tests/clients/go/main.go -nt "$clients" ] || [ tests/clients/go/go.mod -nt "$clients" ]; then
    echo "installing: clients in Go"
    need_go
    (cd tests/clients/go && go build -o ../../.cache/go/bin/clients .)
fi

if ! cargo deny --version >/dev/null 2>&1; then
    echo "installing: cargo-deny"
    # Not optimised: it builds in a minute instead of five and runs in one second.
    # The version is fixed so that a newer one cannot ask for a newer compiler than there is.
    cargo install cargo-deny --version 0.20.2 --locked --debug --quiet
fi
