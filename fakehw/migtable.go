package fakehw

import "slices"

// MIGMinors returns /proc/driver/nvidia-caps/mig-minors, which is the same on
// all hosts: the minor of every MIG capability that there could ever be.
func MIGMinors() []byte { return slices.Clone(migMinors()) }
