package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpurig/fakehw/fault"
	"gpurig/runner"
	"gpurig/runner/target/lxd"
)

// settings are what a result depends on beside its scenario, variant and target.
type settings struct {
	selection
	faults                []string
	hardware, reconfigure bool
	lxd                   lxd.Options // of targets lxd, lxd-native and incus
	lxcVersion            string      // of targets sim and sim-lxd
	timeout               time.Duration
}

// timeLimit is that of a scenario on one target, where none is given.
const timeLimit = 2 * time.Minute

func (x *settings) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	addFaults(cmd, &x.faults)
	fl.BoolVar(&x.hardware, "hardware", false, "on this machine and its GPUs, instead of fake hosts")
	fl.BoolVar(&x.reconfigure, "allow-reconfigure", false, "with --hardware: scenarios may re-partition GPUs and pass them to virtual machines; each restores them")
	fl.StringVar(&x.lxd.Daemon, "lxd-daemon", "", "`PROGRAM` of the private LXD daemon, to test another version (default $"+lxd.DaemonEnv+", else lxd)")
	fl.StringVar(&x.lxd.Socket, "lxd-socket", "", "`SOCKET` of the daemon for targets lxd and incus; "+lxd.Private+": a private one (default one that runs, else "+lxd.Private+")")
	fl.StringVar(&x.lxcVersion, "lxc-version", "", lxcVersionUsage)
	fl.DurationVar(&x.timeout, "timeout", timeLimit, "`TIME` that one scenario may take on one target")
}

// options returns those of a run, once the scenarios are selected. The caller adds
// targets and Specs, and calls closeIt.
func (x *settings) options() (o runner.Options, closeIt func(), err error) {
	closeIt = func() {}
	if o.Faults, err = fault.ParseList(x.faults); err != nil {
		return o, nil, err
	}
	if len(x.named) > 0 {
		if given := o.Faults.Texts(); given != nil && !slices.Equal(given, x.named) {
			return o, nil, hint(fmt.Errorf("--fault %s, and scenarios with faults=%s", strings.Join(given, " "), strings.Join(x.named, " ")), "leave one of them out")
		}
		if o.Faults, err = fault.ParseList(x.named); err != nil {
			return o, nil, err
		}
	}
	switch {
	case x.timeout <= 0:
		return o, nil, fmt.Errorf("--timeout %v: want a time that can pass, such as 2m", x.timeout)
	case x.reconfigure && !x.hardware:
		return o, nil, hint(errors.New("--allow-reconfigure without --hardware: fake hosts are changed as scenarios say"), "leave it out")
	case x.hardware && len(o.Faults) > 0:
		return o, nil, hint(errors.New("--fault with --hardware: nothing is broken on a real machine"), "leave one of them out")
	case x.hardware && len(x.hosts) > 0:
		return o, nil, hint(errors.New("--host with --hardware: the host is this machine"), "leave one of them out")
	case x.hardware:
		if o.Hardware, closeIt, err = openHardware(x.reconfigure); err != nil {
			return o, nil, err
		}
	}
	o.Hosts, o.Timeout, o.Flags = runner.Profiles{Instead: x.instead}, x.timeout, x.again()
	return o, closeIt, nil
}

// again are the flags that a command about one result needs, beside its scenario,
// faults and target.
func (x *settings) again() []string {
	var out []string
	if i := slices.IndexFunc(x.hosts, isRecording); i >= 0 {
		out = append(out, "--host", x.hosts[i])
	}
	if x.hardware {
		out = append(out, "--hardware")
	}
	if x.reconfigure {
		out = append(out, "--allow-reconfigure")
	}
	for _, f := range []struct{ name, value, usual string }{
		{"--lxd-daemon", x.lxd.Daemon, ""}, {"--lxd-socket", x.lxd.Socket, ""}, {"--lxc-version", x.lxcVersion, ""}, {"--timeout", x.timeout.String(), timeLimit.String()},
	} {
		if f.value != f.usual {
			out = append(out, f.name, f.value)
		}
	}
	return out
}
