#!/usr/bin/env bash
# first-hour.sh DEB IMAGE: the first hour with Debian's package DEB, on a copy of this machine that is gone afterwards (an overlay in
# a mount namespace, with a network of its own), then the container's root IMAGE by chroot. Needs root.
set -euo pipefail
if [ "${3:-}" != inside ]; then
    exec unshare --mount --net --pid --fork --kill-child "$0" "$1" "$2" inside
fi
deb=$1 image=$2
mount --make-rprivate /
ip link set lo up
work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
mkdir "$work"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"
mount -t proc proc "$work/root/proc"
mount --rbind /dev "$work/root/dev"
mount -t tmpfs tmpfs "$work/root/run"
mount -t tmpfs tmpfs "$work/root/mnt"
cp "$deb" "$work/root/mnt/larder.deb"

here() { chroot "$work/root" "$@"; }
step() { echo "== $*"; }
# As the unit starts it.
start() {
    install -d -m 0700 -o "$(here id -u larder)" "$work/root/run/larder"
    here setpriv --reuid=larder --regid=larder --init-groups env RUNTIME_DIRECTORY=/run/larder \
        /usr/bin/larder serve --config /etc/larder/larder.toml 2>"$work/printed" &
    until grep -q 'control at' "$work/printed"; do
        kill -0 $! || { cat "$work/printed"; exit 1; }
        sleep 0.05
    done
}
status() { curl --silent --show-error --head "http://127.0.0.1:8080$1" | tr -d '\r' | sed -n 's/^Cache-Status: //p'; }
expect() { [[ $2 == $1 ]] || { echo "expected $1, found $2"; cat "$work/printed"; exit 1; }; }

step "install"
here dpkg -i /mnt/larder.deb
here larder check /etc/larder/larder.toml
here id larder
expect "larder 750" "$(here stat -c '%U %a' /var/lib/larder)"
here test -s /usr/share/man/man1/larder.1.gz -a -s /usr/share/man/man1/larder-serve.1.gz
here bash -c 'source /usr/share/bash-completion/completions/larder; complete -p larder' | grep -q _larder
! command -v logrotate >/dev/null || here logrotate --debug /etc/logrotate.d/larder
here systemd-analyze verify --man=no larder.service larder.socket

step "the site of the package"
start
curl --silent --fail http://127.0.0.1:8080/ | grep -q 'Larder runs'

