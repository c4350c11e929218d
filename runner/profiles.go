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
		r, err := recorded(file)
		return r.model, err
	}
	x, err := profiles.Load(beside(name, scenarioFile))
	if err != nil {
		return host.Model{}, err
	}
	return x.Model()
}

// Faults is part of FaultSource.
func (p Profiles) Faults(name, scenarioFile string) (fault.List, error) {
	if file := p.recordingOf(name, scenarioFile); file != "" {
		r, err := recorded(file)
		return r.faults, err
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
	r, err := recorded(file)
	return r.text, err
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

// A recording is a recorded host, what was broken on it, and its file's text.
type recording struct {
	model  host.Model
	faults fault.List
	text   string
}

func recorded(file string) (recording, error) {
	f, err := capture.ReadFile(file)
	if err != nil {
		return recording{}, err
	}
	text, err := f.Marshal()
	if err != nil {
		return recording{}, err
	}
	m, err := capture.Replay(f)
	if err != nil {
		return recording{}, err
	}
	model, faults, err := m.Broken()
	return recording{model, faults, string(text)}, err
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
