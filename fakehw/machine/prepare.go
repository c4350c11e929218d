package machine

// A Prepared is the first process of a machine whose host is not known yet: it
// starts, and gets its namespaces, while the host is made.
type Prepared struct {
	w way
	p *process // nil: there is none, or it was taken
}

// Prepare starts the first process of a machine, with our own standard streams,
// for Options.Prepared. Where that does not work, Enter says why. Close must be
// called.
func Prepare() *Prepared {
	if !initialised.Load() {
		return nil
	}
	w := firstWay(Options{})
	p, err := begin(w, withDefaults(Options{Command: []string{"true"}}))
	if err != nil {
		return nil // Enter will meet it again
	}
	return &Prepared{w, p}
}

// take returns the process, once, if it is of this way.
func (r *Prepared) take(w way) *process {
	if r == nil || r.p == nil || r.w != w {
		return nil
	}
	p := r.p
	r.p = nil
	return p
}

// Close ends a process that was not used. A nil Prepared has none.
func (r *Prepared) Close() {
	if r != nil && r.p != nil {
		_ = r.p.cmd.Process.Kill() // else it ends when it finds that nobody speaks to it
		r.p.finish()
		r.p = nil
	}
}
