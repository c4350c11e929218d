package plan

// HostID returns the host id of a container's id; ok says that it has one.
// Without a map the ids are the host's.
func HostID(maps []IDMap, id uint32) (host uint32, ok bool) {
	if len(maps) == 0 {
		return id, true
	}
	for _, m := range maps {
		if id >= m.Container && id-m.Container < m.Count {
			return m.Host + (id - m.Container), true
		}
	}
	return 0, false
}
