// Package lxd is the target that has LXD, or Incus, make containers, over its
// REST API.
//
// It starts a private daemon in the namespace of package world: with a state
// directory and a storage pool on a tmpfs, a process namespace and a network
// namespace of its own, and no network. The daemon, its containers and their
// files end with us, however we end; cgroup directories have one parent of ours,
// and the next run sweeps what a killed one left.
//
// A plan is handed over "translated": unix-char and disk devices, raw.lxc and
// cdi-hook as liblxc's hook, by package core/lxd. What LXD says when it refuses
// is kept word for word.
package lxd
