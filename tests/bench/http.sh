#!/bin/sh
# Requests a second of deformd against nginx sending as many bytes from memory, on this machine, in
# turns: each line measures nginx, deformd, nginx, deformd, ... and compares medians.
# usage: http.sh BUILD, with BENCH_SECONDS (of one measurement, default 3) and ROUNDS (default 3).
set -eu
build=$1
here=$(dirname "$0")
seconds=$(awk -v s="${BENCH_SECONDS:-3}" 'BEGIN { print s < 1 ? 1 : int(s) }') # wrk counts in whole ones
rounds=${ROUNDS:-3}
connections=16
export LC_ALL=C

work=$(mktemp -d /dev/shm/deformd-bench.XXXXXX)
daemon='' web=''
cleanup() {
    for pid in $daemon $web; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; done || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

"$build/deformd" --listen 127.0.0.1:0 --log-level warn --default-mode cpu >"$work/out" 2>"$work/log" &
daemon=$!
for _ in $(seq 100); do
    url=$(sed -n 's/^listening on //p' "$work/out")
    [ -z "$url" ] || break
    sleep 0.1
done
[ -n "$url" ] || { cat "$work/log" >&2; exit 1; }

port=$((20000 + $$ % 20000))
mkdir "$work/www"
cat >"$work/nginx.conf" <<TXT
worker_processes auto;
daemon off;
error_log stderr error;
pid $work/nginx.pid;
events { worker_connections 512; }
http {
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    types { }
    default_type application/octet-stream;
    client_body_temp_path $work/body; proxy_temp_path $work/proxy; fastcgi_temp_path $work/fastcgi;
    uwsgi_temp_path $work/uwsgi; scgi_temp_path $work/scgi;
    server { listen 127.0.0.1:$port; root $work/www; }
}
TXT
chmod -R a+rX "$work"
nginx -c "$work/nginx.conf" -p "$work" &
web=$!
sleep 0.5

rate() { # wrk's arguments: requests a second; fails where an answer was no success
    wrk -t1 -c$connections -d"${seconds}s" "$@" >"$work/wrk"
    if grep -E 'Non-2xx|Socket errors' "$work/wrk" >&2; then exit 1; fi
    sed -n 's/^Requests\/sec: *//p' "$work/wrk"
}
middle() { sort -n | sed -n "$(((rounds + 1) / 2))p"; }

upload() { # VERTICES BONES
    "$build/make-model" grid --vertices "$1" --bones "$2" "$work/model.pmx" >/dev/null
    curl -sS --data-binary "@$work/model.pmx" "$url/models" | sed 's/.*"id": *"\([0-9a-f]*\)".*/\1/'
}

compare() { # NAME VERTICES BONES FORM DIGITS
    id=$(upload "$2" "$3")
    head -c $(($2 * 24)) /dev/zero >"$work/www/frame"
    : >"$work/nginx.rates"
    : >"$work/deformd.rates"
    for _ in $(seq "$rounds"); do
        rate "http://127.0.0.1:$port/frame" >>"$work/nginx.rates"
        BONES=$3 FORM=$4 DIGITS=$5 rate -s "$here/deform.lua" "$url/models/$id/deform" >>"$work/deformd.rates"
    done
    a=$(middle <"$work/nginx.rates") b=$(middle <"$work/deformd.rates")
    awk -v name="$1" -v bytes=$(($2 * 24)) -v a="$a" -v b="$b" 'BEGIN {
        printf "| %-44s | %9d | %8.0f | %8.0f | %3.0f %% |\n", name, bytes, a, b, 100 * b / a }'
}

echo '| deform over HTTP, CPU skinner, wrk on the same cores | bytes back | nginx/s | deformd/s | ratio |'
echo '| --- | --- | --- | --- | --- |'
compare '30,000 vertices, binary pose of 300 bones' 30000 300 pose 6
compare '30,000 vertices, JSON of 300 bones, 6 digits' 30000 300 json 6
compare '30,000 vertices, JSON of 300 bones, 17 digits' 30000 300 json 17
compare '2,000 vertices, JSON of 20 bones, 6 digits' 2000 20 json 6

# One long answer: its bytes a second, with curl reading it on the same cores. nginx sends a file of as
# many bytes from memory. The last column is what the workers would compute if nothing were sent: how
# much later a short answer, all of it computed before its first byte, begins for four frames more.
speed() { # curl's arguments: MB a second
    curl -sS -f -o /dev/null -w '%{speed_download}\n' "$@" | awk '{ printf "%.0f\n", $1 / 1e6 }'
}

first_byte() { # curl's arguments: seconds until the answer begins
    for _ in $(seq 25); do curl -sS -f -o /dev/null -w '%{time_starttransfer}\n' "$@"; done | sort -n | sed -n 13p
}
motion_body() { # MOTION FRAMES
    echo "{\"motion\":\"$1\",\"frames\":{\"start\":0,\"end\":$(($2 - 1))}}"
}

stream() { # NAME VERTICES BONES FRAMES QUERY BYTES
    id=$(upload "$2" "$3")
    "$build/make-model" motion --bones "$3" "$work/motion.vmd" >/dev/null
    motion=$(curl -sS --data-binary "@$work/motion.vmd" "$url/motions" | sed 's/.*"id": *"\([0-9a-f]*\)".*/\1/')
    json='Content-Type: application/json' deform="$url/models/$id/deform$5"
    head -c "$6" /dev/zero >"$work/www/frames"
    : >"$work/nginx.rates"
    : >"$work/deformd.rates"
    for _ in $(seq "$rounds"); do
        speed "http://127.0.0.1:$port/frames" >>"$work/nginx.rates"
        speed -H "$json" -d "$(motion_body "$motion" "$4")" "$deform" >>"$work/deformd.rates"
    done
    a=$(middle <"$work/nginx.rates") b=$(middle <"$work/deformd.rates")
    t1=$(first_byte -H "$json" -d "$(motion_body "$motion" 1)" "$deform")
    t5=$(first_byte -H "$json" -d "$(motion_body "$motion" 5)" "$deform")
    awk -v name="$1" -v bytes="$6" -v a="$a" -v b="$b" -v cores="$(nproc)" \
        -v four="$(($6 * 4 / $4))" -v t1="$t1" -v t5="$t5" 'BEGIN {
        computed = t5 > t1 ? sprintf("%d", cores * four / (t5 - t1) / 1e6) : "?"
        printf "| %-44s | %10d | %5d | %5d | %3.0f %% | %s |\n", name, bytes, a, b, 100 * b / a, computed }'
    rm "$work/www/frames"
}

echo
echo '| frames of a motion in one answer, curl on the same cores | bytes | nginx MB/s | deformd MB/s | ratio | computing alone, MB/s |'
echo '| --- | --- | --- | --- | --- | --- |'
frames=$(awk -v s="${BENCH_SECONDS:-3}" 'BEGIN { n = int(400 * s); print (n < 40 ? 40 : n > 1200 ? 1200 : n) }')
stream '30,000 vertices, 100 bones, raw' 30000 100 "$frames" '' $((frames * 720000))
stream '30,000 vertices, 100 bones, f16 planar positions' 30000 100 "$frames" \
    '?attributes=position&layout=planar&components=f16' $((frames * 180000))
