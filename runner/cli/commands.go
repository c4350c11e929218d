package cli

import "github.com/spf13/cobra"

// commands are the commands of gpurig, by what they are about.
var commands = []struct {
	title string
	add   []func(Streams) *cobra.Command
}{
	{"Scenarios:", []func(Streams) *cobra.Command{newRun, newList, newExplain, newInit, newValidate, newSchema}},
	{"Reports:", []func(Streams) *cobra.Command{newMerge, newCompare, newHistory, newCIMatrix}},
	{"Hosts:", []func(Streams) *cobra.Command{newHost, newDoctor}},
	{"Devices for containers:", []func(Streams) *cobra.Command{newCDI, newConformance, newPolicy, newTranslate}},
}
