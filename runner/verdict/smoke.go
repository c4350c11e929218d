package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpurig/runner/observe"
)

// smoke judges what the smoke workload said.
func (j *judge) smoke() {
	want, got := j.want.Smoke, j.ev.Seen.Smoke
	if want == nil {
		return
	}
	const what = "smoke workload"
	if got == nil {
		j.add(Inside, what, "run", "was not asked for: the request lacks it")
		return
	}
	switch {
	case want.Step == "" && got.Step != "":
		j.add(Inside, what, "no failure", failure(got))
		return
	case want.Step != string(got.Step), want.Cause != "" && want.Cause != string(got.Cause), want.Code != 0 && want.Code != got.Code:
		w := "failure of " + want.Step + prefixed(": ", want.Cause)
		if want.Code != 0 {
			w += fmt.Sprintf(" (%d)", want.Code)
		}
		j.add(Inside, what, w, failure(got))
		return
	}
	if want.Devices != nil && *want.Devices != len(got.Devices) {
		j.add(Inside, what, fmt.Sprintf("%d devices", *want.Devices), listed(got.Devices))
	}
	uuids := make([]string, len(want.UUIDs))
	for i, u := range want.UUIDs {
		if uuids[i] = u; !strings.HasPrefix(u, "MIG-") && !strings.HasPrefix(u, "GPU-") {
			uuids[i] = "GPU-" + u // NVML names a Tegra's GPU without a prefix, CUDA gives bytes
		}
	}
	if want.UUIDs != nil && !slices.Equal(slices.Sorted(slices.Values(uuids)), got.Devices) {
		j.add(Inside, what, "devices "+strings.Join(uuids, ", "), listed(got.Devices))
	}
	if want.Kernels != "" && want.Kernels != got.Kernels {
		j.add(Inside, what, "kernels: "+want.Kernels, "kernels: "+cmp.Or(got.Kernels, "none ran"))
	}
}

func failure(s *observe.Smoke) string {
	if s.Step == "" {
		return "all passed"
	}
	text := fmt.Sprintf("failure of %s: %s", s.Step, s.Cause)
	if s.Code != 0 {
		text += fmt.Sprintf(" (%d)", s.Code)
	}
	return text + prefixed(": ", s.Reason)
}
