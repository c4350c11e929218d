package fakehw

import (
	"context"
	"encoding/json"
	"path"
	"slices"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/memo"
	"gpurig/fakehw/driverfs"
	"gpurig/fakehw/tree"
)

// installed keeps the trees of software, by the JSON form of their models.
var installed = memo.Map[string, *tree.Tree]{Limit: 64}

// software returns a tree of the caller's own with the top of the file system and the
// files of the user-space driver. They come of these parts of the model alone, which
// no bound driver and no MIG geometry changes.
func software(m host.Model) (*tree.Tree, error) {
	soft := host.Model{
		Arch: m.Arch, OS: m.OS, Userspace: m.Userspace, Tegra: m.Tegra,
		NVSwitches: make([]host.PCIFunction, min(1, len(m.NVSwitches))), // whether there are any
	}
	if slices.ContainsFunc(m.Nodes, func(n device.Node) bool { return path.Dir(n.Path) == driverfs.IMEXChannels }) {
		soft.Nodes = []device.Node{{Path: driverfs.IMEXChannels + "/channel0"}}
	}
	key, err := json.Marshal(soft)
	if err != nil {
		return nil, err
	}
	t, err := installed.Get(context.Background(), string(key), func() (*tree.Tree, error) {
		b := builder{t: tree.New(), m: &soft}
		b.layout()
		if b.err != nil {
			return nil, b.err
		}
		return b.t, driverfs.Install(b.t, soft)
	})
	if err != nil {
		return nil, err
	}
	return t.Clone(), nil
}
