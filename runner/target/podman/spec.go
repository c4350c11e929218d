package podman

import (
	"cmp"
	"slices"

	rspec "github.com/opencontainers/runtime-spec/specs-go"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/emit/oci"
	"gpurig/core/plan"
)

// The device that a plan is given as.
const (
	kind   = "gpurig.test/plan"
	device = "all"
)

// specVersion is the newest that Podman 4.3 reads; it takes Specs of newer ones for
// missing devices. It has hostPath, and no additionalGids.
const specVersion = "0.5.0"

// specOf is a Spec with all edits but groups.
func specOf(e oci.Edits, p plan.Plan) *specs.Spec {
	edits := specs.ContainerEdits{Env: e.Env}
	for _, d := range e.Devices {
		n := specs.DeviceNode{Path: d.Path, Type: d.Type, Major: d.Major, Minor: d.Minor, FileMode: d.FileMode, UID: d.UID, GID: d.GID}
		at := slices.IndexFunc(p.Nodes, func(n plan.Node) bool { return n.Path == d.Path })
		n.Permissions = cmp.Or(p.Nodes[at].Permissions, "m") // which every container has
		edits.DeviceNodes = append(edits.DeviceNodes, &n)
	}
	for _, m := range e.Mounts {
		edits.Mounts = append(edits.Mounts, &specs.Mount{HostPath: m.Source, ContainerPath: m.Destination, Type: m.Type, Options: m.Options})
	}
	if e.Hooks != nil {
		edits.Hooks = append(hooks("createContainer", e.Hooks.CreateContainer), hooks("poststop", e.Hooks.Poststop)...)
	}
	if len(e.Env)+len(edits.DeviceNodes)+len(edits.Mounts)+len(edits.Hooks) == 0 {
		edits.Env = []string{"container=podman"} // a device without edits is malformed
	}
	return &specs.Spec{Version: specVersion, Kind: kind, Devices: []specs.Device{{Name: device, ContainerEdits: edits}}}
}

func hooks(stage string, list []rspec.Hook) []*specs.Hook {
	var out []*specs.Hook
	for _, h := range list {
		out = append(out, &specs.Hook{HookName: stage, Path: h.Path, Args: h.Args})
	}
	return out
}
