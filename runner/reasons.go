package runner

import (
	"slices"

	"gpurig/core/cdi/drm"
	"gpurig/core/cdi/nvidia"
	"gpurig/core/cdi/pgpu"
	"gpurig/core/emit/lxc"
	"gpurig/core/emit/lxd"
	"gpurig/core/emit/oci"
	"gpurig/core/emit/pve"
	"gpurig/core/hookspec"
	"gpurig/core/legacy"
	"gpurig/core/policy/policyfile"
	"gpurig/core/refuse"
	"gpurig/core/request"
	"gpurig/core/translate"
	"gpurig/core/vfio"
)

// ReasonStartFailed is the reason of a start, plug or unplug that the container
// manager or the hook gave up, although the product had made a plan.
const ReasonStartFailed refuse.Reason = "start-failed"

// ReasonLibraryShadowed is the reason of a refusal or a warning of cdi-hook.
const ReasonLibraryShadowed refuse.Reason = hookspec.LibraryShadowed

// Reasons returns the reasons that this package adds to those of the product.
func Reasons() []refuse.Meaning {
	return []refuse.Meaning{
		{Reason: ReasonStartFailed, Meaning: "The container manager or the hook could not carry out the plan."},
		{Reason: ReasonLibraryShadowed, Meaning: "The container's loader loads another file for a library than the one mounted from the host; an error in strict mode."},
	}
}

// AllReasons returns every reason that a scenario can expect, of refusals,
// warnings and notes, as its package lists it. One reason may be in several
// packages.
func AllReasons() []refuse.Meaning {
	return slices.Concat(request.AllReasons(), translate.Reasons(), translate.NoteReasons(), lxc.Reasons(), oci.Reasons(), pve.Reasons(), lxd.Reasons(), policyfile.Reasons(),
		legacy.Reasons(), nvidia.Reasons(), drm.Reasons(), pgpu.Reasons(), vfio.Reasons(), Reasons())
}
