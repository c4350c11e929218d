package catalog

import "slices"

// Choose returns the memory slice at which the driver puts one more instance of
// m beside those in done. It takes the place that leaves most for later: the one
// that overlaps the fewest places where some instance could still begin, and of
// equals the lowest. ok is false when there is no room.
//
// This gives the ids that the MIG user guide prints for A100 (seven 1g: 13, 11,
// 12, 7, 8, 9, 10; two 3g: 2, 1). Of four-slice GPUs it is unverified.
func (p Product) Choose(m MIGProfile, done []Placement) (start int, ok bool) {
	least := 0
	for _, at := range m.Starts {
		if !p.free(m, at, done) {
			continue
		}
		if lost := p.lost(m, at, done); !ok || lost < least {
			start, least, ok = at, lost, true
		}
	}
	return start, ok
}

// lost counts the places, of any profile, that an instance of m at start takes.
func (p Product) lost(m MIGProfile, start int, done []Placement) int {
	n := 0
	for _, o := range p.MIG {
		for _, at := range o.Starts {
			if at < start+m.Size && start < at+o.Size && p.free(o, at, done) {
				n++
			}
		}
	}
	return n
}

// Fits reports whether an instance of m may begin at start beside done.
func (p Product) Fits(m MIGProfile, start int, done []Placement) bool {
	return slices.Contains(m.Starts, start) && p.free(m, start, done)
}

// Remaining returns how many more instances of m there is room for beside done.
func (p Product) Remaining(m MIGProfile, done []Placement) int {
	done = slices.Clone(done)
	for n := 0; ; n++ {
		start, ok := p.Choose(m, done)
		if !ok {
			return n
		}
		done = append(done, Placement{Profile: m, Start: start})
	}
}
