package programs

import (
	"regexp"
	"strings"
	"testing"
)

// mdevctl, which system administrators keep their vGPUs with: what it finds, and
// what becomes of a device that it defines, starts and stops.
func TestMdevctlKeepsAVGPU(t *testing.T) {
	requireNodes(t) // its definitions are below /etc
	requireProgram(t, "mdevctl", "mdevctl")
	const uuid = "7f1b0d2c-0f5c-4b1e-9d51-5d1f8f2f6b11"
	said := script(t, "vgpu-a40", "mdevctl.sh")
	types := regexp.MustCompile(`(?m)^0000:3b:00\.4\n(?:  .*\n)*?  nvidia-557\n    Available instances: 1\n    Device API: vfio-pci\n    Name: NVIDIA A40-1Q\n    Description: num_heads=4, frl_config=60, framebuffer=1024M, max_resolution=5120x2880, max_instance=32\n`)
	if !types.MatchString(said["types"]) {
		t.Errorf("mdevctl types:\n%.1500s", said["types"])
	}
	if n := len(regexp.MustCompile(`(?m)^0000:(3b|e8):0[0-4]\.[0-7]$`).FindAllString(said["types"], -1)); n != 64 {
		t.Errorf("mdevctl types names %d functions, want the 32 of each board", n)
	}
	for title, want := range map[string]string{
		"defined": uuid + " 0000:3b:00.4 nvidia-557 manual",
		"started": uuid + " 0000:3b:00.4 nvidia-557 manual (defined)",
		"sysfs":   uuid + "\n0",
		"stopped": "1",
		"again":   "1",
		"gone":    "",
	} {
		if got := strings.TrimSpace(said[title]); got != want {
			t.Errorf("%s: %q, want %q", title, got, want)
		}
	}
	for title, want := range map[string]string{
		"twice":   "already exists", // mdevctl looks before it writes
		"unknown": "nvidia-1",
	} {
		if !strings.Contains(said[title], want) {
			t.Errorf("%s: %q does not say %q", title, said[title], want)
		}
	}
}

// A host without vGPUs has no parents.
func TestMdevctlFindsNothingWhereThereIsNothing(t *testing.T) {
	requireProgram(t, "mdevctl", "mdevctl")
	for _, name := range []string{"dgx-a100", "workstation"} {
		if said := says(t, name, "mdevctl", "types"); strings.TrimSpace(said) != "" {
			t.Errorf("mdevctl types on %s: %s", name, said)
		}
	}
}
