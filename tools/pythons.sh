#!/usr/bin/env bash
# Prints one Python of each version that pyproject.toml names, as "3.12 /where/python3.12", that of `python3` first.
# What was left out, and why, goes to standard error.
set -euo pipefail
cd "$(dirname "$0")/.."

named=$(sed -n 's/.*"Programming Language :: Python :: \(3\.[0-9]*\)".*/\1/p' pyproject.toml)
about='
import os, sys, sysconfig
version = "%d.%d" % sys.version_info[:2]
why = ""
if sys.implementation.name != "cpython": why = "it is " + sys.implementation.name
elif sys.version_info[3] != "final": why = "it is a version before the release"
elif sysconfig.get_config_var("Py_GIL_DISABLED"): why = "it is free-threaded"
else:
    try: import ensurepip, venv
    except ImportError as error: why = str(error)
print("%s\t%s\t%s\t%s" % (version, sys.executable, os.path.realpath(sys.executable), why))
'

shopt -s nullglob
places=(python3)
for minor in {11..19}; do places+=("python3.$minor"); done
places+=("${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python)
if command -v uv >/dev/null; then places+=("$(uv python dir)"/cpython-3.*/bin/python); fi

found=" "
for place in "${places[@]}"; do
    command -v "$place" >/dev/null || continue
    if ! said=$("$place" -c "$about" 2>/dev/null); then
        echo "pythons: $place left out: it does not run" >&2
        continue
    fi
    IFS=$'\t' read -r version program real why <<<"$said"
    if [[ $found == *" $real "* ]]; then continue; fi
    if [ -z "$why" ] && ! grep -qxF "$version" <<<"$named"; then why="pyproject.toml does not name $version"; fi
    if [ -z "$why" ] && [[ $found == *" $version "* ]]; then why="there is another $version"; fi
    if [ -n "$why" ]; then
        echo "pythons: $program left out: $why" >&2
        found+="$real "
    else
        echo "pythons: $version is $program" >&2
        echo "$version $program"
        found+="$version $real "
    fi
done
for version in $named; do
    [[ $found == *" $version "* ]] || echo "pythons: $version is named in pyproject.toml and was not found" >&2
done
