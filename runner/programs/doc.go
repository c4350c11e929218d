// Package programs has the tests that show a fake machine to programs which nobody
// here wrote: lspci, ldconfig, mdevctl, nvidia-ctk, LXD, and the commands of guides as
// they are printed. Each runs unmodified in "gpurig host enter", and the test reads
// what it says.
//
// They need root, or user namespaces, and the programs. A test whose machine or
// program is missing is skipped with that reason; GPURIG_REQUIRE_MACHINE=1 makes
// that a failure.
package programs
