#!/usr/bin/env bash
# Runs a command as on a machine on which nothing has run before: /tmp and /var/tmp are empty, and so is the home folder.
# What earlier runs of anything left there cannot help, and what the command leaves is gone afterwards.
#
#   tools/fresh.sh make test PYTHON=/usr/bin/python3.12
#
# The temporary folders are covered by empty ones, in a mount namespace that ends with the command. Folders on disk, not in
# memory: some tests care what a disk keeps. Of the home folder only the variable changes. The folder itself stays where it
# is: Pythons (pyenv, uv), pip's settings and this checkout may lie in it, and what ignores HOME is rare.
set -euo pipefail

if [ "${1:-}" = --inside ]; then
    fresh=$2 && shift 2
    for folder in /var/tmp /tmp; do # in this order: `fresh` lies in the second
        [ -d "$folder" ] && [ ! -L "$folder" ] || continue
        if [[ $PWD == "$folder"/* ]]; then # the checkout stays where it is
            mkdir -p "$fresh$PWD"
            mount --rbind "$PWD" "$fresh$PWD"
        fi
        mount --rbind "$fresh$folder" "$folder"
    done
    mkdir -p "$HOME" # missing where /var/tmp is a link
    cd "$PWD"        # anew, by its name
    exec setpriv --inh-caps=-all --ambient-caps=-all -- "$@"
fi

[ $# -gt 0 ] || { echo "usage: tools/fresh.sh COMMAND..." >&2 && exit 2; }
cd "$(pwd -P)"
HOME=${HOME:-/}
fresh=$(mktemp -d /tmp/fresh.XXXXXX)
trap 'rm -rf "$fresh"' EXIT
mkdir -p "$fresh/tmp" "$fresh/var/tmp/home"
chmod 1777 "$fresh/tmp" "$fresh/var/tmp"

# What pip needs to find packages; what it has downloaded before only saves time.
home=$fresh/var/tmp/home
[ ! -e "$HOME/.netrc" ] || cp "$HOME/.netrc" "$home/"
[ ! -d "$HOME/.pip" ] || cp -R "$HOME/.pip" "$home/"
settings=${XDG_CONFIG_HOME:-$HOME/.config}/pip
[ ! -d "$settings" ] || { mkdir "$home/.config" && cp -R "$settings" "$home/.config/"; }
export PIP_CACHE_DIR="${PIP_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/pip}"
[ ! -d "$HOME/.pyenv" ] || export PYENV_ROOT="${PYENV_ROOT:-$HOME/.pyenv}"
# Nothing that points elsewhere.
for name in $(compgen -e); do
    case $name in TMPDIR | TEMP | TMP | XDG_* | RAY_* | BELATED_* | NUMBA_*) unset "$name" ;; esac
done

# As root a namespace is to be had for the asking, else in a namespace of users in which we stay who we are.
namespace=(unshare --mount --propagation private)
[ "$(id -u)" = 0 ] || namespace=(unshare --user --map-current-user --keep-caps --mount --propagation private)
if why=$("${namespace[@]}" mount --bind "$fresh/tmp" /tmp 2>&1); then
    echo "fresh: $* with empty temporary folders and an empty home folder" >&2
    HOME=/var/tmp/home "${namespace[@]}" bash "$0" --inside "$fresh" "$@"
else
    echo "fresh: $* with an empty home folder only: no mount namespace here (${why:-unshare failed})" >&2
    HOME=$home "$@"
fi
