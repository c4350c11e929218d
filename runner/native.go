package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	fakemachine "gpurig/fakehw/machine"
	"gpurig/fakehw/userspace"
	"gpurig/reports"
	"gpurig/runner/target"
	"gpurig/runner/target/world"
	"gpurig/scenarios"
)

// beyondNative says what of a scenario the manager's own GPU device has no word for;
// empty: nothing.
func beyondNative(can target.Capabilities, v *scenarios.Variant) string {
	if can.PlanTarget == "" {
		return ""
	}
	own := can.Manager + "'s own GPU device"
	if !reflect.ValueOf(v.Policy).IsZero() {
		return "the scenario is about a policy, which " + own + " does not have"
	}
	for _, c := range v.Containers {
		switch {
		case c.VM:
			return "the scenario is about a virtual machine: none is started here"
		case c.Strict:
			return "the scenario is about strict, which " + own + " does not have"
		}
	}
	return ""
}

// ask tells a manager that passes GPUs itself which ones are meant.
func ask(c target.Native, devices map[string]scenarios.Device) {
	all := map[string]map[string]string{}
	for name, o := range optionsOf(devices) {
		all[name] = o.Map()
	}
	c.Ask(all)
}

// toolkit stands for NVIDIA's container toolkit, which a machine with the driver is
// taken to have. LXD looks where it is, makes its Spec with the same library, and
// runs no hook with it.
const (
	toolkitPath = "/usr/bin/nvidia-ctk"
	toolkit     = "#!/bin/sh\necho \"nvidia-ctk: of the fake machine's toolkit there is only this file\" >&2\nexit 1\n"
)

// hasToolkit reports whether the daemon finds one of the machine at hand: on its own
// search path, which is not ours.
func hasToolkit() bool {
	return slices.ContainsFunc(filepath.SplitList(world.Path), func(dir string) bool {
		_, err := exec.LookPath(filepath.Join(dir, "nvidia-ctk"))
		return err == nil
	})
}

// enter runs programs on a machine, whose driver's libraries and programs work.
func (m *hostState) enter(ctx context.Context, command []string, in, out, errs *os.File) error {
	l, err := m.request().Live()
	if err != nil {
		return err
	}
	var said bytes.Buffer
	o := fakemachine.Options{Command: command, Stdin: in, Stdout: out, Stderr: errs, Warn: &said}
	broken, err := m.request().Broken()
	if err != nil {
		return err
	}
	if err := userspace.Add(ctx, l, &o, userspace.Options{NVML: broken.NVML(m.request().NVML), Warn: &said}); err != nil {
		return err
	}
	if !hasToolkit() && m.model.Userspace != nil {
		if o.Files == nil {
			o.Files = map[string][]byte{}
		}
		o.Files[toolkitPath] = []byte(toolkit)
	}
	ended, err := fakemachine.Enter(ctx, l, o)
	if err == nil && ended.Exit != 0 {
		err = fmt.Errorf("exit code %d", ended.Exit)
	}
	if err != nil && said.Len() > 0 {
		err = errors.Join(err, errors.New(strings.TrimSpace(said.String())))
	}
	return err
}

// differing is the verdict on a result with findings: a manager that does it its own
// way is not wrong for that, unless the scenario says so.
func (p *played) differing() reports.Verdict {
	if p.can.PlanTarget != "" && !p.agrees {
		return reports.Differ
	}
	return reports.Fail
}

// partner returns what a result is compared with: every earlier one of its family;
// what a manager did itself, with the plan as the same manager carried it out, else
// with the last that did.
func partners(ran []played, p *played) []*played {
	var out []*played
	for i := range ran {
		if ran[i].can.Family == p.can.Family && ran[i].can.PlanTarget == "" {
			out = append(out, &ran[i])
		}
	}
	if p.can.PlanTarget == "" || len(out) == 0 {
		return out
	}
	for _, x := range out {
		if x.result.Target == p.can.PlanTarget {
			return []*played{x}
		}
	}
	return out[len(out)-1:]
}
