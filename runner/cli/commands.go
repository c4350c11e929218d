package cli

import "github.com/spf13/cobra"

// commands are the commands of gpurig, in the order of the help.
var commands = []func(Streams) *cobra.Command{
	newRun,
	newExplain,
	newList,
	newHost,
	newCDI,
	newPolicy,
	newTranslate,
	newCompare,
	newMerge,
	newDoctor,
}
