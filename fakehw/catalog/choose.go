package catalog

import "slices"

// Choose returns the memory slice at which the driver puts one more instance of
// m beside those in done, the first free one that it tries; Place goes by the
// same order. ok is false when there is no room.
func (p Product) Choose(m MIGProfile, done []Placement) (start int, ok bool) {
	for _, at := range p.tries(m) {
		if p.free(m, at, done) {
			return at, true
		}
	}
	return 0, false
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
