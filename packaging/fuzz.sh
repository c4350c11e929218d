#!/bin/sh
# Runs every fuzz target of the module: packaging/fuzz.sh [TIME [JOBS]], TIME each
# (default 10s) or a number of inputs ("2000x"), JOBS packages at a time (default
# 1). Each package's test binary is built once, instrumented as "go test -fuzz"
# does it, and run for all of its targets; what they find lands where that puts it.
# For a number of inputs only our own packages are instrumented: to compile the
# libraries and Go's own once more takes longer than the fuzzing.
# An input that is new is made smaller in 200 steps: left to itself, Go takes a
# minute for one of a large target, which is then all that it does.
#
# In a number of inputs, nothing can fail but the target. In a time, the fuzzer
# may take the end of its own time for an error (https://go.dev/issue/75804):
# "context deadline exceeded", and no input that failed. Such an end proves
# nothing in either direction, so that target is fuzzed again, by number, and
# that run decides; the log has both.
set -eu
if [ "${1:-}" = package ]; then # package DIR TIME WORKERS: for xargs, below
	dir="$2" time="$3" workers="$4"
	cache="$(go env GOCACHE)/fuzz/$(go list -f '{{.ImportPath}}' "$dir")"
	binary="$FUZZ_OUT/$(echo "$dir" | tr / _).test"
	case "$time" in
	*x) go test -c -vet=off "-gcflags=gpurig/...=-d=libfuzzer" -o "$binary" "$dir" ;;
	*) go test -c -vet=off -fuzz . -o "$binary" "$dir" ;;
	esac
	cd "$dir"
	fuzz() { # NAME TIME
		"$binary" -test.run '^$' -test.fuzz "^$1\$" -test.fuzztime "$2" -test.fuzzcachedir "$cache" -test.parallel "$workers" \
			-test.fuzzminimizetime 200x
	}
	for name in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' ./*_test.go); do
		log="$binary.$name"
		if fuzz "$name" "$time" >"$log" 2>&1; then
			if grep 'without coverage guidance' "$log"; then # it is not instrumented
				echo "FAIL: fuzz $dir $name" >&2
				exit 1
			fi
			echo "fuzz $dir $name for $time: $(grep -o 'execs: [0-9]*' "$log" | tail -n 1)"
			continue
		fi
		cat "$log"
		if grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input written\|panic:\|hung or terminated' "$log"; then
			echo "fuzz $dir $name: ended with its time (go.dev/issue/75804); again, by number"
			fuzz "$name" 500x && continue
		fi
		echo "FAIL: fuzz $dir $name" >&2
		exit 1
	done
	rm -f "$binary"
	exit
fi
time="${1:-10s}" jobs="${2:-1}"
dirs=$(grep -rl '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u)
[ -n "$dirs" ] || { echo "no fuzz target found" >&2; exit 1; }
FUZZ_OUT=$(mktemp -d)
export FUZZ_OUT
trap 'rm -rf "$FUZZ_OUT"' EXIT
workers=$(nproc)
[ "$jobs" -eq 1 ] || workers=1
began=$(date +%s)
echo "$dirs" | xargs -P "$jobs" -I '{}' "$0" package '{}' "$time" "$workers"
ran=$(find "$FUZZ_OUT" -name '*.Fuzz*' | wc -l)
want=$(cat $(echo "$dirs" | sed 's|$|/*_test.go|') | grep -c '^func Fuzz')
echo "fuzzed $ran of $want targets in $(($(date +%s) - began)) s"
[ "$ran" -eq "$want" ]
