package translate_test

import (
	"testing"

	"gpurig/core/cdi"
	"gpurig/core/plan"
	"gpurig/core/translate"
	"gpurig/fixtures/golden"
)

func TestGoldenPlans(t *testing.T) {
	idmap := []plan.IDMap{{Container: 0, Host: 100000, Count: 65536}}
	for _, tc := range []struct {
		name  string
		opts  translate.Options
		edits []cdi.Edits
	}{
		{"one-gpu", translate.Options{}, []cdi.Edits{commonEdits(), gpuEdits(0)}},
		{"two-gpus", translate.Options{}, []cdi.Edits{commonEdits(), gpuEdits(0), gpuEdits(1)}},
		{"one-gpu-idmapped", translate.Options{IDMap: idmap}, []cdi.Edits{commonEdits(), gpuEdits(0)}},
		{"one-gpu-owner-set", translate.Options{UID: ptr(uint32(1000)), GID: ptr(uint32(1000)), IDMap: idmap}, []cdi.Edits{commonEdits(), gpuEdits(0)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHost(t)
			before := h.Sum()
			p := mustEdits(t, h, tc.opts, tc.edits...)
			golden.Equal(t, "testdata/plan/"+tc.name+".json", toJSON(t, p))
			if h.Sum() != before {
				t.Error("translating changed the host")
			}
		})
	}
}