step "WordPress behind it: four lines, an origin, check, reload, and why there is no hit"
blog=$work/root/mnt/blog
mkdir "$blog"
cp -rL --no-preserve=all /usr/share/wordpress/. "$blog"
mkdir -p "$blog/wp-content/mu-plugins"
cp "$(dirname "$0")/../../contrib/wordpress/larder-purge.php" "$blog/wp-content/mu-plugins/"
cat > "$blog/wp-config.php" <<'SITE'
<?php
define('DB_NAME', 'blog');
define('DB_USER', 'root');
define('DB_PASSWORD', '');
define('DB_HOST', '127.0.0.1');
define('AUTH_KEY', 'a');
define('WP_DEFAULT_THEME', 'twentytwentyone');
define('DISABLE_WP_CRON', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('LARDER_ADDRESS', 'http://127.0.0.1:8080');
$table_prefix = 'wp_';
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
SITE
here mariadb-install-db --no-defaults --user=root --auth-root-authentication-method=normal --skip-test-db --datadir=/mnt/data >/dev/null
here mariadbd --no-defaults --user=root --skip-grant-tables --bind-address=127.0.0.1 --datadir=/mnt/data --socket=/mnt/socket 2>"$work/mariadb" &
sql() { here mariadb --no-defaults -N -B --socket=/mnt/socket -u root -e "$1" ${2:+"$2"}; }
until sql 'CREATE DATABASE IF NOT EXISTS blog' 2>/dev/null; do
    kill -0 $! || { cat "$work/mariadb"; exit 1; }
    sleep 0.05
done
here env PHP_CLI_SERVER_WORKERS=4 php -S 127.0.0.1:9000 -t /mnt/blog >/dev/null 2>&1 &
until curl --silent --output /dev/null http://127.0.0.1:9000/; do sleep 0.05; done
here sed -i 's|^origin = .*|origin = "http://127.0.0.1:9000"|' /etc/larder/larder.toml
here larder check /etc/larder/larder.toml
here larder reload
curl --silent --show-error 'http://127.0.0.1:8080/wp-admin/install.php?step=2' --output "$work/installed" \
    --data 'weblog_title=Blog&user_name=admin&admin_password=larder-test&admin_password2=larder-test&pw_weak=1&admin_email=a@blog.test'
grep -q 'Success!' "$work/installed" || { cat "$work/installed"; exit 1; }
here larder reload
advice() { curl --silent --fail --unix-socket "$work/root/run/larder/"*.sock http://localhost/api/v1/stats | python3 -c 'import json, sys
print(" ".join(one["setting"] for one in json.load(sys.stdin)["advice"]) or "none")'; }
# Figures come behind the answers.
advised() { for _ in {1..100}; do [[ $(advice) == "$1" ]] && return; sleep 0.1; done; expect "$1" "$(advice)"; }
for _ in 1 2 3 4 5 6; do
    curl --silent --fail --output /dev/null http://127.0.0.1:8080/
    expect '*detail=no-freshness*' "$(status /)"
done
advised 'preset = "wordpress"'
grep -q 'It looks like WordPress.*--preset wordpress' "$work/printed" || { cat "$work/printed"; exit 1; }

step "with the preset: the second view is a hit, curl -I as well, and nothing is left to say"
here sed -i 's|^origin = .*|&\npreset = "wordpress"|' /etc/larder/larder.toml
grep -q '^purge = ' "$work/root/etc/larder/larder.toml" || here sed -i 's|^preset = .*|&\npurge = { from = ["127.0.0.1"] }|' /etc/larder/larder.toml
here larder check /etc/larder/larder.toml
here larder reload
# The whole page: its head comes before it, and a view meanwhile does not wait for a page that was not kept.
curl --silent --fail --output /dev/null http://127.0.0.1:8080/
expect 'larder; hit*' "$(status /)"
view() { curl --silent --show-error --fail --dump-header "$work/head" --output "$work/page" "http://127.0.0.1:8080$1"; }
view '/?p=1'
view '/?p=1'
grep -qi '^Cache-Status: larder; hit' "$work/head" || { cat "$work/head"; exit 1; }
for n in 1 2 3 4 5 6 7 8 9 10 11 12; do view "/?s=word$n"; done
advised none

step "a comment of a visitor, when it is approved, is on the page that was a hit"
# Where WordPress has found that paths reach it, this is another one.
post=$(curl --silent --output /dev/null --write-out '%{redirect_url}' 'http://127.0.0.1:8080/?p=1')
post=${post#http://127.0.0.1:8080}
post=${post:-/?p=1}
view "$post"
view "$post"
grep -qi '^Cache-Status: larder; hit' "$work/head" || { cat "$work/head"; exit 1; }
grep -q 'comment_post_ID' "$work/page" || { cat "$work/page"; exit 1; }
curl --silent --show-error --output "$work/commented" http://127.0.0.1:8080/wp-comments-post.php --data-urlencode 'comment=A word of a visitor' \
    --data 'author=Visitor&email=v@blog.test&comment_post_ID=1&comment_parent=0'
id=$(sql "SELECT comment_ID FROM wp_comments WHERE comment_content = 'A word of a visitor'" blog)
[[ $id ]] || { cat "$work/commented"; exit 1; }
view "$post"
if grep -q 'word of a visitor' "$work/page"; then cat "$work/page"; exit 1; fi
# SQL would run no hook.
here php -r '$_SERVER["HTTP_HOST"] = "127.0.0.1:8080"; require "/mnt/blog/wp-load.php";
    exit(wp_set_comment_status((int) $argv[1], "approve") ? 0 : 1);' "$id"
view "$post"
grep -q 'word of a visitor' "$work/page" || { cat "$work/head" "$work/page"; exit 1; }
view "$post"
grep -qi '^Cache-Status: larder; hit' "$work/head" || { cat "$work/head"; exit 1; }

step "a purge by hand"
expect 'larder; hit*' "$(status '/?p=1')"
here larder purge 'http://127.0.0.1:8080/?p=1'
expect '*fwd=*' "$(status '/?p=1')"
here larder top --once --lifetime | grep -q 'unix:/run/larder'
here larder stop

step "an upgrade keeps the configuration"
cp "$work/root/etc/larder/larder.toml" "$work/mine"
here dpkg-deb -R /mnt/larder.deb /mnt/newer
here sed -i 's/^Version: .*/&+1/' /mnt/newer/DEBIAN/control
here dpkg-deb -Znone --build /mnt/newer /mnt/newer.deb
here dpkg -i /mnt/newer.deb
cmp "$work/mine" "$work/root/etc/larder/larder.toml"

step "removal keeps configuration and state, purging keeps nothing"
touch "$work/root/var/lib/larder/state" "$work/root/var/log/larder/access.log"
here dpkg -r larder
here test ! -e /usr/bin/larder -a -f /etc/larder/larder.toml -a -f /var/lib/larder/state
here dpkg -P larder
here test ! -e /etc/larder -a ! -e /var/lib/larder -a ! -e /var/log/larder -a ! -e /etc/logrotate.d/larder

step "the container's root"
mount -t proc proc "$image/proc" 2>/dev/null || { mkdir -p "$image/proc" && mount -t proc proc "$image/proc"; }
chroot --userspec=65532:65532 "$image" /usr/bin/larder check /etc/larder/larder.toml
RUNTIME_DIRECTORY=/run/larder chroot --userspec=65532:65532 "$image" /usr/bin/larder serve --config /etc/larder/larder.toml 2>"$work/printed" &
until grep -q 'control at' "$work/printed"; do
    kill -0 $! || { cat "$work/printed"; exit 1; }
    sleep 0.05
done
curl --silent --fail http://127.0.0.1:8080/ | grep -q 'Larder runs'
RUNTIME_DIRECTORY=/run/larder chroot --userspec=65532:65532 "$image" /usr/bin/larder stop
step "done"
