// Package programs has the tests that run existing programs on a fake machine:
// lspci, ldconfig, mdevctl, nvidia-ctk, LXD, and the commands of guides as
// printed. Each runs unmodified in "gpurig host enter", and the test checks
// its output.
//
// They need root, or user namespaces, and the programs. A test whose machine or
// program is missing is skipped with that reason; GPURIG_REQUIRE_MACHINE=1 makes
// that a failure.
package programs
