package cli

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gpurig/core/show"
)

// lab is the folder that init makes.
//
//go:embed lab
var lab embed.FS

// labNames are files of lab that have another name in the folder.
var labNames = map[string]string{"github.yml": ".github/workflows/gpurig.yml", "gitlab.yml": ".gitlab-ci.yml"}

func newInit(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "init DIR",
		Short: "Make a folder for scenarios and hosts of your own",
		Long: `Init makes a folder with a scenario, its twin, a profile of a host, the schemas for
editors, files for CI, and a README. Its scenarios pass as they are. A file that is
already there is left as it is, and nothing else is written then.`,
		Example: "  gpurig init my-lab",
		Args:    takes(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			files, err := labFiles()
			if err != nil {
				return broken(err)
			}
			for name := range files {
				if _, err := os.Lstat(filepath.Join(args[0], name)); !errors.Is(err, fs.ErrNotExist) {
					return hint(fmt.Errorf("%s: it is there already", filepath.Join(args[0], name)), "name another folder")
				}
			}
			for name, data := range files {
				file := filepath.Join(args[0], name)
				if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
					return err
				}
				if err := os.WriteFile(file, data, 0o666); err != nil {
					return err
				}
			}
			show.Fprintf(s.Out, "%s has %d files; next: cd %s && %s\n", args[0], len(files), show.Command(args[0]), "gpurig run scenarios")
			return nil
		},
	}
}

// labFiles are the files of the folder by their paths in it.
func labFiles() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, kind := range []string{"scenario", "profile"} {
		files[path.Join("schemas", kind+".schema.json")] = schemas[kind]()
	}
	return files, fs.WalkDir(lab, "lab", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name := strings.TrimPrefix(p, "lab/")
		if other := labNames[name]; other != "" {
			name = other
		}
		files[name], err = lab.ReadFile(p)
		return err
	})
}
