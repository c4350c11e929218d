package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"gpurig/fakehw/capture"
	"gpurig/fixtures/hosts"
	"gpurig/runner/specgen"
)

// A fakeHost is what names a host that is not this machine: a shipped profile,
// a profile file, or a recording.
type fakeHost struct {
	name, description string
	request           specgen.Request // its model, and its recording where it has one
}

// isRecording reports whether a host is named by the file of a recording.
func isRecording(name string) bool { return strings.HasSuffix(name, capture.Ext) }

// openHost reads the host of that name or file.
func openHost(name string) (fakeHost, error) {
	if isRecording(name) {
		return openRecording(name)
	}
	p, m, err := loadHost(name)
	if err != nil {
		return fakeHost{}, err
	}
	return fakeHost{name: p.Name, description: p.Description, request: specgen.Request{Model: m}}, nil
}

func openRecording(name string) (fakeHost, error) {
	f, err := capture.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return fakeHost{}, hint(err, "gpurig host capture -o %s makes such a file on the machine that it is about", filepath.Base(name))
	}
	if err != nil {
		return fakeHost{}, err
	}
	m, err := capture.Replay(f)
	if err != nil {
		return fakeHost{}, err
	}
	model, err := m.Model()
	if err != nil {
		return fakeHost{}, err
	}
	text, err := f.Marshal()
	if err != nil {
		return fakeHost{}, err
	}
	return fakeHost{
		name: strings.TrimSuffix(filepath.Base(name), capture.Ext), description: describe(f),
		request: specgen.Request{Model: model, Recording: string(text)},
	}, nil
}

// describe says what a recording is of.
func describe(f hosts.File) string {
	d := "recorded: " + f.Machine
	if f.Date != "" {
		d += ", " + f.Date
	}
	return d
}
