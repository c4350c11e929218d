package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpurig/core/passthrough"
	"gpurig/core/show"
	"gpurig/core/vfio"
)

// A machineTranslation is what translate makes for a virtual machine.
type machineTranslation struct {
	Plan      vfio.Plan    `json:"plan"`
	Nodes     []vfio.Nodes `json:"nodes"`     // of each device, as they will be
	Arguments []string     `json:"arguments"` // of QEMU
	Script    string       `json:"script"`    // that does the plan's writes and takes them back
}

// containersOnly are flags without a meaning for a virtual machine.
var containersOnly = []string{"cgroup", "idmap", "hook-path", "hook-file", "nodes-dir", "apply-in", "lxc-version", "write-hook", "policy"}

func runTranslateVM(ctx context.Context, s Streams, f translateFlags, given func(flag string) bool) error {
	for _, name := range containersOnly {
		if given(name) {
			return hint(fmt.Errorf("--%s is for containers, and --to qemu for virtual machines", name), "take it out")
		}
	}
	t, err := f.translateVM(ctx, s)
	if err != nil {
		return err
	}
	return f.out.print(s.Out, t, func(w io.Writer) error { return t.text(w) })
}

func (f translateFlags) translateVM(ctx context.Context, s Streams) (machineTranslation, error) {
	var none machineTranslation
	if err := f.defaults(); err != nil {
		return none, err
	}
	o := passthrough.Options{VM: "machine"}
	if f.named {
		o.VM = f.name
	}
	if f.host == "" {
		o.Busy = openers()
	}
	h, closeIt, err := openProduct(f.host, f.driver, f.faults...)
	if err != nil {
		return none, err
	}
	defer closeIt()
	made, err := f.plan(ctx, s, h, o)
	if err != nil {
		return none, err
	}
	p := *made.VM
	t := machineTranslation{Plan: p}
	for _, d := range p.Devices {
		n, err := d.Expected(h.Root())
		if err != nil {
			return none, err
		}
		t.Nodes = append(t.Nodes, n)
	}
	t.Arguments = vfio.Arguments(p, t.Nodes)
	t.Script, err = vfio.Script(p)
	return t, err
}

// text is the script, with what else a person needs to know as comments.
func (t machineTranslation) text(w io.Writer) error {
	var b strings.Builder
	head, rest, _ := strings.Cut(t.Script, "\n")
	show.Fprintln(&b, head)
	for _, n := range t.Plan.Notes {
		show.Fprintf(&b, "# Note on %s: %s\n", n.Device, n.Detail)
	}
	b.WriteString("# The monitor opens:\n")
	var seen []string
	for i, n := range t.Nodes {
		if n.Device == "" {
			n.Device = fmt.Sprintf("the node that %s gets", t.Plan.Devices[i].BDF)
		}
		for _, p := range []string{n.Control, n.Device} {
			if !slices.Contains(seen, p) {
				seen = append(seen, p)
				show.Fprintf(&b, "#   %s\n", p)
			}
		}
	}
	b.WriteString("# QEMU's arguments:\n")
	for i := 0; i+1 < len(t.Arguments); i += 2 {
		show.Fprintf(&b, "#   %s %s\n", t.Arguments[i], t.Arguments[i+1])
	}
	b.WriteString(rest)
	return show.WriteText(w, b.String())
}

// openers returns a function that says which programs of this machine have a node
// open, as far as this user may know: root sees all.
func openers() func(node string) []string {
	var have map[string][]string
	return func(node string) []string {
		if have == nil {
			have = openNodes()
		}
		return have[node]
	}
}

// openNodes reads which nodes of /dev are open, and by whom: proc_pid_fd(5). This
// program, whose NVIDIA library has some open, ends before anything is written.
func openNodes() map[string][]string {
	out := map[string][]string{}
	self := fmt.Sprintf("/proc/%d", os.Getpid())
	files, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return out
	}
	for _, file := range files {
		dir := filepath.Dir(filepath.Dir(file))
		node, err := os.Readlink(file)
		if err != nil || !strings.HasPrefix(node, "/dev/") || dir == self {
			continue // it has ended, or is another user's
		}
		name, _ := os.ReadFile(dir + "/comm")
		who := fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(name)), filepath.Base(dir))
		if !slices.Contains(out[node], who) {
			out[node] = append(out[node], who)
		}
	}
	return out
}
