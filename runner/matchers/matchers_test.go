package matchers_test

import (
	"strings"
	"testing"

	"github.com/onsi/gomega/types"

	"gpurig/core/device"
	"gpurig/runner/matchers"
	"gpurig/runner/observe"
)

func TestMatchersShowWhatWasThere(t *testing.T) {
	num := device.Num{Major: 195, Minor: 0}
	seen := observe.Observation{
		Nodes: []observe.Node{{Path: "/dev/nvidia0", Type: device.Char, Num: num, Mode: 0o666, Open: observe.Allowed},
			{Path: "/dev/nvidiactl", Type: device.Char, Num: device.Num{Major: 195, Minor: 255}, Mode: 0o660, Open: observe.Denied}},
		Mounts: []observe.Mount{{Target: "/usr/bin/nvidia-smi", Type: "file", Options: []string{"nosuid", "ro"}}},
		Links:  []observe.Link{{Path: "/usr/lib/libcuda.so", Target: "libcuda.so.1"}},
		Libraries: []observe.Library{{SONAME: "libcuda.so.1", Path: "/usr/lib/libcuda.so.1", Final: "/usr/lib/libcuda.so.550.1", Via: "ld.so.cache", Origin: "/usr/lib/libcuda.so.550.1"},
			{SONAME: "libcudart.so.12", Path: "/opt/libcudart.so.12", Final: "/opt/libcudart.so.550.1", Via: "ld.so.cache", Origin: observe.Image}},
	}
	for _, tc := range []struct {
		name      string
		good, bad types.GomegaMatcher
		message   string // of bad
	}{
		{"HaveNode", matchers.HaveNode("/dev/nvidia0"), matchers.HaveNode("/dev/nvidia1"),
			"Expected the container to have the node /dev/nvidia1\nIt has:\n    /dev/nvidia0 c 195:0 0666 0:0, open is allowed\n"},
		{"HaveNode with number", matchers.HaveNode("/dev/nvidia0", device.Num{Major: 1}, num), matchers.HaveNode("/dev/nvidia0", device.Num{Major: 1, Minor: 2}),
			"to have the node /dev/nvidia0 with number 1:2"},
		{"HaveOpenNode", matchers.HaveOpenNode("/dev/nvidia0"), matchers.HaveOpenNode("/dev/nvidiactl"), "open is denied"},
		{"HaveMount", matchers.HaveMount("/usr/bin/nvidia-smi", "ro"), matchers.HaveMount("/usr/bin/nvidia-smi", "nodev"),
			"to have a mount at /usr/bin/nvidia-smi with nodev\nIt has:\n    /usr/bin/nvidia-smi file nosuid,ro"},
		{"HaveLink", matchers.HaveLink("/usr/lib/libcuda.so", "libcuda.so.1"), matchers.HaveLink("/usr/lib/libcuda.so", "x"),
			"/usr/lib/libcuda.so -> libcuda.so.1 (dangling)"},
		{"ResolveLibrary", matchers.ResolveLibrary("libcuda.so.1", "550.1"), matchers.ResolveLibrary("libcuda.so.1", "535.1"),
			"to find libcuda.so.1 of version 535.1\nIt has:\n    libcuda.so.1: /usr/lib/libcuda.so.1 (/usr/lib/libcuda.so.550.1) by ld.so.cache, from /usr/lib/libcuda.so.550.1"},
		{"ResolveLibrary of the image", matchers.ResolveLibrary("libcuda.so.1", ""), matchers.ResolveLibrary("libcudart.so.12", "550.1"), "by ld.so.cache, from image"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if ok, err := tc.good.Match(seen); !ok || err != nil {
				t.Errorf("no match (%v): %s", err, tc.good.FailureMessage(seen))
			}
			if got := tc.good.NegatedFailureMessage(&seen); !strings.Contains(got, "the container not to ") {
				t.Errorf("negated message: %s", got)
			}
			if ok, err := tc.bad.Match(&seen); ok || err != nil {
				t.Errorf("matched (%v)", err)
			}
			if got := tc.bad.FailureMessage(seen); !strings.Contains(got, tc.message) {
				t.Errorf("message:\n%s\nwant it to have:\n%s", got, tc.message)
			}
		})
	}
	if _, err := matchers.HaveNode("/dev/x").Match("text"); err == nil {
		t.Error("a string was taken for an observation")
	}
}
