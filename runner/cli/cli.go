// Package cli is the gpurig command line: it parses arguments, calls the packages
// that do the work, and prints. Each command has its own file.
//
// Results go to standard output, everything else to standard error. A mistake
// of the user is an "error:" line that says what, where and why, with the line of
// the file that has it, and a "hint:" line that says what to do. Colours are used only
// on a terminal, and never with NO_COLOR set.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"gpurig/core/show"
	"gpurig/core/strictdoc"
)

// Exit codes, part of the interface: CI scripts branch on them.
const (
	ExitOK     = 0
	ExitFailed = 1 // a scenario failed, or a comparison found a regression: the product is wrong
	ExitUsage  = 2 // bad flags, bad input files, or nothing selected to run
	ExitBroken = 3 // no verdict: lost container, fault of ours
)

// Streams are where a command reads and writes, and what they are.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Terminal bool // Err is a terminal that shows progress
	Same     bool // and Out is the same one
	Columns  int  // that it is wide; 0: not known
	Colour   bool
}

// An exit is an error that carries its own exit code. Err may be nil: the
// command has said everything itself.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}
func (e *exit) Unwrap() error { return e.err }

// broken marks an error as no mistake of the user's and no verdict.
func broken(err error) error { return &exit{code: ExitBroken, err: err} }

// hinted gives an error a hint.
type hinted struct {
	err  error
	hint string
}

func (h *hinted) Error() string { return h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }

func hint(err error, format string, args ...any) error {
	return &hinted{err: err, hint: fmt.Sprintf(format, args...)}
}

// Main runs one command line and returns the exit code.
func Main(ctx context.Context, s Streams, args []string) int {
	out := &watched{Writer: s.Out}
	s.Out, s.Err = show.NewWriter(out), show.NewWriter(s.Err)
	root := newRoot(s)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	var e *exit
	if errors.As(err, &e) {
		if e.err != nil {
			printError(s.Err, e.err)
		}
		return e.code
	}
	printError(s.Err, err)
	if out.failed {
		return ExitBroken // nobody has read the results, whatever they were
	}
	return ExitUsage
}

// A watched writer remembers that something could not be written.
type watched struct {
	io.Writer
	failed bool
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.failed = w.failed || err != nil
	return n, err
}

// version is the version that the linker was told of.
var version string

// Version is the version of this program: the one that it was packaged as, else the
// module's when it was installed from one, else "devel" with the revision it was built
// from.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	v := "devel"
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			v += "-" + s.Value[:12]
		}
	}
	return v
}

// Command returns the command line, for a manual to be made of it.
func Command() *cobra.Command {
	return newRoot(Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
}

func newRoot(s Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "gpurig",
		Short: "Test GPU passthrough into system containers without GPU hardware",
		Long: `gpurig runs scenarios of GPU passthrough: simulated in milliseconds, in real
containers on a fake machine, and on real hardware. One scenario file, one
verdict, one report.

Exit codes: 0 all passed, 1 the product failed or something differs, 2 bad usage or
input or nothing selected, 3 no verdict. host enter and host mount with a command
have the command's.

Completion of commands, hosts, scenarios and flags: gpurig completion --help`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       Version(),
	}
	group(root)
	root.SetVersionTemplate("gpurig {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelp())
	for _, g := range commands {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, add := range g.add {
			cmd := add(s)
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
	return root
}

// printError writes one "error:" line for each problem, the line of the file
// that has it, and its hint.
func printError(w io.Writer, err error) {
	for _, e := range flatten(err) {
		show.Fprintf(w, "error: %s\n", e.Error())
		if p, ok := errors.AsType[*strictdoc.Problem](e); ok {
			show.WriteText(w, p.Excerpt())
		}
		if h := hintOf(e); h != "" {
			show.Fprintf(w, "hint: %s\n", h)
		}
	}
}

// flatten takes joined errors apart, so that each gets its own line.
func flatten(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok && strings.Contains(err.Error(), "\n") {
		var out []error
		for _, e := range joined.Unwrap() {
			out = append(out, flatten(e)...)
		}
		return out
	}
	return []error{err}
}
