#!/bin/sh
# Has a QEMU that takes devices over vfio-user (10.1 or later) and a kernel for its
# guests, of Debian's sid, with the libraries that they need: target qemu finds them in
# /var/cache/gpurig/qemu-sid (runner/target/qemu.Dir). 60 MB are fetched.
exec "$(dirname "$0")/unpack.sh" --with-dependencies qemu-sid sid qemu-system-x86 '^linux-binary-[0-9].*-cloud-amd64$'
