#!/bin/sh
# Makes the .ptx files of kernels.cu with clang 14.0.6; each says in its first line
# how. The options are those of a build without the CUDA toolkit.
set -eu
cd "$(dirname "$0")"

make() {
	out=$1
	shift
	flags="-x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=$* -S"
	{
		echo "// clang-14 $flags kernels.cu"
		# shellcheck disable=SC2086
		clang-14 $flags -Wno-unknown-cuda-version -o - kernels.cu
	} >"$out"
}

make o0.ptx sm_70 -O0
make o1.ptx sm_70 -O1
make o2.ptx sm_70 -O2
make o3.ptx sm_70 -O3
make sm50.ptx sm_50 -O2
make fast.ptx sm_80 -O3 -ffast-math
make calls.ptx sm_70 -O0 -DCALLS
