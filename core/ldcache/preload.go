package ldcache

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// preloadFile is what glibc's loader loads into every program.
const preloadFile = "/etc/ld.so.preload"

const maxPreloads = 256

// ErrDepends marks a preloaded name that is another one for each program.
var ErrDepends = errors.New("depends on the program or the processor")

// preload finds the libraries of the preload file. One that cannot be loaded is
// left out, as the loader does.
func (r *Resolver) preload() error {
	text, err := r.text(preloadFile, maxConfSize)
	if err != nil {
		return err
	}
	names := PreloadNames(text)
	if len(names) > maxPreloads {
		return fmt.Errorf("%s: %w of %d libraries", preloadFile, ErrLimit, maxPreloads)
	}
	for _, given := range names {
		name, err := r.ld.expand(given, r.folders)
		if err != nil {
			r.Skipped = append(r.Skipped, Skip{preloadFile, err})
			continue
		}
		found, err := r.Find(name)
		if err != nil {
			return err
		}
		if found.Path == "" || found.Problem != "" {
			r.Skipped = append(r.Skipped, Skip{preloadFile, fmt.Errorf("%q: %s", given, cmp.Or(found.Problem, "not found"))})
			continue
		}
		found.By = ByPreload
		r.loaded = append(r.loaded, preloaded{[2]string{name, r.soname(found.Real)}, found})
	}
	return nil
}

// PreloadNames returns the libraries that a text of ld.so.preload names: between
// white space and colons, without comments.
func PreloadNames(text []byte) []string {
	var out []string
	for line := range bytes.Lines(text) {
		line, _, _ = bytes.Cut(line, []byte("#"))
		out = append(out, strings.FieldsFunc(string(line), func(c rune) bool { return strings.ContainsRune(": \t\n", c) })...)
	}
	return out
}

// soname is that of a library; empty: none.
func (r *Resolver) soname(real string) string {
	info, err := r.v.Lstat(real)
	if err != nil {
		return ""
	}
	f, err := readELF(r.v, real, info.Size)
	if err != nil {
		return ""
	}
	return f.SONAME
}

// expand replaces the token of a preloaded name that the root decides, $LIB or
// ${LIB}. The error names one that the program or the processor decides.
func (l Loader) expand(name string, folders []string) (string, error) {
	lib := "lib64"
	switch {
	case slices.Contains(folders, "/lib/"+l.tuple):
		lib = "lib/" + l.tuple
	case !slices.Contains(folders, "/lib64"):
		lib = "lib"
	}
	before, rest, found := strings.Cut(name, "$")
	for found {
		bare, braced := strings.CutPrefix(rest, "{")
		token := bare[:len(bare)-len(strings.TrimLeft(bare, tokenLetters))]
		after := bare[len(token):]
		if braced {
			after, braced = strings.CutPrefix(after, "}")
		} else {
			braced = true // nothing to close
		}
		switch {
		case token == "LIB" && braced:
			before, rest = before+lib, after
		case (token == "ORIGIN" || token == "PLATFORM") && braced:
			return "", fmt.Errorf("%q: %w", name, ErrDepends)
		default: // a dollar sign as any letter
			before += "$"
		}
		var more string
		more, rest, found = strings.Cut(rest, "$")
		before += more
	}
	return before, nil
}

const tokenLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
