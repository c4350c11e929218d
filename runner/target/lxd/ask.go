package lxd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpurig/runner/lxdapi"
)

// give sets the devices that the daemon is to pass by itself.
func (c *nativeContainer) give() error {
	out, err := c.asked(c.now.server.api.Server())
	if err == nil {
		c.now.own = out
	}
	return err
}

// asked returns the devices in the words of a server, or what it cannot be asked for;
// of one that is not known yet nothing is said.
func (c *nativeContainer) asked(s lxdapi.Server) (map[string]lxdapi.Device, error) {
	out := map[string]lxdapi.Device{}
	if len(c.config.Options) > 0 && s.Version != "" && !s.Has(runtimeExtension) {
		return nil, c.target.unable("%s %s has no extension %s, which brings nvidia.runtime", s.Flavour, s.Version, runtimeExtension)
	}
	for _, name := range slices.Sorted(maps.Keys(c.devices)) {
		d := lxdapi.Device{"type": "gpu"}
		maps.Copy(d, c.devices[name])
		if why := lacks(s, d); s.Version != "" && why != "" {
			return nil, c.target.unable("device %s: %s", name, why)
		}
		out[name] = d
	}
	return out, nil
}

// runtimeExtension is the extension of the API that has the instance options nvidia.*.
const runtimeExtension = "nvidia_runtime"

// extensions of the API that have the options of a GPU device. Without them an
// option is refused, or taken for something else.
//
// Reference: https://documentation.ubuntu.com/lxd/en/latest/api-extensions/
var extensions = []struct {
	name string
	used func(d lxdapi.Device) bool
	what string
}{
	{"gpu_cdi", func(d lxdapi.Device) bool { return strings.Contains(d["id"], "=") }, "a CDI name as id, which it would take for the number of a DRM card"},
	{"gpu_mig", func(d lxdapi.Device) bool { return d["gputype"] == "mig" }, "gputype=mig"},
	{"gpu_mdev", func(d lxdapi.Device) bool { return d["gputype"] == "mdev" }, "gputype=mdev"},
	{"gpu_sriov", func(d lxdapi.Device) bool { return d["gputype"] == "sriov" }, "gputype=sriov"},
	{"gpu_mig_uuid", func(d lxdapi.Device) bool { return d["mig.uuid"] != "" }, "mig.uuid"},
}

// lacks says what a server cannot be asked for; empty: it can.
func lacks(s lxdapi.Server, d lxdapi.Device) string {
	for _, e := range extensions {
		if e.used(d) && !s.Has(e.name) {
			return fmt.Sprintf("%s %s has no extension %s, which brings %s", s.Flavour, s.Version, e.name, e.what)
		}
	}
	return ""
}
