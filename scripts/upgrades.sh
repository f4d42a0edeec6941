#!/usr/bin/env bash
# Fifty upgrades (or as many as the argument says) under load of HTTP/1, HTTP/2, memcached and Redis:
# no request may fail, and no page be fetched again.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build -p larder
LARDER_UPGRADES="${1:-50}" cargo test -p larder-tests --test kept upgrade::no_request_fails_under_load \
    -- --nocapture
