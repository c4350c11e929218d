#!/bin/sh
# Prints where this machine has its own packages of Debian from; exits 1 where it
# has none.
set -eu

cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null |
	grep -v '^#' | grep -o 'https\{0,1\}://[^ ]*/debian/\{0,1\}' | head -n 1 | grep .
