package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// TestSite: the pages of the repository make a site in which every link and every file
// that a page loads is there, and a search finds what is on each page.
func TestSite(t *testing.T) {
	dir := t.TempDir()
	if err := build("../..", dir); err != nil {
		t.Fatal(err)
	}
	ids, refs := map[string]bool{}, map[string][]string{}
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		ids[name] = true
		if filepath.Ext(name) != ".html" {
			return nil
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		d, err := html.Parse(f)
		if err != nil {
			return err
		}
		for n := range d.Descendants() {
			for _, a := range n.Attr {
				switch {
				case a.Key == "id" && ids[name+"#"+a.Val]:
					t.Errorf("%s has the id %s twice", name, a.Val)
				case a.Key == "id":
					ids[name+"#"+a.Val] = true
				case a.Key == "href" || a.Key == "src":
					refs[name] = append(refs[name], a.Val)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	local := 0
	for name, links := range refs {
		for _, l := range links {
			if strings.HasPrefix(l, "https://") || strings.HasPrefix(l, "http://") {
				continue
			}
			local++
			file, anchor, _ := strings.Cut(l, "#")
			to := name
			if file != "" {
				to = filepath.Join(filepath.Dir(name), file)
			}
			if anchor != "" {
				to += "#" + anchor
			}
			if !ids[to] {
				t.Errorf("%s: link %q leads nowhere", name, l)
			}
		}
	}
	if len(refs) < 15 || local < 150 {
		t.Errorf("%d pages with %d links; the test looked in the wrong place", len(refs), local)
	}
	index, err := os.ReadFile(filepath.Join(dir, "index.js"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"a":"docs/reference.html#images"`, `"a":"docs/tutorial.html"`, `"t":"gpurig host enter"`, "off-bus:0"} {
		if !strings.Contains(string(index), want) {
			t.Errorf("the search does not know %s", want)
		}
	}
}

// A link that leads nowhere is an error, and one to a file that is no page is text.
func TestLinks(t *testing.T) {
	for _, tc := range []struct{ name, link, want, bad string }{
		{"a page", "b.md", `<a href="../docs/b.html">x</a>`, ""},
		{"a heading", "b.md#two-words", `<a href="../docs/b.html#two-words">x</a>`, ""},
		{"one of its own", "#one", `<a href="../docs/a.html#one">x</a>`, ""},
		{"a folder with pages", "../", `<a href="../index.html">x</a>`, ""},
		{"elsewhere", "https://example.org/", `<a href="https://example.org/">x</a>`, ""},
		{"another file", "../LICENSE", "<p>x</p>", ""},
		{"no page", "c.md", "", `docs/a.md: link "c.md"`},
		{"no heading", "b.md#three", "", `docs/a.md: link "b.md#three"`},
		{"no file", "../NOTHING", "", `docs/a.md: link "../NOTHING"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			texts := map[string][]byte{"README.md": []byte("# top\n"), "docs/a.md": []byte("# one\n\n[x](" + tc.link + ")\n"), "docs/b.md": []byte("# b\n\n## Two words\n")}
			files, err := render(texts, func(p string) bool { return p == "LICENSE" })
			if tc.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tc.bad) {
					t.Errorf("render: %v; want %q", err, tc.bad)
				}
				return
			}
			if err != nil || !strings.Contains(string(files["docs/a.html"]), tc.want) {
				t.Errorf("render: %v, %s; want %s", err, files["docs/a.html"], tc.want)
			}
		})
	}
}
