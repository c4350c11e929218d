package sim

import (
	"gpurig/core/device"
	"gpurig/fakehw/tree"
	"gpurig/runner/observe"
)

// freshDev returns the tmpfs that LXC mounts on /dev with lxc.autodev = 1. What
// LXC puts into it after the mount entries is here from the start: no entry of
// a plan goes there.
func freshDev() (*tree.Tree, error) {
	t := tree.New()
	for _, n := range []device.Node{
		{Path: "/null", Num: device.Num{Major: 1, Minor: 3}},
		{Path: "/zero", Num: device.Num{Major: 1, Minor: 5}},
		{Path: "/full", Num: device.Num{Major: 1, Minor: 7}},
		{Path: "/random", Num: device.Num{Major: 1, Minor: 8}},
		{Path: "/urandom", Num: device.Num{Major: 1, Minor: 9}},
		{Path: "/tty", Num: device.Num{Major: 5, Minor: 0}},
		{Path: "/ptmx", Num: device.Num{Major: 5, Minor: 2}},
	} {
		n.Type, n.Mode = device.Char, 0o666
		if err := t.Mknod(n); err != nil {
			return nil, err
		}
	}
	for _, l := range [][2]string{{"/fd", "/proc/self/fd"}, {"/stdin", "/proc/self/fd/0"}, {"/stdout", "/proc/self/fd/1"}, {"/stderr", "/proc/self/fd/2"}} {
		if err := t.Symlink(l[0], l[1]); err != nil {
			return nil, err
		}
	}
	for _, d := range []string{"/pts", observe.OwnDir[len("/dev"):]} {
		if err := t.Mkdir(d, 0o755); err != nil {
			return nil, err
		}
	}
	return t, nil
}
