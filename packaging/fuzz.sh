#!/bin/sh
# Runs every fuzz target of the module for the given time each (default 10s), or
# number of inputs ("3000x"). A time of few seconds can fail by itself: go test
# may take its own end for an error of the target (https://go.dev/issue/75804).
#
# With a second argument, a number of seconds, it starts no package after that
# time, and begins at a place in the list that the date of the commit decides:
# building a package for fuzzing takes much longer than fuzzing it a little, so
# CI has a few at each commit and all of them within some days. The seeds of all
# of them run with the tests, always.
set -eu
time="${1:-10s}"
budget="${2:-0}"
dirs=$(grep -rl '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u)
[ -n "$dirs" ] || { echo "no fuzz target found" >&2; exit 1; }
start=0
if [ "$budget" -gt 0 ]; then
	when=$(git log -1 --format=%ct 2>/dev/null || date +%s)
	start=$((when / 60 % $(echo "$dirs" | wc -l)))
fi
began=$(date +%s)
done=0
for dir in $(echo "$dirs" | tail -n +$((start + 1))) $(echo "$dirs" | head -n "$start"); do
	if [ "$budget" -gt 0 ] && [ $(($(date +%s) - began)) -ge "$budget" ]; then
		break
	fi
	for name in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$dir"/*_test.go); do
		echo "fuzz $dir $name for $time"
		go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$dir"
	done
	done=$((done + 1))
done
echo "fuzzed $done of $(echo "$dirs" | wc -l) packages"
