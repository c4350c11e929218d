package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gpurig/fakehw/fault"
	"gpurig/fakehw/profiles"
	"gpurig/reports"
	"gpurig/scenarios"
)

// complete completes arguments by position, the last list for all that follow; a
// file will do in each place.
func complete(lists ...func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		return beginning(lists[min(len(args), len(lists)-1)](), begun), cobra.ShellCompDirectiveDefault
	}
}

// completeFlag completes the value of a flag, the last of several with commas.
func completeFlag(cmd *cobra.Command, flag string, list func() []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		before := ""
		if i := strings.LastIndexByte(begun, ','); i >= 0 && cmd.Flags().Lookup(flag).Value.Type() == "stringSlice" {
			before, begun = begun[:i+1], begun[i+1:]
		}
		var out []string
		for _, name := range beginning(list(), begun) {
			out = append(out, before+name)
		}
		return out, cobra.ShellCompDirectiveDefault
	})
	if err != nil {
		panic(err) // no such flag, or twice
	}
}

// completeReports completes the value of --report: files that reports are in.
func completeReports(cmd *cobra.Command) {
	err := cmd.RegisterFlagCompletionFunc("report", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var out []string
		for _, f := range reports.Formats {
			out = append(out, strings.TrimPrefix(f, "."))
		}
		return out, cobra.ShellCompDirectiveFilterFileExt
	})
	if err != nil {
		panic(err)
	}
}

func beginning(names []string, begun string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, begun) })
}

func fixed(names ...string) func() []string { return func() []string { return names } }

func hostNames() []string { return profiles.Names() }

func labelNames() []string {
	all, err := scenarios.LoadFS(scenarios.Files, scenarios.Options{})
	if err != nil {
		return nil // gpurig list says why
	}
	var out []string
	for _, s := range all {
		out = append(out, s.AllLabels()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func faultKinds() []string {
	var out []string
	for _, k := range fault.Kinds() {
		out = append(out, k.Example)
	}
	return out
}
