package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gpurig/core/show"
	"gpurig/core/strictdoc"
	"gpurig/fakehw/profiles"
	"gpurig/runner"
	"gpurig/scenarios"
)

func newValidate(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "validate DIR...",
		Short: "Check scenarios, profiles and recordings, and run nothing",
		Long: `Validate checks every scenario, profile and recording in the folders or files: their
form, the names in them, and whether each scenario's hosts can have its driver, its
faults and its changes. All mistakes are reported. Nothing runs.`,
		Example: "  gpurig validate my-lab",
		Args:    takes(1, -1),
		RunE: func(_ *cobra.Command, args []string) error {
			var c checked
			for _, a := range args {
				c.all(a)
			}
			if err := errors.Join(c.errs...); err != nil {
				return err
			}
			if c.scenarios+c.profiles+c.recordings == 0 {
				return errors.New("there is no scenario, profile or recording")
			}
			show.Fprintf(s.Out, "valid: %d scenarios with %d variants, %d profiles, %d recordings\n", c.scenarios, c.variants, c.profiles, c.recordings)
			return nil
		},
	}
}

// checked counts what was found, with all that is wrong.
type checked struct {
	scenarios, variants, profiles, recordings int
	errs                                      []error
}

func (c *checked) all(path string) {
	found := c.profiles + c.recordings
	if err := filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(filepath.Base(p), ".") && p != path
		switch {
		case err != nil:
			return err
		case e.IsDir() && (hidden || e.Name() == "testdata" && p != path):
			return filepath.SkipDir
		case !e.IsDir() && !hidden:
			return c.host(p)
		}
		return nil
	}); err != nil {
		c.errs = append(c.errs, err)
		return
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() && c.profiles+c.recordings > found {
		return
	}
	all, err := scenarios.Load(runner.Words(), path)
	if err == nil {
		err = checkChanges(all)
	}
	if errors.Is(err, scenarios.ErrNone) && c.profiles+c.recordings > found {
		return
	}
	// A mistake in a profile is told once, with its own place.
	if problems, ok := errors.AsType[strictdoc.Problems](err); ok && len(c.errs) > 0 {
		var rest strictdoc.Problems
		for _, p := range problems {
			if !c.told(p) {
				rest = append(rest, p)
			}
		}
		err = rest.Err()
	}
	if err != nil {
		c.errs = append(c.errs, err)
	}
	c.scenarios += len(all)
	c.variants += len(scenarios.ExpandAll(all))
}

// told reports whether a problem has been reported where it arose.
func (c *checked) told(p *strictdoc.Problem) bool {
	for _, e := range c.errs {
		if strings.Contains(p.Msg, e.Error()) {
			return true
		}
	}
	return false
}

// host checks a file that is a host's.
func (c *checked) host(file string) error {
	switch filepath.Ext(file) {
	case ".txtar":
		c.recordings++
	case ".yaml":
		data, err := readRegular(file, profiles.MaxFile)
		if err != nil || !profiles.Is(data) {
			return err
		}
		c.profiles++
	default:
		return nil
	}
	if !strings.ContainsRune(file, '/') {
		file = "./" + file
	}
	if _, err := (runner.Profiles{}).Host(file, ""); err != nil {
		c.errs = append(c.errs, err)
	}
	return nil
}
