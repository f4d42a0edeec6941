#!/usr/bin/env bash
# Kills each of three PHP processes every second under load, for a minute (or as many seconds as given): no visitor's request
# may fail. CI runs the short form of the same test.
#
#   scripts/kill-apps.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build -p larder
LARDER_KILL_SECONDS="${1:-60}" cargo test -p larder-tests --test sources apps_hostile::while_processes_are_killed -- --nocapture
