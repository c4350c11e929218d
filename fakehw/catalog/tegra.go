package catalog

import "slices"

// A Board is a Tegra module on its carrier.
type Board struct {
	Key        string
	Model      string   // device tree
	Compatible []string // device tree, most specific first
	Chip       string   // "tegra234"
	SoCID      int      // decimal, /sys/devices/soc0/soc_id; unverified
	GPU        string   // product key of the integrated GPU
	Platform   string   // sysfs name of the integrated GPU; empty: it is a PCI function
	DLA        int      // deep learning accelerators
}

// Boards are the known Tegra boards. Models and compatibles are from hardware
// dumps in jetson_stats issues; the IGX list is unverified.
var Boards = []Board{
	{Key: "agx-orin", Model: "NVIDIA Jetson AGX Orin Developer Kit", Chip: "tegra234", SoCID: 35, GPU: "orin-gpu", Platform: "17000000.gpu", DLA: 2,
		Compatible: []string{"nvidia,p3737-0000+p3701-0005", "nvidia,p3701-0005", "nvidia,tegra234", "nvidia,tegra23x"}},
	{Key: "orin-nano", Model: "NVIDIA Orin Nano Developer Kit", Chip: "tegra234", SoCID: 35, GPU: "orin-gpu", Platform: "17000000.gpu",
		Compatible: []string{"nvidia,p3768-0000+p3767-0003", "nvidia,p3768-0000+p3767-0005", "nvidia,p3767-0003", "nvidia,p3767-0005", "nvidia,tegra234", "nvidia,tegra23x"}},
	{Key: "igx-orin", Model: "NVIDIA IGX Orin Development Kit", Chip: "tegra234", SoCID: 35, GPU: "orin-gpu", Platform: "17000000.gpu", DLA: 2,
		Compatible: []string{"nvidia,p3740-0002+p3701-0008", "nvidia,p3701-0008", "nvidia,tegra234", "nvidia,tegra23x"}},
	{Key: "agx-thor", Model: "NVIDIA Jetson AGX Thor Developer Kit", Chip: "tegra264", SoCID: 38, GPU: "thor-gpu",
		Compatible: []string{"nvidia,p4071-0000+p3834-0008", "nvidia,p3834-0008", "nvidia,tegra264"}},
}

// FindBoard returns the board with this key. The error is an *UnknownError.
func FindBoard(key string) (Board, error) {
	var known []string
	for _, b := range Boards {
		if b.Key == key {
			return b, nil
		}
		known = append(known, b.Key)
	}
	slices.Sort(known)
	return Board{}, &UnknownError{Kind: "Tegra board", Name: key, Known: known}
}

// BoardByModel returns the board whose device tree gives this model.
func BoardByModel(model string) (Board, bool) {
	for _, b := range Boards {
		if b.Model == model {
			return b, true
		}
	}
	return Board{}, false
}
