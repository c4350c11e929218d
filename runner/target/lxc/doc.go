// Package lxc is the target that makes real containers by liblxc, through its
// own tools: lxc-start with the probe as first process, and lxc-cgroup.
//
// It leaves nothing on the machine. A helper process holds a private mount
// namespace for each cgroup version, with a tmpfs for everything: images,
// container roots, the fake machine's files and nodes, configuration, locks. It
// ends with this process, and the namespace with it; the probe of
// every container ends when its connection closes, and the container with it.
// What the kernel keeps beyond that, the cgroup directories, has one parent, which
// is removed at the end.
//
// It needs root: otherwise LXC would need a delegated cgroup, subordinate ids and
// a network setup that only an administrator can provide.
package lxc
