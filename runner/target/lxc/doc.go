// Package lxc is the target that makes real containers by liblxc, through its
// own tools: lxc-start with the probe as first process, and lxc-cgroup.
//
// Nothing of it is seen on the machine. A helper process holds a private mount
// namespace for each cgroup version, with a tmpfs that has everything: images,
// container roots, the fake machine's files and nodes, configuration, locks. It
// ends with us, and the namespace and all that is in it with it; the probe of
// every container ends when we hang up, and the container with it. What the
// kernel keeps beyond that, the cgroup directories, has one parent of ours and
// is removed at the end.
//
// It needs root: without, LXC would need a delegated cgroup, subordinate ids and
// a network setup that only an administrator can give.
package lxc
