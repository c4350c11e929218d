// Command manual writes the manual pages of gpurig and its shell completions below a
// folder such as /usr/share, from the commands themselves. SOURCE_DATE_EPOCH is the date
// of the pages.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"gpurig/runner/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manual FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1], cli.Command(), os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// write makes all files below share. An empty epoch is 1970.
func write(share string, root *cobra.Command, epoch string) error {
	seconds, err := strconv.ParseInt("0"+epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH %q: want seconds since 1970", epoch)
	}
	date := time.Unix(seconds, 0).UTC()
	man := filepath.Join(share, "man/man1")
	if err := os.MkdirAll(man, 0o755); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	header := doc.GenManHeader{Section: "1", Source: "gpurig " + root.Version, Manual: "gpurig", Date: &date}
	if err := doc.GenManTree(root, &header, man); err != nil {
		return err
	}
	for file, generate := range map[string]func(string) error{
		"bash-completion/completions/gpurig":    func(f string) error { return root.GenBashCompletionFileV2(f, true) },
		"zsh/vendor-completions/_gpurig":        root.GenZshCompletionFile,
		"fish/vendor_completions.d/gpurig.fish": func(f string) error { return root.GenFishCompletionFile(f, true) },
	} {
		file = filepath.Join(share, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := generate(file); err != nil {
			return err
		}
	}
	return nil
}
