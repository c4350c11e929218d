package world

// PID is the helper process.
func (k *keeper) PID() int { return k.pid }
