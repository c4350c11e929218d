package verdict

import (
	"testing"

	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/runner/observe"
	"gpurig/scenarios"
)

func TestAnImagesLibraryInPlaceOfTheHostsIsSaid(t *testing.T) {
	const mounted = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01"
	image := observe.Library{SONAME: "libcuda.so.1", Path: "/opt/libcuda.so.1", Final: "/opt/libcuda.so.1", Origin: observe.Image}
	host := observe.Library{SONAME: "libcuda.so.1", Path: "/usr/lib/x86_64-linux-gnu/libcuda.so.1", Final: mounted, Origin: mounted}
	other := observe.Library{SONAME: "libz.so.1", Path: "/lib/libz.so.1", Final: "/lib/libz.so.1", Origin: observe.Image}
	said := []Warning{{Reason: hookspec.LibraryShadowed, Text: "libcuda.so.1: the container's loader takes /opt/libcuda.so.1"}}
	for _, tc := range []struct {
		name     string
		seen     observe.Library
		warnings []Warning
		found    bool
	}{
		{name: "the image's, and nobody said so", seen: image, found: true},
		{name: "the image's, with a warning about another", seen: image, warnings: []Warning{{Reason: hookspec.LibraryShadowed, Text: "libnvidia-ml.so.1: …"}}, found: true},
		{name: "the image's, with a warning", seen: image, warnings: said},
		{name: "the host's", seen: host},
		{name: "a library that is not the driver's", seen: other},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ev := Evidence{
				Plan:     &plan.Plan{Mounts: []plan.Mount{{Source: mounted, Target: mounted, Options: []string{"ro"}, Owners: []string{"nvidia.com/gpu=0"}}}},
				Seen:     &observe.Observation{Libraries: []observe.Library{tc.seen}, Mounts: []observe.Mount{{Target: mounted}}},
				Warnings: tc.warnings,
			}
			found := false
			for _, f := range Always(scenarios.Expect{}, ev) {
				found = found || f.What == tc.seen.SONAME
			}
			if found != tc.found {
				t.Errorf("Always() finds fault with %s: %v; want %v", tc.seen.SONAME, found, tc.found)
			}
		})
	}
}
