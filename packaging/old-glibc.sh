#!/bin/sh
# Has the C library of Debian 11, the oldest that Debian's registry still has, for
# image glibc-old (runner/image.OldGlibcDir).
exec "$(dirname "$0")/unpack.sh" glibc-2.31 bullseye libc6
