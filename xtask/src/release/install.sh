#!/bin/sh
# Installs this folder for one user, or below another prefix; needs neither root nor a network.
set -eu

usage() {
    cat <<'TXT'
./install.sh [--to PREFIX]   install below PREFIX (default ~/.local)
./install.sh --remove [--to PREFIX]
TXT
}

prefix=${HOME:-}/.local remove=
while [ $# != 0 ]; do
    case $1 in
        --to) [ $# != 1 ] || { usage >&2; exit 2; }; prefix=$2; shift ;;
        --remove) remove=1 ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
    shift
done
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac

here=$(cd "$(dirname "$0")" && pwd)
cd "$here"
[ -f bin/hothouse ] || { echo "error: $here has no bin/hothouse: run this from the unpacked release" >&2; exit 6; }

find bin share -type f | sort | while read -r file; do
    if [ -n "$remove" ]; then
        rm -f "$prefix/$file"
        continue
    fi
    mkdir -p "$prefix/$(dirname "$file")"
    # A running program cannot be written, but its name can be given to another file.
    cp "$file" "$prefix/$file.new"
    chmod "$([ -x "$file" ] && echo 755 || echo 644)" "$prefix/$file.new"
    mv "$prefix/$file.new" "$prefix/$file"
done

if [ -n "$remove" ]; then
    echo "Removed Hothouse from $prefix. Sandboxes and records stay; \`hothouse nuke\` removes sandboxes, before this."
    exit 0
fi
echo "Installed $("$prefix/bin/hothouse" --version) into $prefix/bin."
case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) echo "hint: $prefix/bin is not in PATH: add \`export PATH=\"$prefix/bin:\$PATH\"\` to your shell's start file" ;;
esac
echo "Next: hothouse doctor"
