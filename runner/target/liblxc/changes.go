package liblxc

import "slices"

// Changes says how one list of mount entries becomes another: entries that only
// was has, and those that only is has, each in order. An entry whose source or
// options changed is in both.
func Changes(was, is []Entry) (gone, added []Entry) {
	equal := func(a, b Entry) bool {
		return a.Source == b.Source && a.Target == b.Target && a.Type == b.Type && slices.Equal(a.Options, b.Options)
	}
	by := make(map[string]Entry, len(was))
	for _, e := range was {
		by[e.Target] = e
	}
	keep := make(map[string]bool, len(is))
	for _, e := range is {
		if old, ok := by[e.Target]; ok && equal(old, e) {
			keep[e.Target] = true
			continue
		}
		added = append(added, e)
	}
	for _, e := range was {
		if !keep[e.Target] {
			gone = append(gone, e)
		}
	}
	return gone, added
}
