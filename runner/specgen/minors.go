package specgen

import (
	"fmt"
	"regexp"
	"strings"

	"gpurig/core/host"
	"gpurig/fakehw/tree"
)

// migMinors is where the driver lists the minor of every MIG capability that
// there could ever be: 4323 lines, of 32 GPUs with 15 instances each.
const migMinors = "/proc/driver/nvidia-caps/mig-minors"

var capability = regexp.MustCompile(`^gpu[0-9]+/gi[0-9]+/`)

// trimMinors drops the lines of mig-minors that are of no instance of the host.
//
// nvcdi (v1.20) parses the whole file again for each GPU and each MIG device, 7
// ms a time, which is nine tenths of its work. It looks up the instances that
// NVML names and no others, so its Spec is the same; a test compares them.
func trimMinors(t *tree.Tree, m host.Model) error {
	e, err := t.Entry(migMinors)
	if err != nil || !e.Mode.IsRegular() {
		return nil // a host without it, or one that was changed to have none
	}
	used := map[string]bool{}
	for _, g := range m.NVIDIAGPUs() {
		if g.MIG == nil {
			continue
		}
		for _, gi := range g.MIG.Instances {
			dir := fmt.Sprintf("gpu%d/gi%d/", g.Minor, gi.ID)
			used[dir+"access"] = true
			for _, ci := range gi.Compute {
				used[fmt.Sprintf("%sci%d/access", dir, ci.ID)] = true
			}
		}
	}
	var keep strings.Builder
	for line := range strings.Lines(string(e.Data)) {
		name, _, _ := strings.Cut(line, " ")
		if used[name] || !capability.MatchString(name) {
			keep.WriteString(line)
		}
	}
	return t.WriteFile(migMinors, []byte(keep.String()), e.Mode.Perm())
}
