package sandbox

// PID is the helper process.
func (k *nsHolder) PID() int { return k.pid }
