package packaging

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// parsers are those that read what somebody else wrote, and emitters those that
// write what somebody else's program reads: each has a fuzz target.
var parsers = []struct{ what, dir, target string }{
	{"PCI addresses", "core/pci", "FuzzParseBDF"},
	{"device numbers", "core/device", "FuzzParseNum"},
	{"device options", "core/request", "FuzzParse"},
	{"CDI names", "core/cdi", "FuzzParseName"},
	{"CDI Specs, YAML and JSON", "core/cdi", "FuzzParse"},
	{"L4T CSV", "core/cdi/nvidia", "FuzzParseCSV"},
	{"documents, YAML and JSON", "core/strictdoc", "FuzzParse"},
	{"YAML files of ours", "core/strictdoc", "FuzzRead"},
	{"policy", "core/policy/policyfile", "FuzzParse"},
	{"hook arguments", "core/translate", "FuzzHookArgs"},
	{"/proc/devices, /proc/misc, mountinfo, of a translation", "core/translate", "FuzzProcTexts"},
	{"ld.so.cache", "core/ldcache", "FuzzParse"},
	{"ld.so.conf", "core/ldcache", "FuzzConf"},
	{"ld.so.preload, musl's path file, folders in a loader", "core/ldcache", "FuzzResolver"},
	{"ELF", "core/elf", "FuzzParse"},
	{"/proc/driver/nvidia: a GPU", "core/host", "FuzzB44ParseGPUInfo"},
	{"/proc/driver/nvidia: the version", "core/host", "FuzzB44ParseDriverVersion"},
	{"/proc/driver/nvidia-caps", "core/host", "FuzzB46ParseMIGMinors"},
	{"/proc/devices", "core/host", "FuzzParseProcDevices"},
	{"amdkfd topology", "core/host", "FuzzParseKFDNode"},
	{"mountinfo", "runner/observe", "FuzzParseMountinfo"},
	{"mountinfo, of the hook", "hook", "FuzzParseMounts"},
	{"hook file", "core/hookspec", "FuzzParse"},
	{"warnings of the hook", "core/hookspec", "FuzzParseWarnings"},
	{"scenario", "scenarios", "FuzzParse"},
	{"profile", "fakehw/profiles", "FuzzParse"},
	{"report", "reports", "FuzzParse"},
	{"records of real machines", "fixtures/records", "FuzzParse"},
	{"LXC configuration", "core/emit/lxc", "FuzzEmitRoundTrip"},
	{"OCI configuration", "core/emit/oci", "FuzzEmitRoundTrip"},
	{"LXD configuration", "core/emit/lxd", "FuzzEmitRoundTrip"},
	{"plan of a virtual machine", "core/vfio", "FuzzParseStep"},
	{"sysfs, of a plan for a virtual machine", "core/vfio", "FuzzTextsOfSysfs"},
	{"vGPU types of a virtual function", "core/vfio", "FuzzParseCreatable"},
	{"Proxmox VE configuration", "core/emit/pve", "FuzzEmitRoundTrip"},
}

func TestEveryParserHasAFuzzTarget(t *testing.T) {
	for _, p := range parsers {
		if !fuzzed(t, p.dir, p.target) {
			t.Errorf("%s: no %s with seeds in %s", p.what, p.target, p.dir)
		}
	}
	if fuzzed(t, "core/pci", "FuzzNothing") { // the control
		t.Error("a target that is not there was found")
	}
}

// fuzzed reports whether a folder has that target, with seeds.
func fuzzed(t *testing.T, dir, target string) bool {
	files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	body := regexp.MustCompile(`(?ms)^func ` + target + `\(f \*testing\.F\) \{.*?^\}`)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`f\.Add\(|seed`).Match(body.Find(data)) {
			return true
		}
	}
	return false
}
