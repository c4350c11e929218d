package cdi

import specs "tags.cncf.io/container-device-interface/specs-go"

// Edits are the container edits that one requested device brings: the device's
// own, or (with an empty Device) those of the whole Spec, which come once
// however many devices of the Spec are asked for.
type Edits struct {
	Device string // qualified name, "nvidia.com/gpu=0"; empty: Spec-wide
	Kind   string // "nvidia.com/gpu"
	Spec   string // where the Spec came from: a file, Generated, or OnHost
	Edits  *specs.ContainerEdits

	// Annotations of the device, or of the Spec where Device is empty. They mean
	// nothing to a container; whoever drops them shall say so.
	Annotations map[string]string
}

// OnHost is the Spec of edits that no Spec has: the nodes of a GPU.
const OnHost = "host"
