// Package cdi reads CDI Specs and finds devices in them by name.
//
// ParseName reads what a user writes, "nvidia.com/gpu=0"; Parse and ReadDirs
// read Specs, stricter than the CDI library: whatever two readers could
// understand differently is refused. Resolve returns the container edits of the
// devices asked for, and NodeEdits those of a GPU that is selected without CDI.
//
// It refuses nothing for reasons of policy beyond device numbers, types and
// permissions: which mounts, hooks and variables a container may have is said
// by package translate. Making Specs from a host is for a package of its own,
// so that this one needs no C library.
//
// Every refusal is a *refuse.Error with one of the reasons below.
//
// Reference: https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md
package cdi
