# What every script of a stack can use. It runs as root of a room that has nothing but the network of registries.
set -eu
exec </dev/null
export DEBIAN_FRONTEND=noninteractive HOME=/root LC_ALL=C.UTF-8
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
export PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1

# say TEXT: shows how far the build is.
say() { echo "hothouse-stack step $*"; }

# unreachable ADDRESS: ends the build, because the address cannot be reached.
unreachable() { echo "hothouse-stack unreachable $1"; exit 69; }

# fetch URL FILE: downloads a file that neither the distribution nor a registry has.
fetch() { curl -fsSL --retry 2 --connect-timeout 20 -o "$2" "$1" || unreachable "$1"; }

# packages NAME...: installs packages of the distribution.
packages() {
    say "packages: $*"
    if [ -z "${lists_are_new:-}" ]; then
        apt-get -qq update
        lists_are_new=1
    fi
    apt-get -qq -y --no-install-recommends install "$@"
}

# python_tools NAME...: installs programs of PyPI, each found on the search path.
python_tools() {
    say "from PyPI: $*"
    [ -x /opt/python-tools/bin/pip ] || python3 -m venv /opt/python-tools
    /opt/python-tools/bin/pip -q install "$@"
    for tool in /opt/python-tools/bin/*; do
        case ${tool##*/} in python*|pip*|activate*|Activate*|*.ps1|wheel) continue ;; esac
        [ -e "/usr/local/bin/${tool##*/}" ] || ln -s "$tool" "/usr/local/bin/${tool##*/}"
    done
}

seen_packages() { dpkg-query -W -f '${Package} ${Version}\n' 2>/dev/null | sort; }
seen_programs() { ls /usr/local/bin /usr/bin /usr/sbin 2>/dev/null | sort -u; }
before=$(mktemp -d)
seen_packages >"$before/packages"
seen_programs >"$before/programs"

ended() {
    code=$?
    set +e
    if [ "$code" = 0 ]; then
        seen_packages | comm -13 "$before/packages" - | sed 's/^/hothouse-stack package /'
        seen_programs | comm -13 "$before/programs" - | sed 's/^/hothouse-stack program /'
        apt-get clean 2>/dev/null
        rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /root/.cache /root/.npm
        mkdir -p /var/lib/apt/lists/partial
    fi
    rm -rf "$before"
    echo "hothouse-stack exit $code"
}
trap ended EXIT
