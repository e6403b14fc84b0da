#!/bin/sh
# Runs test programs one after another and adds up what Check says of each.
# A program that prints no Check line, or exits non-zero without a failed check, counts as failed.
set -u
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for program in "$@"; do
    "$program" >"$log" 2>&1
    status=$?
    line=$(grep -E '^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+' "$log" | tail -n 1)
    checks=$(echo "$line" | sed -n 's/.*Checks: \([0-9]*\).*/\1/p')
    bad=$(echo "$line" | sed -n 's/.*Failures: \([0-9]*\), Errors: \([0-9]*\).*/\1 + \2/p')
    bad=$((${bad:-0}))
    if [ -z "$line" ] || { [ $status -ne 0 ] && [ $bad -eq 0 ]; }; then
        bad=$((bad + 1))
        checks=$((${checks:-0} + 1))
        echo "$program: exit status $status"
    fi
    passed=$((passed + checks - bad))
    failed=$((failed + bad))
    if [ $bad -gt 0 ]; then
        cat "$log"
    else
        printf '%-44s %4d checks\n' "${program#build/}" "$checks"
        grep -E 'SKIPPED|^cases:' "$log" | sed 's/^/    /'
    fi
    skipped=$((skipped + $(grep -c SKIPPED "$log")))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
