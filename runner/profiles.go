package runner

import (
	"path/filepath"
	"strings"

	"gpurig/core/host"
	"gpurig/fakehw/capture"
	"gpurig/fakehw/fault"
	"gpurig/fakehw/profiles"
)

// Profiles is the HostSource of the shipped host profiles, and of profile files
// and recordings beside a scenario. The zero value is ready.
type Profiles struct {
	// Instead has recordings, as file names, by the name of the host whose place
	// they take.
	Instead map[string]string
}

// Host is part of HostSource.
func (p Profiles) Host(name, scenarioFile string) (host.Model, error) {
	if file := p.recordingOf(name, scenarioFile); file != "" {
		m, _, err := recorded(file)
		return m, err
	}
	x, err := profiles.Load(beside(name, scenarioFile))
	if err != nil {
		return host.Model{}, err
	}
	return x.Model()
}

// Faults is part of FaultSource.
func (p Profiles) Faults(name, scenarioFile string) (fault.List, error) {
	if p.recordingOf(name, scenarioFile) != "" {
		return nil, nil
	}
	x, err := profiles.Load(beside(name, scenarioFile))
	return x.Faults, err
}

// Recording is part of RecordingSource.
func (p Profiles) Recording(name, scenarioFile string) (string, error) {
	file := p.recordingOf(name, scenarioFile)
	if file == "" {
		return "", nil
	}
	_, text, err := recorded(file)
	return text, err
}

// recordingOf returns the file of a host that is recorded; empty: it is not.
func (p Profiles) recordingOf(name, scenarioFile string) string {
	if file := p.Instead[name]; file != "" {
		return file
	}
	if strings.HasSuffix(name, capture.Ext) {
		return beside(name, scenarioFile)
	}
	return ""
}

func recorded(file string) (host.Model, string, error) {
	f, err := capture.ReadFile(file)
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
