// Package lxd is the target that has LXD, or Incus, make containers, through its
// REST API.
//
// It starts a private daemon in a namespace of package sandbox: with a state
// directory and a storage pool on a tmpfs, its own process and network
// namespace, and no network. The daemon, its containers and their
// files end with this process, however it ends. Cgroup directories have one parent,
// and the next run removes what a killed one left.
//
// A plan is given as unix-char and disk devices, raw.lxc and
// cdi-hook as liblxc's hook, by package core/emit/lxd. LXD's refusals
// are kept verbatim.
package lxd
