#!/bin/sh
# Runs every fuzz target of the module for the given time each.
set -eu
time="${1:-10s}"
found=0
for file in $(grep -rl '^func Fuzz' --include='*_test.go' .); do
	dir=$(dirname "$file")
	for name in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$file"); do
		found=$((found + 1))
		echo "fuzz $dir $name for $time"
		go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$dir"
	done
done
[ "$found" -gt 0 ] || { echo "no fuzz target found" >&2; exit 1; }
