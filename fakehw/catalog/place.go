package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Placement is one GPU instance put somewhere on a GPU.
type Placement struct {
	Profile MIGProfile
	Start   int      // first memory slice
	ID      int      // GPU instance id, from the position
	Parts   []string // compute instances, "1c", in order; none: one that has the whole instance
}

// A GeometryError says why a list of MIG profiles cannot stand on a product,
// and what can.
type GeometryError struct {
	Product string   // name
	Want    []string // as asked for
	Why     string
	Fits    []string // profiles that would still fit where the list went wrong
}

func (e *GeometryError) Error() string {
	fits := strings.Join(e.Fits, ", ")
	if fits == "" {
		fits = "nothing more"
	}
	return fmt.Sprintf("MIG geometry [%s] on %s: %s; what fits: %s", strings.Join(e.Want, ", "), e.Product, e.Why, fits)
}

// Place finds a place for each of the named profiles, or says why there is none.
// A name may carry a fixed place, as nvidia-smi mig -cgi takes it
// ("3g.20gb:4"), and compute instances ("3g.20gb/1c/2c").
//
// One after the other gets the first free place that the driver would try. Where
// that leaves no room for a later one, other places are tried for the earlier
// ones, which the driver does not do: nvidia-smi mig -cgi then wants another
// order of the same list. Instances come back in the order of their ids, which
// is the order of MIG device indexes, or, where the list fixes every place, in
// the order of the list. The error is a *GeometryError.
func (p Product) Place(names []string) ([]Placement, error) {
	bad := func(why string, fits []string) ([]Placement, error) {
		return nil, &GeometryError{Product: p.Name, Want: names, Why: why, Fits: fits}
	}
	if len(p.MIG) == 0 {
		return bad("this GPU has no MIG", nil)
	}
	wants := make([]want, len(names))
	for i, name := range names {
		w, why := p.parseWant(name)
		if why != "" {
			return bad(why, p.profileNames())
		}
		wants[i] = w
	}
	if len(wants) == 0 {
		return nil, nil
	}
	best := 0
	out := p.search(wants, nil, &best, map[deadEnd]bool{})
	if out == nil {
		return bad(fmt.Sprintf("no room for %s beside [%s]", names[best], strings.Join(names[:best], ", ")), p.room(wants[:best]))
	}
	if slices.ContainsFunc(wants, func(w want) bool { return w.start < 0 }) {
		slices.SortFunc(out, func(a, b Placement) int { return cmp.Compare(a.ID, b.ID) })
	}
	return out, nil
}

// tries returns the starts of m in the order in which the driver tries them. On
// a GPU of eight memory slices it begins with the upper half, where there are
// three compute slices and not four: on an empty one 3g.20gb is put at 4, seven
// times 1g.5gb at 6, 4, 5, 0, 1, 2 and 3, three times 2g.10gb at 4, 0 and 2
// (MIG user guide, creating GPU instances and instance geometry; published
// captures of A100 80GB and H100 agree). A 1g with double memory is put at 4;
// where the next one goes is unverified. GPUs of four slices are filled from 0 on
// (a published capture of an A30).
func (p Product) tries(m MIGProfile) []int {
	if p.Slices != 8 {
		return m.Starts
	}
	order := map[int][]int{1: {6, 4, 5, 0, 1, 2, 3}, 2: {4, 6, 0, 2}, 4: {4, 0}, 8: {0}}[m.Size]
	return slices.DeleteFunc(order, func(start int) bool { return !slices.Contains(m.Starts, start) })
}

// A want is one parsed entry of a geometry.
type want struct {
	profile MIGProfile
	start   int // -1: anywhere
	parts   []string
}

func (p Product) profileNames() []string {
	var out []string
	for _, m := range p.MIG {
		out = append(out, m.Name)
	}
	return out
}

// parseWant reads "3g.20gb:4/1c/2c"; why is empty when it could.
func (p Product) parseWant(text string) (w want, why string) {
	rest, parts, hasParts := strings.Cut(text, "/")
	name, at, placed := strings.Cut(rest, ":")
	m, ok := p.MIGProfile(name)
	if !ok {
		return want{}, fmt.Sprintf("there is no profile %q", name)
	}
	w = want{profile: m, start: -1}
	if placed {
		n, err := strconv.Atoi(at)
		if err != nil || !slices.Contains(m.Starts, n) {
			return want{}, fmt.Sprintf("%s cannot start at slice %q, only at %v", name, at, m.Starts)
		}
		w.start = n
	}
	if !hasParts {
		return w, ""
	}
	sum := 0
	for _, part := range strings.Split(parts, "/") {
		n, err := strconv.Atoi(strings.TrimSuffix(part, "c"))
		if err != nil || n < 1 || part != strconv.Itoa(n)+"c" {
			return want{}, fmt.Sprintf("compute instance %q of %s is not like \"1c\"", part, name)
		}
		sum += n
		w.parts = append(w.parts, part)
	}
	if sum > m.Compute {
		return want{}, fmt.Sprintf("compute instances of %s have %d slices together, it has %d", name, sum, m.Compute)
	}
	return w, ""
}

// A dead end is a number of wants that were placed and the memory slices they
// took together: what comes after depends on nothing else.
type deadEnd struct{ placed, slices int }

// search places wants one after another, going back when stuck. best is the
// longest run of wants that could stand together; dead holds what is known to
// lead nowhere, without which equal profiles would be tried in every order.
func (p Product) search(wants []want, done []Placement, best *int, dead map[deadEnd]bool) []Placement {
	*best = max(*best, len(done))
	if len(done) == len(wants) {
		return slices.Clone(done)
	}
	here := deadEnd{placed: len(done)}
	for _, d := range done {
		here.slices |= (1<<d.Profile.Size - 1) << d.Start
	}
	if dead[here] {
		return nil
	}
	w := wants[len(done)]
	for _, start := range p.tries(w.profile) {
		if w.start >= 0 && start != w.start || !p.free(w.profile, start, done) {
			continue
		}
		next := Placement{Profile: w.profile, Start: start, ID: GPUInstanceID(start, w.profile.Size, p.Slices), Parts: w.parts}
		if out := p.search(wants, append(done, next), best, dead); out != nil {
			return out
		}
	}
	dead[here] = true
	return nil
}

// free reports whether an instance of m may begin at start beside done: no
// shared memory slice, compute slices left, and its count not used up.
func (p Product) free(m MIGProfile, start int, done []Placement) bool {
	compute, same := m.Compute, 1
	for _, d := range done {
		if start < d.Start+d.Profile.Size && d.Start < start+m.Size {
			return false
		}
		compute += d.Profile.Compute
		if d.Profile.ID == m.ID {
			same++
		}
	}
	total := 7
	if p.Slices == 4 {
		total = 4
	}
	return compute <= total && same <= m.Count
}

// room lists the profiles that fit beside wants.
func (p Product) room(wants []want) []string {
	var out []string
	for _, m := range p.MIG {
		more := append(slices.Clone(wants), want{profile: m, start: -1})
		if p.search(more, nil, new(int), map[deadEnd]bool{}) != nil {
			out = append(out, m.Name)
		}
	}
	return out
}
