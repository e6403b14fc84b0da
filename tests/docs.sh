#!/bin/sh
# README.md's table of flags is what `deformd --help` says, its table of warnings what core can
# give. `docs.sh DEFORMD` compares them, `docs.sh --write DEFORMD` puts the flags into README.md.
set -eu
write=
[ "$1" = --write ] && write=yes && shift
readme=$(dirname "$0")/../README.md

table() {
    echo '| flag | default, range | what |'
    echo '| --- | --- | --- |'
    "$1" --help | awk '
        /^  --/ { flag = substr($0, 3, 27); sub(/ +$/, "", flag); help = substr($0, 32); if (length($0) < 32) help = ""; next }
        /^ +\(.*DEFORMD_/ && flag != "" {
            sub(/^ +\(/, ""); sub(/; DEFORMD_[A-Z_]*\)$/, "")
            if ($0 ~ /default /) { range = $0; sub(/;? ?default .*/, "", range); sub(/.*default /, "") } else range = ""
            printf "| `%s` | %s%s | %s |\n", flag, $0, (range == "" ? "" : " (" range ")"), help
            flag = ""
        }'
}

part() { sed -n '/^<!-- flags -->$/,/^<!-- end of flags -->$/p' "$readme" | sed '1d;$d'; }

new=$(mktemp)
trap 'rm -f "$new"' EXIT
table "$1" >"$new"
[ "$(wc -l <"$new")" -gt 10 ] || { echo "docs: --help is not as expected" >&2; exit 1; }
if [ -n "$write" ]; then
    sed -i -e "/^<!-- flags -->$/r $new" -e '/^<!-- flags -->$/,/^<!-- end of flags -->$/{/^<!-- /!d}' "$readme"
    exit 0
fi
part | diff - "$new" >/dev/null || {
    echo "docs: README.md's table of flags differs from --help; run tests/docs.sh --write $1" >&2
    part | diff - "$new" >&2 || true
    exit 1
}
echo "docs: README.md has the flags of --help"

# Every warning code that core can give has its row.
top=$(dirname "$readme")
for code in $(grep -rhoE '"[a-z0-9]+(-[a-z0-9]+)+"' "$top"/core/*.c "$top"/core/rig/*.c | tr -d '"' | sort -u); do
    grep -rlE "\"$code\"" "$top"/core --include=status.c >/dev/null && continue
    grep -q "^|.*\`$code\`.*|" "$readme" || {
        echo "docs: README.md has no row for the warning $code" >&2
        exit 1
    }
done
echo "docs: README.md has the warnings of core"
