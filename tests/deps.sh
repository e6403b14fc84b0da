#!/bin/sh
# Installs the Debian packages named as arguments where they are missing; quick when none is.
set -eu
command -v dpkg-query >/dev/null || {
    echo "deps: this is no Debian; needed are the libraries behind: $*" >&2
    exit 0
}
missing=
for package in "$@"; do
    case $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true) in
    installed) ;;
    *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0
echo "deps: installing$missing"
root=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
        echo "deps: neither root nor sudo; as root: apt-get install$missing" >&2
        exit 1
    }
    root=sudo
fi
$root apt-get update -qq
# shellcheck disable=SC2086 # package names hold no blanks
$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
