#!/bin/sh
# Installs from Debian's packages what some tests need beside Python: PostgreSQL (each test run starts a private cluster
# of its own), chromium, and nginx. What is there already is left alone. With DESTDIR it looks, and leaves settings, under
# there.
set -eu

root="${DESTDIR:-}"
missing=""
if ! ls "$root"/usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && ! command -v initdb >/dev/null 2>&1; then
    missing=" postgresql"
fi
command -v chromium >/dev/null 2>&1 || missing="$missing chromium"
[ -x "$root/usr/sbin/nginx" ] || missing="$missing nginx-light"

if [ -z "$missing" ]; then
    echo "services: PostgreSQL, chromium and nginx are installed"
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "services: install$missing by hand: this is not Debian" >&2
    exit 1
fi
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"
export DEBIAN_FRONTEND=noninteractive
# No cluster of Debian's own: the tests make theirs.
settings="$root/etc/postgresql-common"
case $missing in *postgresql*)
    if [ ! -e "$settings/createcluster.conf" ]; then
        $as_root mkdir -p "$settings"
        echo "create_main_cluster = false" | $as_root tee "$settings/createcluster.conf" >/dev/null
    fi
    ;;
esac
$as_root apt-get update -qq
# Nothing is started: the tests start what they need.
# shellcheck disable=SC2086
$as_root env RUNLEVEL=1 apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold $missing >/dev/null
echo "services: installed$missing"
