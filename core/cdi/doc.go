// Package cdi reads CDI Specs and finds devices in them by name.
//
// ParseName reads what a user writes, "nvidia.com/gpu=0". Parse and ReadDirs
// read Specs more strictly than the CDI library: anything that two readers could
// understand differently is refused. Resolve returns the container edits of the
// requested devices, and NodeEdits those of a GPU that is selected without CDI.
//
// The only policy that it applies concerns device numbers, types and permissions.
// Which mounts, hooks and variables a container may have is decided by package
// translate. Other packages generate Specs from a host, so this one needs no C
// library.
//
// Every refusal is a *refuse.Error with one of the reasons below.
//
// Reference: https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md
package cdi
