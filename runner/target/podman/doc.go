// Package podman is the target that makes containers by Podman: "podman run --rootfs"
// in the foreground, with the probe as first process and the devices by a CDI name.
//
// A plan is given as a CDI Spec of one device, in the words that every release of
// Podman with CDI understands (version 0.5.0). What that version has no word for is
// given by options: additional groups.
//
// There is no container with an id map. With --uidmap, Podman 4.3 leaves out all device
// rules, those of --device-cgroup-rule too, and runc can make no node there: it binds
// the one that the machine has at the same path.
//
// Each container has a Podman of its own: storage, locks, state and a mount namespace
// with its Spec alone in /etc/cdi, so nothing is shared with the Podman of the machine,
// and nothing outlives the container. Before each start cdi-hook undoes what an earlier
// one left. Nothing can be plugged into a running container.
//
// It runs in a namespace of package sandbox and needs root.
package podman
