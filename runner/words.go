package runner

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"gpurig/fakehw/catalog"
	"gpurig/fakehw/fault"
	"gpurig/fakehw/profiles"
	"gpurig/runner/image"
	"gpurig/scenarios"
)

// Words are what scenarios may name here: hosts, images, faults, drivers, reasons.
func Words() scenarios.Options {
	o := scenarios.Options{
		IsHost: profiles.Is,
		Hosts:  profiles.Names(), Images: image.Kinds(), Content: image.Check, Ldconfig: image.HasLdconfig,
		Fault: fault.Check, Twin: hasTwin, Try: Profiles{}.Try,
		Driver: func(version string) error {
			_, err := catalog.FindDriver(version)
			return err
		},
		HostFile: func(name, scenarioFile string) error {
			_, err := Profiles{}.Host(name, scenarioFile)
			return err
		},
	}
	for _, m := range AllReasons() {
		o.Reasons = append(o.Reasons, string(m.Reason))
	}
	return o
}

// hasTwin looks for a scenario among those that are shipped, and beside a file.
func hasTwin(name, scenarioFile string) bool {
	if _, err := fs.Stat(scenarios.Files, name+".yaml"); err == nil {
		return true
	}
	_, err := os.Stat(filepath.Join(filepath.Dir(scenarioFile), path.Base(name)+".yaml"))
	return err == nil
}
