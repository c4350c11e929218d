// Package fault breaks fake hosts, one surface at a time: a GPU without a
// driver, nodes that are not there, an old device number, a management library
// that fails, while all else stays as on the healthy host.
//
// A Fault is a value with a text form, "no-driver:1"; Kinds lists all of them. A
// List of faults lies over a host and changes nothing in it: Break says what the
// host's model and its NVML are like under the faults, and Broken.Edit does to
// its files what no model tells. Without the faults the host is what it was,
// byte for byte.
//
// What follows from a fault on a real machine follows here: without a driver
// there are no nodes and no NVML, since both are the driver's. Nothing else does;
// Kind.Surface says which files a fault reaches, and a test holds each to it.
package fault
