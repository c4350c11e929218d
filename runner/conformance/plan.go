package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"

	rspec "github.com/opencontainers/runtime-spec/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/device"
	"gpurig/core/emit/oci"
	"gpurig/core/policy"
	"gpurig/core/translate"
	"gpurig/fakehw/tree"
)

// product is our own: a Spec becomes a plan, and that edits of config.json. It looks at a
// fake host that has what the cases name, whose administrator allows what the table of
// package policy does not.
type product struct{}

func (product) Name() string    { return "gpurig" }
func (product) Version() string { return "(plan)" }
func (product) Close() error    { return nil }

func (product) Configure(_ context.Context, c Case) ([]byte, error) {
	root, err := caseHost(strings.Contains(c.Spec, "type: b"))
	if err != nil {
		return nil, errors.Join(ErrBroken, err)
	}
	spec, err := cdi.Parse([]byte(c.Spec), c.Name+".yaml")
	if err != nil {
		return nil, err
	}
	name, err := cdi.ParseName(c.Device)
	if err != nil {
		return nil, err
	}
	edits, err := cdi.Resolve([]cdi.Source{cdi.FromHost(spec)}, []cdi.Name{name})
	if err != nil {
		return nil, err
	}
	p, err := translate.Edits(root, edits, translate.Options{Policy: policy.Policy{
		Drivers: []string{"conformance"}, BlockDrivers: []string{"conformance"},
		Sources: []string{"/usr/share"}, Tmpfs: []string{"/conformance"}, Environment: []string{"CONFORMANCE", "CONFORMANCE_OTHER"},
	}})
	if err != nil {
		return nil, err
	}
	e, err := oci.Emit(p, oci.Options{HookPath: "/cdi-hook", HookFile: "/hook.json"})
	if err != nil {
		return nil, err
	}
	var config rspec.Spec
	e.Apply(&config)
	return json.Marshal(config)
}

// caseHost has what the cases name, as devices of one driver: those of /dev/null are never
// given by a plan. /dev/conformance is a block device or not.
func caseHost(block bool) (*tree.Tree, error) {
	t := tree.New()
	kind := device.Char
	if block {
		kind = device.Block
	}
	var errs []error
	for path, text := range map[string]string{
		"/proc/devices":   "Character devices:\n240 conformance\n\nBlock devices:\n240 conformance\n",
		"/usr/share/file": "text",
	} {
		errs = append(errs, t.WriteFile(path, []byte(text), 0o644))
	}
	for _, n := range []device.Node{
		{Path: "/dev/null", Type: device.Char, Num: device.Num{Major: 240, Minor: 3}, Mode: 0o666},
		{Path: "/dev/zero", Type: device.Char, Num: device.Num{Major: 240, Minor: 5}, Mode: 0o666},
		{Path: "/dev/loop-control", Type: device.Char, Num: device.Num{Major: 240, Minor: 237}, Mode: 0o660},
		{Path: "/dev/conformance", Type: kind, Num: device.Num{Major: 240, Minor: 77}, Mode: fs.FileMode(0o666)},
	} {
		errs = append(errs, t.Mknod(n))
	}
	return t, errors.Join(errs...)
}
