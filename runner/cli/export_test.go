package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Understand says what is wrong with a command line that is not run.
func Understand(args []string) error {
	root := newRoot(Streams{Out: io.Discard, Err: io.Discard})
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return flagError(cmd, err)
	}
	if help, _ := cmd.Flags().GetBool("help"); help {
		return nil
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// Named says what is wrong with the names of a command and of its flags.
func Named(args []string) error {
	cmd, rest, err := newRoot(Streams{Out: io.Discard, Err: io.Discard}).Find(args)
	if err != nil || cmd.HasAvailableSubCommands() && len(rest) > 0 {
		return errors.Join(err, unknownCommand(cmd, strings.Join(rest, " ")))
	}
	for _, word := range rest {
		name, flag := strings.CutPrefix(word, "--")
		if name, _, _ = strings.Cut(name, "="); flag && name != "" && cmd.Flags().Lookup(name) == nil {
			return fmt.Errorf("%s has no flag --%s", cmd.CommandPath(), name)
		}
	}
	return nil
}

// HelpExamples are those of all commands.
func HelpExamples() []string {
	var out []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Example != "" {
			out = append(out, c.Example)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(Streams{Out: io.Discard, Err: io.Discard}))
	return slices.Clip(out)
}

// Leaves are the commands that have none below them, "host show".
func Leaves() []string {
	var out []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if _, name, _ := strings.Cut(c.CommandPath(), " "); !c.HasSubCommands() {
			out = append(out, name)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(Streams{Out: io.Discard, Err: io.Discard}))
	return out
}

// TargetNames are the targets in the order of reports.
var TargetNames = targetNames
