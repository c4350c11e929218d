package sim

import "gpurig/core/plan"

// overflowID is what an id without a mapping shows as (/proc/sys/kernel/overflowuid).
const overflowID = 65534

// inside returns the container's id for a host's; no map is the identity.
func inside(m []plan.IDMap, host uint32) (uint32, bool) {
	if len(m) == 0 {
		return host, true
	}
	for _, r := range m {
		if host >= r.Host && host-r.Host < r.Count {
			return r.Container + host - r.Host, true
		}
	}
	return overflowID, false
}

// outside returns the host's id for a container's.
func outside(m []plan.IDMap, id uint32) (uint32, bool) {
	if len(m) == 0 {
		return id, true
	}
	for _, r := range m {
		if id >= r.Container && id-r.Container < r.Count {
			return r.Host + id - r.Container, true
		}
	}
	return overflowID, false
}
