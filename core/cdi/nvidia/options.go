// Package nvidia generates CDI Specs of NVIDIA devices with NVIDIA's own library,
// nvcdi, and reads GPUs from NVIDIA's management library, NVML.
//
// It does not repeat what nvcdi does. Generate chooses nvcdi's options, adds the
// files that nested containers need on Tegra, and checks the result, since nvcdi
// writes a Spec even if half of the host is not there yet. Reading Specs from
// disk, resolving names in them and applying them is left to package cdi and its
// users.
//
// nvcdi opens /sys, /proc and /dev of the process that it runs in, whatever its
// root options are. So the machine must be at "/": the Spec of another machine is
// generated in a process that sees that machine's files there.
//
// Reference: https://pkg.go.dev/github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi
package nvidia

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"

	"gpurig/core/host"
)

// Options adjust Generate. The zero value detects the kind of host and makes a
// Spec with every kind of name.
type Options struct {
	Mode       string `json:"mode,omitempty"`       // one of Modes; empty: "auto"
	DriverRoot string `json:"driverRoot,omitempty"` // where the driver's files are; empty: where they are found, see OnHost
	// DevRoot is where /dev is. Empty: "/", wherever the driver's files are: nodes
	// are the host's own, and only a driver container has some of its own. (nvcdi
	// itself would take the driver root, and find none below a snap's.)
	DevRoot string `json:"devRoot,omitempty"`

	HookPath     string `json:"hookPath,omitempty"`     // path of hooks in the Spec; empty: DefaultHookPath
	LdconfigPath string `json:"ldconfigPath,omitempty"` // passed to the hook update-ldcache; empty: its own default

	CSVFiles           []string `json:"csvFiles,omitempty"`           // csv mode; empty: Tegra's three files, those that are there
	CSVIgnorePatterns  []string `json:"csvIgnorePatterns,omitempty"`  // csv mode: "sym" lines that are left out
	LibrarySearchPaths []string `json:"librarySearchPaths,omitempty"` // folders that are searched instead of the usual ones; empty: see OnHost
	ConfigSearchPaths  []string `json:"configSearchPaths,omitempty"`  // likewise for configuration files

	Vendor string   `json:"vendor,omitempty"` // of the Spec's kind; empty: the mode's, "nvidia.com" in most
	Class  string   `json:"class,omitempty"`  // of the Spec's kind; empty: the mode's, "gpu" in most
	Names  []string `json:"names,omitempty"`  // of NameStrategies; empty: all of them
	// DeviceIDs are the devices to be in the Spec, by index, "0" and "0:1", or UUID;
	// empty: all. The device that is all others is not made of a part of them.
	DeviceIDs []string `json:"deviceIDs,omitempty"`
	// Merged names a device that is all others together. Empty: "all". It is
	// not made in mode mig-caps, whose devices grant different rights.
	Merged string `json:"merged,omitempty"`

	DisabledHooks []string `json:"disabledHooks,omitempty"` // "enable-cuda-compat"; "all" for every hook
	EnabledHooks  []string `json:"enabledHooks,omitempty"`  // goes before DisabledHooks
	// FeatureFlags are nvcdi's. "disable-nvsandboxutils" is always on: that
	// library would be loaded out of the driver root into this process.
	FeatureFlags []string `json:"featureFlags,omitempty"`
}

// DefaultHookPath is where hooks of a Spec are found unless Options say otherwise.
const DefaultHookPath = "/usr/bin/nvidia-cdi-hook"

// Modes lists what Options.Mode may be, sorted. nvcdi's mode "wsl" is not among
// them: there are no device nodes to pass on such a host.
func Modes() []string {
	return slices.DeleteFunc(nvcdi.AllModes[string](), func(m string) bool { return m == string(nvcdi.ModeWsl) })
}

// NameStrategies lists what Options.Names may hold: "0" and "0:1", "gpu0" and
// "mig0:1", UUIDs.
func NameStrategies() []string {
	return []string{nvcdi.DeviceNameStrategyIndex, nvcdi.DeviceNameStrategyTypeIndex, nvcdi.DeviceNameStrategyUUID}
}

// usual are the library folders in which nvcdi looks by itself, beside those that
// the dynamic loader's cache names.
var usual = []string{
	"/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib/x86_64-linux-gnu/nvidia/current",
	"/usr/lib/aarch64-linux-gnu/nvidia/current", "/lib64", "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
}

// OnHost fills in where the driver's files are on a host, as Generate does: the
// root at which its libraries are found, and their folder where nvcdi would not
// look. Without libraries nothing is filled in but the root, "/".
func (o Options) OnHost(root host.Root) (Options, error) {
	if o.DriverRoot != "" && !path.IsAbs(o.DriverRoot) {
		return o, nil // refused as it is
	}
	u, cached, err := host.FindUserspace(root, o.DriverRoot)
	if err != nil {
		return o, fmt.Errorf("look for the driver's libraries: %w", err)
	}
	if u == nil {
		o.DriverRoot = cmp.Or(o.DriverRoot, "/")
		return o, nil
	}
	o.DriverRoot = cmp.Or(o.DriverRoot, u.DriverRoot, "/")
	if len(o.LibrarySearchPaths) == 0 && !slices.Contains(usual, u.LibDir) && !slices.Contains(cached, u.LibDir) {
		o.LibrarySearchPaths = []string{path.Join("/", u.DriverRoot, u.LibDir)}
	}
	return o, nil
}

// withDefaults returns o with every default filled in, or a refusal.
func (o Options) withDefaults() (Options, error) {
	set := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	set(&o.Mode, string(nvcdi.ModeAuto))
	set(&o.DriverRoot, "/")
	set(&o.DevRoot, "/")
	set(&o.HookPath, DefaultHookPath)
	set(&o.Merged, "all")
	if len(o.Names) == 0 {
		o.Names = NameStrategies()
	}
	return o, o.validate()
}

func (o Options) validate() error {
	if o.Mode == string(nvcdi.ModeWsl) {
		return refusal(ReasonWSL, "mode", "a Spec for a Windows subsystem for Linux has no nodes of GPUs, but /dev/dxg and libraries of Windows, which are not passed on").
			WithHint("nvidia-ctk cdi generate --mode wsl makes it, for Docker.")
	}
	if !slices.Contains(Modes(), o.Mode) {
		return refusal(ReasonBadOption, "mode", "%q is not a mode", o.Mode).WithHint("Use one of %q.", Modes())
	}
	for _, n := range o.Names {
		if !slices.Contains(NameStrategies(), n) {
			return refusal(ReasonBadOption, "names", "%q is no way to name devices", n).WithHint("Use one of %q.", NameStrategies())
		}
	}
	for _, p := range [][2]string{{"driver root", o.DriverRoot}, {"dev root", o.DevRoot}, {"hook path", o.HookPath}} {
		if p[1][0] != '/' {
			return refusal(ReasonBadOption, p[0], "%q is not an absolute path", p[1])
		}
	}
	return nil
}
