package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"path"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// A section is what a search finds: a heading and the text below it.
type section struct {
	Page  string `json:"p"` // its title
	At    string `json:"a"` // path and anchor
	Title string `json:"t"`
	Text  string `json:"x"`
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// parse returns the pages by their path on the site: docs/lxd.md is docs/lxd.html, and
// README.md is the index of its folder.
func parse(texts map[string][]byte, inRepository func(string) bool) (map[string]*page, error) {
	docs, anchors := map[string]ast.Node{}, map[string]bool{}
	for name, source := range texts {
		d := markdown.Parser().Parse(text.NewReader(source))
		docs[name] = d
		anchors[name] = true
		for _, id := range headings(d) {
			anchors[name+"#"+id] = true
		}
	}
	out, at := map[string]*page{}, map[string]string{}
	var errs []error
	for name, d := range docs {
		errs = append(errs, relink(d, name, func(to string) bool { return anchors[to] }, inRepository))
		p := &page{Up: strings.Repeat("../", strings.Count(name, "/"))}
		p.Sections = sections(d, texts[name], htmlName(name))
		if len(p.Sections) == 0 {
			return nil, fmt.Errorf("%s: no heading", name)
		}
		p.Title = p.Sections[0].Title
		for i := range p.Sections {
			p.Sections[i].Page = p.Title
		}
		var b bytes.Buffer
		if err := markdown.Renderer().Render(&b, texts[name], d); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		p.Body = template.HTML(b.String()) //nolint:gosec // of our own pages
		out[htmlName(name)] = p
		if other := at[htmlName(name)]; other != "" {
			return nil, fmt.Errorf("%s and %s are both %s", name, other, htmlName(name))
		}
		at[htmlName(name)] = name
	}
	return out, errors.Join(errs...)
}

func htmlName(name string) string {
	stem := strings.TrimSuffix(name, ".md")
	if path.Base(stem) == "README" {
		stem = path.Join(path.Dir(stem), "index")
	}
	return stem + ".html"
}

func headings(d ast.Node) (ids []string) {
	_ = ast.Walk(d, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if h, ok := n.(*ast.Heading); ok && entering {
			if id, ok := h.AttributeString("id"); ok {
				ids = append(ids, string(id.([]byte)))
			}
		}
		return ast.WalkContinue, nil
	})
	return ids
}

// relink has the links of a page lead to pages of the site, and makes text of those to
// other files of the repository. All others, and those to headings that are not there,
// are in the error.
func relink(d ast.Node, name string, isPage, inRepository func(string) bool) error {
	var errs []error
	var unlinked []*ast.Link
	_ = ast.Walk(d, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		l, ok := n.(*ast.Link)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		dest := string(l.Destination)
		u, err := url.Parse(dest)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: link %q: %w", name, dest, err))
			return ast.WalkContinue, nil
		case u.Scheme == "https" || u.Scheme == "http":
			return ast.WalkContinue, nil
		}
		file := name
		if u.Path != "" {
			file = path.Join(path.Dir(name), u.Path)
		}
		if page := path.Join(file, "README.md"); isPage(page) {
			file = page
		}
		to := file
		if u.Fragment != "" {
			to += "#" + u.Fragment
		}
		switch {
		case isPage(to):
			l.Destination = []byte(strings.Repeat("../", strings.Count(name, "/")) + htmlName(file) + strings.TrimPrefix(to, file))
		case u.Fragment == "" && inRepository(file):
			unlinked = append(unlinked, l)
		default:
			errs = append(errs, fmt.Errorf("%s: link %q: there is no such page, heading or file", name, dest))
		}
		return ast.WalkContinue, nil
	})
	for _, l := range unlinked {
		for c := l.FirstChild(); c != nil; c = l.FirstChild() {
			l.Parent().InsertBefore(l.Parent(), l, c)
		}
		l.Parent().RemoveChild(l.Parent(), l)
	}
	return errors.Join(errs...)
}

// sections cuts a page at its headings.
func sections(d ast.Node, source []byte, file string) []section {
	var out []section
	for n := d.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			s := section{At: file, Title: words(h, source)}
			if id, ok := h.AttributeString("id"); ok && len(out) > 0 {
				s.At += "#" + string(id.([]byte))
			}
			out = append(out, s)
		} else if len(out) > 0 {
			out[len(out)-1].Text += words(n, source) + " "
		}
	}
	return out
}

// words is the text of a node, without its marks.
func words(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch {
		case !entering:
		case n.Kind() == ast.KindText:
			b.Write(n.(*ast.Text).Segment.Value(source))
			if n.(*ast.Text).SoftLineBreak() {
				b.WriteByte(' ')
			}
		case n.Type() == ast.TypeBlock && n.Lines() != nil && n.Lines().Len() > 0 && n.FirstChild() == nil: // code
			b.Write(n.Lines().Value(source))
		case n.Type() == ast.TypeBlock:
			b.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// searchIndex is a script, and not JSON, so that pages that are opened as files find it.
func searchIndex(all []section) []byte {
	data, err := json.Marshal(all)
	if err != nil {
		panic(err) // they are texts
	}
	return append(append([]byte("const sections = "), data...), ";\n"...)
}
