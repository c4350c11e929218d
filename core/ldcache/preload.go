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

// errDepends marks a preloaded name that is another one for each program.
var errDepends = errors.New("depends on the program or the processor")

// programFolders are where a system's programs are.
var programFolders = []string{"/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/sbin", "/bin", "/"}

// Programs returns o for the programs of a root: as it is where they all have the
// same libraries preloaded, else for each folder of programs and each word that
// $PLATFORM can stand for. What programs in other folders have is theirs to know, as
// with a RUNPATH.
func (l Loader) Programs(v View, o Options) []Options {
	text, err := (&Resolver{v: v}).text(preloadFile, maxConfSize)
	platforms := bytes.Contains(text, []byte("PLATFORM"))
	if err != nil || l.Musl != "" || !platforms && !bytes.Contains(text, []byte("ORIGIN")) {
		return []Options{o}
	}
	var out []Options
	for _, dir := range programFolders {
		real, info, err := resolve(v, dir)
		if err != nil || !info.Mode.IsDir() || slices.ContainsFunc(out, func(o Options) bool { return o.Origin == real }) {
			continue
		}
		for i, platform := range l.platforms {
			if o.Origin, o.Platform = real, platform; platforms || i == 0 {
				out = append(out, o)
			}
		}
	}
	return out
}

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
		name, err := r.expand(given)
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

// lib is what $LIB stands for.
func (r *Resolver) lib() string {
	switch {
	case slices.Contains(r.folders, "/lib/"+r.ld.tuple):
		return "lib/" + r.ld.tuple
	case !slices.Contains(r.folders, "/lib64"):
		return "lib"
	}
	return "lib64"
}

// expand replaces the tokens of a preloaded path, $LIB or ${LIB}, as the loader does;
// a name without a slash has none. The error names one that Options do not say.
func (r *Resolver) expand(name string) (string, error) {
	if !strings.Contains(name, "/") {
		return name, nil
	}
	values := map[string]string{"LIB": r.lib(), "ORIGIN": r.opts.Origin, "PLATFORM": r.opts.Platform}
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
		switch value, known := values[token]; {
		case known && braced && value == "":
			return "", fmt.Errorf("%q: %w", name, errDepends)
		case known && braced:
			before, rest = before+value, after
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
