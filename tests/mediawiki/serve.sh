#!/bin/sh
# Serves the wiki that setup.sh made, with PHP's built-in server and four workers, as an origin for Larder.
#
#   serve.sh DIR ADDR [CDN_ADDR [SERVER_URL]]     (LARDER_MW_HTCP, LARDER_MW_MEMCACHED and LARDER_MW_CLIENT: see LocalSettings.php)
#
# ADDR is where it listens (host:port), CDN_ADDR where Larder does and purges go. Each request adds a line to
# DIR/origin.log (see count.php). Stop the whole process group: the workers do not end with their parent.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
wiki="$here/../../crates/lab/src/mediawiki/wiki"
dir=$(cd "$1" && pwd)

export MW_INSTALL_PATH="${MW_INSTALL_PATH:-/usr/share/mediawiki}" MW_CONFIG_FILE="$wiki/LocalSettings.php"
export LARDER_MW_DIR="$dir" LARDER_MW_CDN="${3:-}" LARDER_MW_SERVER="${4:-http://wiki.test}"
export LARDER_MW_LOG="$dir/origin.log" PHP_CLI_SERVER_WORKERS=4

# Without PHP's own output buffer MediaWiki compresses for clients that ask for it: both variants get tested.
exec php -d opcache.enable_cli=1 -d output_buffering=0 -S "$2" -t "$MW_INSTALL_PATH" "$wiki/router.php"
