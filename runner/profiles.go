package runner

import (
	"path/filepath"
	"strings"

	"gpurig/core/host"
	"gpurig/fakehw/capture"
	"gpurig/fakehw/profiles"
)

// Profiles is the HostSource of the shipped host profiles, and of profile files
// and recordings beside a scenario.
type Profiles struct{}

// Host is part of HostSource.
func (p Profiles) Host(name, scenarioFile string) (host.Model, error) {
	if isRecording(name) {
		m, _, err := p.recorded(name, scenarioFile)
		return m, err
	}
	x, err := profiles.Load(beside(name, scenarioFile))
	if err != nil {
		return host.Model{}, err
	}
	return x.Model()
}

// Recording is part of RecordingSource.
func (p Profiles) Recording(name, scenarioFile string) (string, error) {
	if !isRecording(name) {
		return "", nil
	}
	_, text, err := p.recorded(name, scenarioFile)
	return text, err
}

func (Profiles) recorded(name, scenarioFile string) (host.Model, string, error) {
	f, err := capture.ReadFile(beside(name, scenarioFile))
	if err != nil {
		return host.Model{}, "", err
	}
	text, err := f.Marshal()
	if err != nil {
		return host.Model{}, "", err
	}
	m, err := capture.Replay(f)
	if err != nil {
		return host.Model{}, "", err
	}
	model, err := m.Model()
	return model, string(text), err
}

func isRecording(name string) bool { return strings.HasSuffix(name, capture.Ext) }

// beside returns where the host file of a scenario is.
func beside(name, scenarioFile string) string {
	if !isFile(name) || filepath.IsAbs(name) {
		return name
	}
	name = filepath.Join(filepath.Dir(scenarioFile), name)
	if !isFile(name) { // beside a scenario that is given without a folder
		name = "./" + name
	}
	return name
}
