#!/bin/sh
# Makes a wiki with 93 generated articles in a directory of its own: about five seconds.
#
#   setup.sh DIR [SERVER_URL]     (default http://wiki.test)
#
# Afterwards DIR holds data/ (SQLite), cache/ and paths.txt: the URL path of each article. serve.sh serves it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
wiki="$here/../../crates/lab/src/mediawiki/wiki"
dir=$1
mkdir -p "$dir/data" "$dir/cache"
dir=$(cd "$dir" && pwd)

export MW_INSTALL_PATH="${MW_INSTALL_PATH:-/usr/share/mediawiki}"
export LARDER_MW_DIR="$dir" LARDER_MW_SERVER="${2:-http://wiki.test}"
unset LARDER_MW_CDN || true

if [ ! -f "$MW_INSTALL_PATH/maintenance/install.php" ]; then
    echo "MediaWiki is not in $MW_INSTALL_PATH: install the packages of $here/packages.txt" >&2
    exit 1
fi

# The installer insists on writing a LocalSettings.php of its own and refuses to run when it finds one.
MW_CONFIG_FILE="$dir/none.php" php "$MW_INSTALL_PATH/maintenance/install.php" \
    --dbtype sqlite --dbname wiki --dbpath "$dir/data" --confpath "$dir" --scriptpath '' \
    --server "$LARDER_MW_SERVER" --skins Vector --pass 'larder-test-pass' 'Larder test wiki' Admin \
    > "$dir/install.log" 2>&1 || { cat "$dir/install.log" >&2; exit 1; }

export MW_CONFIG_FILE="$wiki/LocalSettings.php"
php "$wiki/articles.php" 93 20240229 "$dir/paths.txt" > "$dir/dump.xml"
php "$MW_INSTALL_PATH/maintenance/importDump.php" --report 1000 "$dir/dump.xml" > "$dir/import.log" 2>&1 \
    || { cat "$dir/import.log" >&2; exit 1; }
php "$MW_INSTALL_PATH/maintenance/runJobs.php" > "$dir/jobs.log" 2>&1 || { cat "$dir/jobs.log" >&2; exit 1; }
