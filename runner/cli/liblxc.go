package cli

import (
	"context"
	"fmt"

	"gpurig/core/lxc"
	"gpurig/runner/target"
	real "gpurig/runner/target/lxc"
	"gpurig/runner/target/lxd"
	"gpurig/runner/target/sim"
)

// lxcVersionUsage is that of --lxc-version where containers are simulated.
const lxcVersionUsage = "`VERSION` of LXC that simulated containers of LXC and LXD are of (default that of the real ones beside them, else the one installed, else 5.0.2)"

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
// for, else, for a container of LXC on this machine, the one installed. LXD may
// bring its own.
func (f translateFlags) liblxc() (lxc.Version, error) {
	switch {
	case f.lxcVersion != "" && f.to == "oci":
		return lxc.Version{}, fmt.Errorf("--lxc-version with --to oci: no LXC reads that")
	case f.lxcVersion != "":
		v, err := lxc.ParseVersion(f.lxcVersion)
		if err != nil {
			err = fmt.Errorf("--lxc-version: %w", err)
		}
		return v, err
	case f.to != "lxc" || f.host != "":
		return lxc.Version{}, nil
	}
	v, _ := real.Installed()
	return v, nil
}

// known is a version's text; empty: it is not known.
func known(v lxc.Version) string {
	if v == (lxc.Version{}) {
		return ""
	}
	return v.String()
}
