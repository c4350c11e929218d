// Command site writes the documentation as one folder of static pages, with a search
// that needs no server: every Markdown page of docs, the one above it, and the help of
// all commands. A link of a page that leads nowhere is an error.
package main

import (
	"bytes"
	"fmt"
	"html/template"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	_ "embed"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"gpurig/runner/cli"
)

//go:embed page.html
var layout string

//go:embed search.js
var script []byte

//go:embed style.css
var style []byte

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: site SOURCE FOLDER")
		os.Exit(2)
	}
	if err := build(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", strings.ReplaceAll(err.Error(), "\n", "\nerror: "))
		os.Exit(1)
	}
}

// build writes the site of the repository in source.
func build(source, to string) error {
	texts, err := read(source)
	if err != nil {
		return err
	}
	if texts["commands.md"], err = commands(cli.Command()); err != nil {
		return err
	}
	files, err := render(texts, func(p string) bool {
		_, err := os.Stat(filepath.Join(source, p))
		return err == nil
	})
	if err != nil {
		return err
	}
	for name, data := range files {
		file := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// read returns the pages by their path in the repository.
func read(source string) (map[string][]byte, error) {
	texts := map[string][]byte{}
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md"} {
		found, err := filepath.Glob(filepath.Join(source, pattern))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("%s: no page matches %s", source, pattern)
		}
		for _, file := range found {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			texts[path.Join(path.Dir(pattern), filepath.Base(file))] = text
		}
	}
	return texts, nil
}

// commands is one page with the help of every command.
func commands(root *cobra.Command) ([]byte, error) {
	root.DisableAutoGenTag = true
	var b bytes.Buffer
	b.WriteString("# Commands\n")
	var each func(*cobra.Command) error
	each = func(c *cobra.Command) error {
		var one bytes.Buffer
		if err := doc.GenMarkdownCustom(c, &one, func(string) string { return "" }); err != nil {
			return err
		}
		text, _, _ := strings.Cut(one.String(), "### SEE ALSO")
		b.WriteString("\n" + text)
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				if err := each(sub); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := each(root)
	return b.Bytes(), err
}

// A page is one file of the site.
type page struct {
	Title    string
	Up       string // from its folder to the top: "", "../"
	Body     template.HTML
	Sections []section
}

// render returns all files of the site by path. inRepository reports whether a path that
// is no page is in the repository: a link to it becomes text.
func render(texts map[string][]byte, inRepository func(string) bool) (map[string][]byte, error) {
	pages, err := parse(texts, inRepository)
	if err != nil {
		return nil, err
	}
	frame, err := template.New("page").Parse(layout)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"search.js": script, "style.css": style}
	var index []section
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		p := pages[name]
		var b bytes.Buffer
		if err := frame.Execute(&b, p); err != nil {
			return nil, err
		}
		files[name] = b.Bytes()
		index = append(index, p.Sections...)
	}
	files["index.js"] = searchIndex(index)
	return files, nil
}
