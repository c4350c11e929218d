package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpurig/core/strictdoc"
)

// takes accepts from least to most arguments; most -1: any number. The message
// repeats what the command's Use says that it wants.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		_, wanted, _ := strings.Cut(cmd.Use, " ")
		if wanted == "" {
			return hint(fmt.Errorf("%s takes no argument, got %q", cmd.CommandPath(), args[0]), "run %s --help", cmd.CommandPath())
		}
		got := "nothing"
		if len(args) > 0 {
			got = fmt.Sprintf("%q", args)
		}
		return hint(fmt.Errorf("%s: want %s, got %s", cmd.CommandPath(), wanted, got), "run %s --help", cmd.CommandPath())
	}
}

// group makes a command that only has others below it: it prints its help, and
// names the one that was meant.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownCommand(cmd, args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

func unknownCommand(cmd *cobra.Command, name string) error {
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	return hint(fmt.Errorf("unknown command %q for %q%s", name, cmd.CommandPath(), strictdoc.Meant(name, known)), "run %s --help", cmd.CommandPath())
}

// flagError says what is wrong with a flag as everything else is said here.
func flagError(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		why := bad.Unwrap().Error()
		switch flag := bad.GetFlag(); {
		case flag.Value.Type() == "duration":
			why = "want a duration such as 90s or 5m"
		case errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange):
			why = "want a whole number"
		}
		err = fmt.Errorf("--%s %q: %s", bad.GetFlag().Name, bad.GetValue(), why)
	}
	return hint(err, "run %s --help", cmd.CommandPath())
}

// newHelp is cobra's command of that name, which takes a topic that is none for
// the program itself.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Show what a command does",
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.Root()
			for _, name := range args {
				next, rest, err := at.Find([]string{name})
				if err != nil || len(rest) > 0 || next == at {
					return unknownCommand(at, name)
				}
				at = next
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}
