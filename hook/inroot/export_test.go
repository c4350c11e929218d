package inroot

// What the tests of this package look at from outside.
var (
	Elsewhere         = elsewhere
	MountIDFromProc   = mountIDFromProc
	MountIDFromKernel = mountID
)

// TempName is the name of a next temporary.
func (r *Root) TempName() string { return r.tempName() }
