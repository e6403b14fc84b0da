#!/bin/sh
# Builds both images of docker/Dockerfile without a Docker engine and runs them: buildah with chroot
# isolation, on a base that debootstrap makes. As root. usage: image.sh
# What runs is the container's file system, read-only, as its user; uploads, deforms on cpu and gpu mode,
# and a graceful end are checked.
set -eu
top=$(realpath "$(dirname "$0")/../..")
[ "$(id -u)" = 0 ] || { echo "image-test: needs root (buildah's chroot isolation, mounts)" >&2; exit 1; }
work=$(mktemp -d /var/tmp/deformd-image.XXXXXX)
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
storage="--root $work/storage --runroot $work/run"
pid='' mounted=''
cleanup() {
    [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
    for place in $mounted; do umount -l "$place" 2>/dev/null || true; done
    # shellcheck disable=SC2086 # $storage is two flags
    buildah $storage rm -a >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
fail() { echo "image-test: $1" >&2; [ -f "$work/log" ] && cat "$work/log" >&2; exit 1; }
mebibytes() { du -sm --apparent-size "$1" | cut -f 1; }

echo 'image-test: a base by debootstrap'
mirror=$(apt-config shell m Acquire::http::Proxy >/dev/null 2>&1; grep -rhoE 'https?://[^ ]*debian\.org/debian ?$|https?://[^ ]*/debian$' /etc/apt/sources.list.d /etc/apt/sources.list 2>/dev/null | head -n 1)
debootstrap --variant=minbase bookworm "$work/base" "${mirror:-http://deb.debian.org/debian}" >"$work/log" 2>&1 || fail 'debootstrap failed:'
rm -rf "$work"/base/var/cache/apt/archives/*.deb "$work"/base/var/lib/apt/lists/*
cp /etc/apt/apt.conf.d/*proxy* "$work/base/etc/apt/apt.conf.d/" 2>/dev/null || true
cp /etc/resolv.conf "$work/base/etc/resolv.conf"
# shellcheck disable=SC2086
{
    name=$(buildah $storage from scratch)
    buildah $storage copy -q "$name" "$work/base" / >/dev/null
    buildah $storage commit -q "$name" docker.io/library/debian:bookworm-slim >/dev/null
    buildah $storage rm "$name" >/dev/null
}
base=$(mebibytes "$work/base")

wait_for() { # SECONDS COMMAND...
    tries=$(($1 * 10))
    shift
    while [ $tries -gt 0 ]; do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
        tries=$((tries - 1))
    done
    return 1
}

run() { # TARGET: starts its file system as the container would
    root=$1 store=$work/store.$2 cache=$work/cache.$2 port=$3
    install -d -o 10001 -g 10001 "$store" "$cache"
    for place in "$root/store:$store" "$root/cache:$cache"; do
        mount --bind "${place#*:}" "${place%%:*}"
        mounted="${place%%:*} $mounted"
    done
    mount -t proc proc "$root/proc" && mounted="$root/proc $mounted"
    mount --rbind /dev "$root/dev" && mounted="$root/dev $mounted"
    mount -t sysfs sysfs "$root/sys" && mounted="$root/sys $mounted"
    mount --bind "$root" "$root" && mounted="$root $mounted"
    mount -o remount,bind,ro "$root"
    # The mounts below went out of sight with the bind; what the container writes to comes back.
    mount --bind "$store" "$root/store" && mounted="$root/store $mounted"
    mount --bind "$cache" "$root/cache" && mounted="$root/cache $mounted"
    mount -t proc proc "$root/proc" && mounted="$root/proc $mounted"
    mount --rbind /dev "$root/dev" && mounted="$root/dev $mounted"
    env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/cache DEFORMD_STORE=/store DEFORMD_LISTEN="127.0.0.1:$port" \
        POCL_CACHE_DIR=/cache chroot --userspec=10001:10001 "$root" /usr/local/bin/deformd >"$work/out" 2>"$work/log" &
    pid=$!
    wait_for 60 curl -sf "http://127.0.0.1:$port/readyz" || fail "$2: not ready:"
}

check() { # TARGET PORT SKINNER
    url=http://127.0.0.1:$2
    chroot --userspec=10001:10001 "$root" /usr/local/bin/deformd --healthcheck "$url" >/dev/null || fail "$1: --healthcheck"
    id=$(curl -sSf --data-binary "@$work/figure.pmx" "$url/models" | sed 's/.*"id": *"\([0-9a-f]*\)".*/\1/')
    for mode in gpu cpu; do
        curl -sSf -X PATCH -H 'Content-Type: application/json' -d "{\"mode\":\"$mode\"}" "$url/models/$id" >/dev/null
        skinner=$(curl -sSf -D - -o "$work/frame" -H 'Content-Type: application/json' -d '{}' "$url/models/$id/deform" |
            tr -d '\r' | sed -n 's/^Deformd-Skinner: //p')
        [ -s "$work/frame" ] || fail "$1: nothing came back"
        want=cpu
        [ $mode = gpu ] && want=$3
        [ "$skinner" = "$want" ] || fail "$1: mode $mode ran on $skinner, not $want"
    done
    [ -f "$work/store.$1/models/$id/file" ] || fail "$1: the upload is not in the store"
    [ "$(ps -o uid= -p $pid | tr -d ' ')" = 10001 ] || fail "$1: it runs as another user"
    kill -TERM $pid
    status=0
    wait $pid || status=$?
    pid=''
    [ $status = 0 ] || fail "$1: SIGTERM ended it with $status"
}

make -s -C "$top" all
"$top/build/release/make-model" figure "$work/figure.pmx"
git -C "$top" ls-files | (cd "$top" && tar -cf - -T -) | (mkdir "$work/source" && tar -xf - -C "$work/source")
port=$((21000 + $$ % 20000))
for target in gpu cpu; do
    echo "image-test: docker/Dockerfile, target $target"
    # shellcheck disable=SC2086
    buildah $storage build --pull=never --layers --target $target -f "$work/source/docker/Dockerfile" -t "deformd:$target" "$work/source" >"$work/log" 2>&1 ||
        fail "the image does not build:"
    # shellcheck disable=SC2086
    name=$(buildah $storage from --pull=never "deformd:$target") && root=$(buildah $storage mount "$name")
    size=$(mebibytes "$root")
    # PoCL itself links what it compiles, with the C library's development files.
    for wrong in gcc make libmicrohttpd-dev libcjson-dev ocl-icd-opencl-dev; do
        if chroot "$root" dpkg -s $wrong >/dev/null 2>&1; then fail "$target: holds $wrong"; fi
    done
    skinner=cpu
    [ $target = cpu ] && skinner=opencl
    run "$root" $target $port
    check $target $port $skinner
    for place in $mounted; do umount -l "$place" 2>/dev/null || true; done
    mounted=''
    port=$((port + 1))
    echo "image-test: $target: $size MiB, $((size - base)) over its base of $base MiB; runs read-only as 10001, mode gpu on $skinner"
    [ $target = cpu ] || [ $((size - base)) -lt 60 ] || fail "gpu: more than 60 MiB over the base"
done
echo 'image-test: both images build and run'
