package programs

import (
	"regexp"
	"strings"
	"testing"
)

// The C library's own ldconfig prints the cache that the machine has: the
// driver's libraries by their SONAMEs, each a file that is there.
func TestLdconfigListsTheDriversLibraries(t *testing.T) {
	ldconfig := requireProgram(t, "ldconfig", "libc-bin")
	for name, want := range map[string][]string{
		"dgx-a100":        {"libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"},
		"a100-mig-2g-3g":  {"libcuda.so.1", "libnvidia-ml.so.1"},
		"jetson-agx-orin": {"libcuda.so.1", "libnvidia-ml.so.1"},
		"igx-orin":        {"libcuda.so.1", "libnvidia-ml.so.1"},
		"vgpu-a40":        {"libnvidia-ml.so.1"}, // and no CUDA, see below
		"workstation":     {"libcuda.so.1", "libGLX_nvidia.so.0"},
	} {
		t.Run(name, func(t *testing.T) {
			said := says(t, name, ldconfig, "-p")
			for _, lib := range want {
				line := regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(lib) + ` \(.*\) => (/.*)$`).FindStringSubmatch(said)
				if line == nil {
					t.Errorf("ldconfig -p does not list %s", lib)
					continue
				}
				if r := enter(t, name, "test", "-s", line[1]); r.exit != 0 {
					t.Errorf("%s leads to %s, which is not there", lib, line[1])
				}
			}
		})
	}
	for name, is := range map[string]string{"no-gpu": "without a GPU", "vgpu-a40": "of vGPUs"} {
		if said := says(t, name, ldconfig, "-p"); strings.Contains(said, "libcuda") {
			t.Errorf("a host %s lists libcuda", is)
		}
	}
}

// A file that the loader finds is of the driver that is loaded.
func TestTheLoadersFileIsTheDriversVersion(t *testing.T) {
	ldconfig := requireProgram(t, "ldconfig", "libc-bin")
	m := model(t, "dgx-a100")
	said := says(t, "dgx-a100", "sh", "-c", `readlink -f "$(`+ldconfig+` -p | awk '$1 == "libcuda.so.1" {print $NF; exit}')"`)
	if !strings.HasSuffix(strings.TrimSpace(said), ".so."+m.Driver.Version) {
		t.Errorf("libcuda.so.1 is %q, want version %s", said, m.Driver.Version)
	}
}
