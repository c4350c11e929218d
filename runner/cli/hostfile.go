package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gpurig/core/host"
	"gpurig/fakehw/capture"
	"gpurig/fakehw/fault"
	"gpurig/fixtures/hosts"
	"gpurig/runner/specgen"
)

// A fakeHost is what names a host that is not this machine: a shipped profile,
// a profile file, or a recording.
type fakeHost struct {
	name, description string
	request           specgen.Request // the host without its faults, its recording where it has one, and the faults
	model             host.Model      // what there is, under the faults
}

// addHost gives a command the flag that names the host it is about.
func addHost(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "host", "", "`HOST`: a fake host, a profile file or a recording; none: this machine")
	completeFlag(cmd, "host", hostNames)
}

// isRecording reports whether a host is named by the file of a recording.
func isRecording(name string) bool { return strings.HasSuffix(name, capture.Ext) }

// openHost reads the host of that name or file, with these faults beside its own.
func openHost(name string, faults ...string) (h fakeHost, err error) {
	if isRecording(name) {
		h, err = openRecording(name)
	} else {
		h, err = openProfile(name)
	}
	if err != nil {
		return fakeHost{}, err
	}
	for _, text := range faults {
		f, err := fault.Parse(text)
		if err == nil {
			h.request.Faults, err = h.request.Faults.With(f)
		}
		if err != nil {
			return fakeHost{}, err
		}
	}
	broken, err := h.request.Broken()
	h.model = broken.Model
	return h, err
}

func openProfile(name string) (fakeHost, error) {
	p, m, err := loadHost(name)
	if err != nil {
		return fakeHost{}, err
	}
	return fakeHost{name: p.Name, description: p.Description, request: specgen.Request{Model: m, Faults: p.Faults}}, nil
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
	model, faults, err := m.Broken()
	if err != nil {
		return fakeHost{}, err
	}
	text, err := f.Marshal()
	if err != nil {
		return fakeHost{}, err
	}
	return fakeHost{
		name: strings.TrimSuffix(filepath.Base(name), capture.Ext), description: describe(f),
		request: specgen.Request{Model: model, Recording: string(text), Faults: faults},
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
