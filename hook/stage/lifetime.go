package stage

import "slices"

// A Lifetime is one start of a container by liblxc, up to its last hook. A manager
// may start a container again before the hooks of its last lifetime have run: LXD
// and Incus call it stopped when their own post-stop hook has. It is told by the
// processes that had a hook run, nearest first. One of them is liblxc's monitor,
// which all hooks of one lifetime come from and which outlives them; those before
// it, a shell or somebody's wrapper, end with their hook.
type Lifetime struct {
	Boot string    `json:"boot"` // the kernel's boot_id
	By   []Process `json:"by"`
}

// A Process is told from a later one of the same number by its start.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot
}

// goesOn reports whether the lifetime noted is another one than l and not over,
// and the process that it hangs on: the nearest that still runs. Of our own it is
// the monitor, or what is between, and we come from it.
func (l *Lifetime) goesOn(noted *Lifetime, runs func(Process) bool) (Process, bool) {
	if noted == nil || noted.Boot != l.Boot {
		return Process{}, false
	}
	for _, p := range noted.By {
		if runs(p) {
			return p, !slices.Contains(l.By, p)
		}
	}
	return Process{}, false
}
