package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/host/osroot"
	"gpurig/core/passthrough"
	"gpurig/fakehw/cachedir"
	"gpurig/fakehw/nvmllib"
	"gpurig/runner"
	"gpurig/runner/partition"
	"gpurig/runner/smoke"
	"gpurig/runner/target/vfio"
	"gpurig/scenarios"
)

// openHardware looks at the machine that scenarios are to run on, and says what keeps
// NVIDIA's GPUs of it from being judged. Nothing is changed on it. close must be
// called.
//
// With reconfigure GPUs may be given another MIG geometry, by scenarios that ask for one.
func openHardware(reconfigure bool) (h *runner.Hardware, closeIt func(), err error) {
	root, err := osroot.New("/")
	if err != nil {
		return nil, nil, broken(err)
	}
	defer func() {
		if err != nil {
			root.Close()
		}
	}()
	lib := nvml.New()
	h = &runner.Hardware{Works: smokeHere, State: fakeState}
	if h.Problem, err = nvmlProblem(root, lib); err != nil {
		return nil, nil, broken(err)
	}
	h.Host = passthrough.New(root, lib, passthrough.HostOptions{})
	if h.Problem != "" {
		h.Host = passthrough.New(root, nil, passthrough.HostOptions{})
	}
	m, err := h.Host.Model()
	if err != nil {
		return nil, nil, broken(err)
	}
	for _, p := range m.Problems { // those of other vendors are well
		if p.What == host.Library {
			h.Problem = p.Text
		}
	}
	if reconfigure {
		h.Sys, h.Open = vfio.Here{Root: root}, openNodes
		h.Reopen = func() *passthrough.Host { return passthrough.New(root, lib, passthrough.HostOptions{}) }
		h.Partition = func(c scenarios.MIGChange) (func() error, error) {
			return partition.Change(lib, c.GPU, c.Profiles, c.Off)
		}
	}
	h.Problem = cmp.Or(h.Problem, uvmProblem(m))
	return h, func() { root.Close() }, nil
}

// fakeState is what the libraries of a fake machine read; empty on a real one.
func fakeState() (string, error) {
	state, err := os.ReadFile(nvmllib.StatePath)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(state), err
}

// nvmlProblem says why NVIDIA's library cannot be asked although its driver is
// loaded; empty: it can, or there is no driver.
func nvmlProblem(root host.Root, lib nvml.Interface) (string, error) {
	node, err := nodeThatNVMLWouldMake(root)
	if err != nil {
		return "", err
	}
	if node != "" {
		return "NVIDIA's library was not asked, since it would make " + node + ": nvidia-smi, run once, makes it", nil
	}
	if loaded, err := host.Exists(root, "/proc/driver/nvidia/version"); err != nil || !loaded {
		return "", err
	}
	if r := lib.Init(); r != nvml.SUCCESS {
		return "NVIDIA's library does not start: " + nvml.ErrorString(r), nil
	}
	lib.Shutdown()
	return "", nil
}

// uvmProblem says what is wrong with the node without which CUDA does not start, where
// a card is there; empty: nothing. Without it a Spec would be made that lacks it.
func uvmProblem(m host.Model) string {
	const p = "/dev/nvidia-uvm"
	if m.Driver == nil || !slices.ContainsFunc(m.NVIDIAGPUs(), func(g host.GPU) bool { return g.PCI != nil && g.Minor >= 0 }) {
		return ""
	}
	i := slices.IndexFunc(m.Nodes, func(n device.Node) bool { return n.Path == p })
	if i < 0 {
		return "this machine has no " + p + ": nvidia-modprobe -u -c 0 loads its module and makes it"
	}
	j := slices.IndexFunc(m.Majors, func(x host.Major) bool { return x.Name == "nvidia-uvm" })
	if j >= 0 && m.Majors[j].Major != m.Nodes[i].Num.Major {
		return fmt.Sprintf("%s of this machine is %s, and its driver has the major %d: remove the node, and nvidia-modprobe -u -c 0 makes the right one",
			p, m.Nodes[i].Num, m.Majors[j].Major)
	}
	return ""
}

// smokeHere runs the smoke workload on the machine itself, by its own loader.
func smokeHere(ctx context.Context) error {
	program, err := cachedir.Beside(smoke.Program)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var r smoke.Result
	if jerr := json.Unmarshal(out.Bytes(), &r); jerr != nil {
		return fmt.Errorf("%s: %w", smoke.Program, cmp.Or(err, jerr))
	}
	if f := r.Failure; f != nil {
		return fmt.Errorf("%s: %s: %s", f.Step, f.Cause, f.Reason)
	}
	return nil
}

// hardwareTargets are where containers are made on hardware when nobody says where,
// each beside what foretells it. Where LXD is missing it is plain LXC, which the note
// says.
func hardwareTargets(asked []string, given bool) (names []string, note string) {
	_, err := exec.LookPath("lxd")
	switch {
	case err != nil && (!given || slices.Contains(asked, "lxd")):
		note = "there is no LXD on this machine: containers are plain LXC's"
		if !given {
			return []string{"sim", "lxc"}, note
		}
		plain := map[string]string{"lxd": "lxc", "sim-lxd": "sim"}
		for _, n := range asked {
			if n = cmp.Or(plain[n], n); !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
		return names, note
	case !given:
		return []string{"sim-lxd", "lxd"}, ""
	}
	return asked, ""
}
