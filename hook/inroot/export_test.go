package inroot

// What the tests of this package look at from outside.
var (
	Elsewhere         = elsewhere
	MountIDFromProc   = mountIDFromProc
	MountIDFromKernel = mountID
)
