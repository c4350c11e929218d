package cli

import (
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gpurig/core/host"
	"gpurig/core/passthrough"
	"gpurig/core/policy"
	"gpurig/core/policy/policyfile"
	"gpurig/core/show"
)

// addPolicy gives a command about Specs the flag that names a policy file.
func addPolicy(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "policy", "", "a policy `FILE` instead of the host's (default "+policy.File+")")
}

// readPolicy reads the policy of a host, or the file that is named in its place:
// that one may be anybody's, for whoever names it runs the command.
func readPolicy(file string, root host.Root) (policy.Policy, error) {
	if file == "" {
		return policyfile.System(root)
	}
	data, err := readRegular(file, 1<<20)
	if err != nil {
		return policy.Policy{}, err
	}
	return policyfile.Parse(data, file)
}

func newPolicy(s Streams) *cobra.Command {
	var hostName, file string
	var out output
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Print what a CDI Spec may use on a host",
		Long: `Policy prints the table of what a CDI Spec may use: drivers, host paths,
container paths, mount options, environment variables and hooks. Anything that no
rule allows is refused, and every refusal names its rule.

An administrator adds names to the table in ` + policy.File + `, which
is used only if nobody but root can write to it, and whose rules come first here:

  drivers: [vfio]             # /proc/devices or /proc/misc, character devices
  block-drivers: [nbd]        # the same, block devices
  sources: [/srv/vendor]      # host paths that may be mounted, with all below
  writable: [/srv/pipe]       # the same, for writing
  tmpfs: [/tmp/data]          # container paths where a tmpfs may be mounted
  environment: [VENDOR_MODE]  # variables
  leave-out: [vendor-hook]    # hooks, by kind or program, that are left out with a note`,
		Example: "  gpurig policy\n  gpurig policy --policy ./policy.yaml --output json",
		Args:    takes(0, 0),
		RunE: func(*cobra.Command, []string) error {
			h, closeIt, err := openProduct(hostName, passthrough.HostOptions{})
			if err != nil {
				return err
			}
			defer closeIt()
			p, err := readPolicy(file, h.Root())
			if err != nil {
				return err
			}
			rules := p.InForce()
			return out.print(s.Out, rules, func(w io.Writer) error { return writeRules(w, rules) })
		},
	}
	addHost(cmd, &hostName)
	addPolicy(cmd, &file)
	addOutput(cmd, &out)
	return cmd
}

func writeRules(w io.Writer, rules []policy.Rule) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	show.Fprintf(t, "RULE\tNAME\t\tWHY\n")
	for _, r := range rules {
		show.Fprintf(t, "%s\t%s\t%s\t%s\n", r.Kind, r.Match, ruleWord(r), r.Why)
	}
	return t.Flush()
}

// ruleWord says what a rule does, in a word.
func ruleWord(r policy.Rule) string {
	forbids := slices.Contains([]policy.Kind{policy.KindDriverDeny, policy.KindDevName, policy.KindSourceDeny, policy.KindTarget, policy.KindEnvDeny}, r.Kind)
	switch {
	case r.Hook != "":
		return string(r.Hook)
	case forbids && r.Only:
		return "forbidden, below it allowed"
	case forbids:
		return "forbidden"
	case r.Tegra:
		return "on Tegra"
	case r.Write:
		return "may be written"
	}
	return "allowed"
}
