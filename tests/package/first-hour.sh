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
mount -t tmpfs tmpfs "$work/root/tmp"
cp "$deb" "$work/root/tmp/larder.deb"

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
here dpkg -i /tmp/larder.deb
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

step "four lines: an origin, check, reload, a hit"
mkdir "$work/root/tmp/site"
echo '<p>slow</p>' > "$work/root/tmp/site/index.html"
touch -d '10 days ago' "$work/root/tmp/site/index.html"
here /usr/bin/python3 -m http.server --directory /tmp/site --bind 127.0.0.1 9000 >/dev/null 2>&1 &
until curl --silent --fail --output /dev/null http://127.0.0.1:9000/; do sleep 0.05; done
here sed -i 's|^origin = .*|origin = "http://127.0.0.1:9000"|' /etc/larder/larder.toml
here larder check /etc/larder/larder.toml
here larder reload
expect '*fwd=*' "$(status /)"
expect 'larder; hit*' "$(status /)"
here larder purge http://127.0.0.1:8080/
expect '*fwd=*' "$(status /)"
here larder top --once --lifetime | grep -q 'unix:/run/larder'
here larder stop

step "an upgrade keeps the configuration"
cp "$work/root/etc/larder/larder.toml" "$work/mine"
here dpkg-deb -R /tmp/larder.deb /tmp/newer
here sed -i 's/^Version: .*/&+1/' /tmp/newer/DEBIAN/control
here dpkg-deb -Znone --build /tmp/newer /tmp/newer.deb
here dpkg -i /tmp/newer.deb
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
