#!/bin/sh
# `make demo`: starts the daemon on its embedded defaults and a store in a new folder, uploads the sample model, poses it by
# JSON, deforms it and shows what came back. Ends by itself; leaves nothing running.
set -eu
build=$1
here=$(dirname "$0")
pose=$here/pose.json

work=$(mktemp -d)
daemon=
cleanup() {
    [ -z "$daemon" ] || { kill "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null; } || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say() { printf '  %-9s %s\n' "$1" "$2"; }
fail() {
    echo "demo: $1" >&2
    cat "$work/log" >&2 2>/dev/null || true
    exit 1
}
header() { tr -d '\r' <"$work/headers" | sed -n "s/^$1: //Ip" | tail -n 1; }
bounds() { # FILE of position f32x3 + normal f32x3
    od -An -v -t f4 -w24 "$1" | awk '
        NR == 1 { for (i = 1; i <= 3; i++) low[i] = high[i] = $i }
        { for (i = 1; i <= 3; i++) { if ($i < low[i]) low[i] = $i; if ($i > high[i]) high[i] = $i } }
        END { printf "x %.2f .. %.2f   y %.2f .. %.2f   z %.2f .. %.2f\n",
              low[1], high[1], low[2], high[2], low[3], high[3] }'
}
furthest() { # two FILEs: how far the vertex that moved furthest went
    od -An -v -t f4 -w24 "$1" >"$work/a.txt"
    od -An -v -t f4 -w24 "$2" | paste "$work/a.txt" - | awk '
        { d = sqrt(($1-$7)^2 + ($2-$8)^2 + ($3-$9)^2); if (d > 0.001) moved++; if (d > best) { best = d; v = NR - 1 } }
        END { printf "%d of %d vertices moved; vertex %d went furthest, %.2f units\n", moved, NR, v, best }'
}

start() { # deformd arguments
    "$build/deformd" --store "$work/store" "$@" >"$work/out" 2>"$work/log" &
    daemon=$!
    for _ in $(seq 100); do
        url=$(sed -n 's/^listening on //p' "$work/out")
        [ -z "$url" ] || return 0
        kill -0 "$daemon" 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}

echo
# The embedded defaults listen on 127.0.0.1:8080; where that port is taken, any free one will do.
start || {
    grep -qi 'in use' "$work/log" || fail "deformd did not start:"
    start --listen 127.0.0.1:0 || fail "deformd did not start:"
}
say deformd "$("$build/deformd" --version | head -n 1), listening on $url"

"$build/make-model" figure "$work/figure.pmx"
curl -sS -D "$work/headers" -o "$work/model.json" --data-binary "@$work/figure.pmx" \
    -H 'Content-Type: application/octet-stream' "$url/models"
jq -e .id "$work/model.json" >/dev/null || fail "the upload was refused: $(cat "$work/model.json")"
id=$(jq -r .id "$work/model.json")
say upload "figure.pmx, $(wc -c <"$work/figure.pmx") bytes -> $(head -n 1 "$work/headers" | tr -d '\r' | cut -d' ' -f2), id $id"
say model "$(jq -r '"\(.name) (\(.name_en)), PMX \(.pmx_version): \(.counts.vertices) vertices, \(.counts.triangles) triangles, \(.counts.bones) bones, \(.counts.morphs) morphs"' "$work/model.json")"
say weights "$(jq -r '.weight_types | to_entries | map("\(.key | ascii_upcase) \(.value)") | join(", ")' "$work/model.json")"
say mode "$(jq -r '"\(.mode) as set, \(.effective_mode) in effect" + ((.warnings[] | select(.code == "opencl-unavailable") | " (" + .message + ")") // "")' "$work/model.json")"

deform() { # BODY OUT
    curl -sS -D "$work/headers" -o "$2" -H 'Content-Type: application/json' --data-binary "$1" "$url/models/$id/deform"
    grep -q '^HTTP/1.1 200' "$work/headers" || fail "the deform was refused: $(cat "$2")"
}
deform '{}' "$work/rest.f32"
say rest "$(bounds "$work/rest.f32")"
deform "@$pose" "$work/posed.f32"
say pose "$(jq -r '[(.bones | keys_unsorted[]), ((.morphs // {}) | keys_unsorted[])] | join(" ")' "$pose")"
say deform "$(header Deformd-Vertices) vertices x $(header Deformd-Stride) bytes, $(header Deformd-Layout), by $(header Deformd-Skinner)"
say timing "$(header Server-Timing)"
say posed "$(bounds "$work/posed.f32")"
say moved "$(furthest "$work/rest.f32" "$work/posed.f32")"

cat <<TXT

  Go on by yourself: start the daemon with

    $build/deformd

  and, in another terminal,

    $build/make-model figure figure.pmx
    curl --data-binary @figure.pmx $url/models
    curl $url/models/$id/bones
    curl -H 'Content-Type: application/json' --data-binary @$pose \\
         -o posed.f32 $url/models/$id/deform

TXT
