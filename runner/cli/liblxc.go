package cli

import (
	"context"
	"fmt"

	"gpurig/core/emit/lxc"
	"gpurig/runner/lxdapi"
	"gpurig/runner/target"
	real "gpurig/runner/target/lxc"
	"gpurig/runner/target/lxd"
	"gpurig/runner/target/sim"
)

// lxcVersionUsage is that of --lxc-version where containers are simulated.
const lxcVersionUsage = "`VERSION` of LXC to simulate for containers of LXC and LXD (default that of the real ones they are compared with, else the one installed, else 5.0.2)"

// stand says which LXC simulations stand for: the one that is asked for, else that
// of the real containers beside them, else the one installed.
func stand(ts []target.Target, asked string) error {
	var want lxc.Version
	if asked != "" {
		v, err := lxc.ParseVersion(asked)
		if err != nil {
			return fmt.Errorf("--lxc-version: %w", err)
		}
		want = v
	}
	for _, t := range ts {
		s, ok := t.(*sim.Sim)
		if !ok {
			continue
		}
		if _, ok := s.Liblxc(); !ok {
			continue
		}
		beside, by := versionBeside(s.Name(), ts)
		if asked != "" && by != "" && want != beside {
			return hint(fmt.Errorf("--lxc-version %s: target %s, to which %s is compared, has %s", want, by, s.Name(), beside), "leave out one of them")
		}
		v := want
		if asked == "" {
			v = beside
		}
		if v == (lxc.Version{}) {
			v, _ = real.Installed()
		}
		if v != (lxc.Version{}) {
			s.As(v)
		}
	}
	return nil
}

// versionBeside is the version of LXC of the real target that a simulation is
// compared to, and that target's name; empty: there is none.
func versionBeside(simulation string, ts []target.Target) (v lxc.Version, by string) {
	for _, t := range ts {
		ok := false
		switch t := t.(type) {
		case *real.LXC:
			if simulation == "sim" {
				v, ok = real.Installed()
			}
		case *lxd.LXD:
			if simulation == "sim-lxd" {
				v, ok = t.Liblxc(context.Background())
			}
		}
		if ok {
			return v, t.Name()
		}
	}
	return lxc.Version{}, ""
}

// simulated lists the versions of LXC that simulations stood for, by what a report
// calls them.
func simulated(ts []target.Target) map[string]string {
	out := map[string]string{}
	for _, t := range ts {
		if s, ok := t.(*sim.Sim); ok {
			if v, ok := s.Liblxc(); ok {
				out["lxc of "+s.Name()] = v.String()
			}
		}
	}
	return out
}

// liblxc is the version of LXC that reads the configuration: the one that is asked
// for, else, on this machine, the one installed, or that the daemon of LXD or Incus
// says it has, which may bring its own. Zero: it is not known.
func (f translateFlags) liblxc(ctx context.Context) (lxc.Version, error) {
	if f.lxcVersion != "" {
		v, err := lxc.ParseVersion(f.lxcVersion)
		if err != nil {
			err = fmt.Errorf("--lxc-version: %w", err)
		}
		return v, err
	}
	var v lxc.Version
	switch {
	case f.host != "":
	case f.to == "lxc", f.to == "pve":
		v, _ = real.Installed()
	case f.to == "lxd", f.to == "incus":
		v, _ = lxd.Running(ctx, lxdapi.Flavour(f.to))
	}
	return v, nil
}

// meaningless are options of translate that a manager has no use for, and why.
var meaningless = []struct{ option, to, why string }{
	{"cgroup", "lxd", "LXD writes the device rules, for the version of cgroups that it finds"},
	{"cgroup", "incus", "Incus writes the device rules, for the version of cgroups that it finds"},
	{"cgroup", "pve", "Proxmox VE writes the device rules, for cgroup v2"},
	{"cgroup", "oci", "the OCI runtime writes the device rules, for the version of cgroups that it finds"},
	{"lxc-version", "oci", "no LXC reads that"},
	{"nodes-dir", "lxd", "LXD makes the nodes, in a folder of its own"},
	{"nodes-dir", "incus", "Incus makes the nodes, in a folder of its own"},
	{"nodes-dir", "pve", "Proxmox VE makes the nodes"},
	{"apply-in", "pve", "links and library cache are made in lxc.hook.start-host there"},
	{"apply-in", "oci", "an OCI runtime has createContainer hooks and none of LXC's"},
}

// fits refuses the options that were given and mean nothing to the manager.
func (f translateFlags) fits(given func(name string) bool) error {
	for _, m := range meaningless {
		if m.to == f.to && given(m.option) {
			return hint(fmt.Errorf("--%s with --to %s: %s", m.option, m.to, m.why), "leave --%s out", m.option)
		}
	}
	return nil
}

// known is a version's text; empty: it is not known.
func known(v lxc.Version) string {
	if v == (lxc.Version{}) {
		return ""
	}
	return v.String()
}
