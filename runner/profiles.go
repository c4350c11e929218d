package runner

import (
	"path/filepath"

	"gpurig/core/host"
	"gpurig/fakehw/profiles"
)

// Profiles is the HostSource of the shipped host profiles, and of profile files
// beside a scenario.
type Profiles struct{}

// Host is part of HostSource.
func (Profiles) Host(name, scenarioFile string) (host.Model, error) {
	if isFile(name) {
		name = filepath.Join(filepath.Dir(scenarioFile), name)
		if !isFile(name) { // beside a scenario that is given without a folder
			name = "./" + name
		}
	}
	p, err := profiles.Load(name)
	if err != nil {
		return host.Model{}, err
	}
	return p.Model()
}
