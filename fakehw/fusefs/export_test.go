package fusefs

// Passes reports how many attributes the kernel answers for, and whether it may at all.
func (s *Served) Passes() (n int, may bool) {
	p := s.top.u.pass
	p.lock.Lock()
	defer p.lock.Unlock()
	return len(p.held), p.held != nil
}

// PassAtMost limits how many attributes the kernel answers for.
func (s *Served) PassAtMost(n int) {
	p := s.top.u.pass
	p.lock.Lock()
	defer p.lock.Unlock()
	p.most = n
}
