// Package fault breaks fake hosts, one thing at a time: a GPU without a
// driver, missing nodes, an old device number, a management library
// that fails. Everything else stays as on the healthy host.
//
// A Fault is a value with a text form, "no-driver:1"; Kinds lists all of them. A
// List of faults is applied on top of a host without modifying it: Break returns
// the host's model and NVML under the faults, and Broken.Edit changes those files
// that do not follow from the model. Without the faults the host is what it was,
// byte for byte.
//
// A fault has the consequences that it has on a real machine (without a driver
// there are no nodes and no NVML, since both are the driver's), and no others.
// Kind.Surface says which files a fault affects, and a test checks each.
package fault
