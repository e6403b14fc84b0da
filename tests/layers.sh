#!/bin/sh
# Guards the one-way dependency server -> api -> core -> kernels, and what each layer may know.
# `layers.sh DIR` looks at another tree; without an argument it first proves that it can fail.
set -eu

look() { # DIR: prints every violation, one a line
    cd "$1"
    grep -rnE '^#include "(server|api|core)/' kernels || true
    grep -rnE '^#include "(server|api)/' core || true
    grep -rnE '^#include "server/' api || true
    grep -rnE '#include [<"](stdlib|stdio|errno|unistd|malloc)\.h' kernels || true
    grep -rnE '#include <(cjson/|cJSON|microhttpd|sys/socket|netinet/|syslog|curl/)' core || true
    grep -rnE '#include <(microhttpd|sys/socket|netinet/|pthread)' api || true
    grep -rnE '#include "(server|api|core|kernels)/[^"]*\.c"' server api core kernels || true
}

if [ $# -eq 1 ]; then
    bad=$(look "$1")
    [ -z "$bad" ] && exit 0
    echo "layers: server -> api -> core -> kernels is broken:" >&2
    echo "$bad" >&2
    exit 1
fi

proof=$(mktemp -d)
trap 'rm -rf "$proof"' EXIT
mkdir "$proof/kernels" "$proof/core" "$proof/api" "$proof/server"
for violation in 'kernels:"core/model.h"' 'core:"api/api.h"' 'api:"server/http.h"' 'kernels:<stdlib.h>' \
    'core:<cjson/cJSON.h>' 'api:<microhttpd.h>'; do
    file=$proof/${violation%%:*}/proof.c
    echo "#include ${violation#*:}" >"$file"
    if (look "$proof" | grep -q proof.c); then :; else
        echo "layers: this test does not see $violation" >&2
        exit 1
    fi
    rm "$file"
done
"$0" "$(dirname "$0")/.."
echo "layers: server -> api -> core -> kernels holds"
