package scenarios

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gpurig/core/device"
	"gpurig/core/strictdoc"
)

// maxGPU bounds an NVML index: no host has more than 64 GPUs here.
const maxGPU = 63

var (
	driverForm = shaped(`^[1-9][0-9]{2}(\.[0-9]{1,4}){0,2}$`)
	// A library's version is the end of its file name: 550.163.01, 1.1 on Tegra.
	versionForm = shaped(`^[0-9]{1,4}(\.[0-9]{1,4}){0,3}$`)
	wordForm    = shaped(`^[a-z0-9][a-z0-9-]{0,63}$`)
	bugForm     = shaped(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	driverName  = shaped(`^[!-~]{1,63}$`) // a name in /proc/devices
	portForm    = shaped(`^[0-9]{1,2}\.[0-7]$`)
	modeForm    = shaped(`^0?[0-7]{3}$`)
)

// shaped returns what reports whether a text has the form of an expression. That is
// compiled when it is first asked for, since most commands ask for none.
func shaped(expression string) func(text string) bool {
	compiled := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
	return func(text string) bool { return compiled().MatchString(text) }
}

// libraryWords are what a library can be beside a version.
var libraryWords = []string{"host", "image", "none"}

// Words of the smoke workload (package smoke of the runner).
var (
	smokeKernels = []string{"pass"}
	smokeSteps   = []string{"library", "init", "devices", "kernels", "nvml"}
	smokeCauses  = []string{"library-not-found", "library-not-loadable", "node-missing", "node-forbidden", "no-device", "version-mismatch", "cuda-error", "wrong-result", "nvml-differs"}
)

func list(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

func isName(s, punctuation string, most int) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || !strings.ContainsRune(punctuation, r)) {
			return false
		}
	}
	return s != "" && len(s) <= most
}

// oneOf checks words of one kind against a closed list; a nil list allows all.
func (c *checker) oneOf(what string, words, known []string, w strictdoc.Path) {
	for i, word := range words {
		at := w
		if c.Has(w.Item(i)) {
			at = w.Item(i)
		}
		if known != nil && !slices.Contains(known, word) {
			c.At(at, "Known: "+strings.Join(known, ", ")+".", "unknown %s %q%s", what, word, strictdoc.Meant(word, known))
		}
	}
	c.unique(words, w)
}

func (c *checker) unique(words []string, w strictdoc.Path) {
	for i, word := range words {
		if slices.Contains(words[:i], word) {
			c.At(w.Item(i), "", "%q occurs twice in %s", word, w)
		}
	}
}

func (c *checker) wordAt(s string, w strictdoc.Path) {
	if !wordForm(s) {
		c.At(w, "", "%q: want small letters, digits and \"-\", at most 64", s)
	}
}

// host checks a profile name, or a path to a file: one with a "/" or ".yaml".
func (c *checker) host(h string, w strictdoc.Path, need bool) {
	switch {
	case h == "" && need && c.s.Matrix.Host == nil:
		c.At(w, "Add host: NAME; gpurig host list prints the names.", "no host")
	case h == "":
		if c.Has(w) {
			c.At(w, "", "the host's name is empty")
		}
	case strings.ContainsRune(h, '/') || strings.HasSuffix(h, ext) || strings.HasSuffix(h, ".txtar"):
		if slices.Contains(strings.Split(h, "/"), "..") || path.IsAbs(h) {
			c.At(w, "Put the file beside the scenario, or below it.", "host file %q leads out of the scenario's folder", h)
		} else if c.opts.HostFile != nil {
			c.hostFile(h, w)
		}
	case c.opts.Hosts != nil && !slices.Contains(c.opts.Hosts, h):
		c.At(w, "gpurig host list prints the names.", "unknown host %q%s", h, strictdoc.Meant(h, c.opts.Hosts))
	}
}

// hostFile tells what is wrong with a host's file, in the first line that says so:
// gpurig host show tells all of it.
func (c *checker) hostFile(h string, w strictdoc.Path) {
	err := c.opts.HostFile(h, c.s.File)
	if errors.Is(err, fs.ErrNotExist) {
		c.At(w, "Host files are beside the scenario: ./NAME.yaml, ./NAME.txtar.", "there is no file %s", filepath.Join(filepath.Dir(c.s.File), h))
	} else if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		c.At(w, "gpurig host show FILE tells all that is wrong with it.", "host file %q: %s", h, first)
	}
}

func (c *checker) driver(v string, w strictdoc.Path) {
	if v != "" && !driverForm(v) {
		c.At(w, "", "driver %q: want a version or a branch, such as 550.163.01 or 550", v)
	} else if v != "" && c.opts.Driver != nil {
		if err := c.opts.Driver(v); err != nil {
			c.At(w, "", "%v", err)
		}
	}
}

func (c *checker) index(i int, w strictdoc.Path) {
	if i < 0 || i > maxGPU {
		c.At(w, "", "GPU %d: want an NVML index, 0 to %d", i, maxGPU)
	}
}

func (c *checker) number(n string, w strictdoc.Path) {
	if n == "" || unbound(n) {
		return
	}
	if _, err := device.ParseNum(n); err != nil {
		c.At(w, "", "%v", err)
	}
}

func (c *checker) mode(m string, w strictdoc.Path) {
	if m != "" && !modeForm(m) {
		c.At(w, "", "mode %q: want three octal digits, such as 0660", m)
	}
}

// path checks an absolute, clean path.
func (c *checker) path(p string, w strictdoc.Path) {
	if problem := pathProblem(p); problem != "" {
		c.At(w, "", "path %q %s", p, problem)
	}
}

func pathProblem(p string) string {
	switch {
	case !path.IsAbs(p):
		return "is not absolute"
	case slices.Contains(strings.Split(p, "/"), ".."):
		return `has ".."`
	case path.Clean(p) != p:
		return "is not clean; write " + strconv.Quote(path.Clean(p))
	case p == "/":
		return "is the root folder"
	case len(p) > 4095:
		return "is too long"
	}
	return ""
}

func (c *checker) paths(ps []string, w strictdoc.Path) {
	for i, p := range ps {
		c.path(p, w.Item(i))
	}
	c.unique(ps, w)
}

// pathKeys checks the keys of a map by path.
func pathKeys[T any](c *checker, m map[string]T, w strictdoc.Path) {
	for p := range m {
		if problem := pathProblem(p); problem != "" {
			c.AtKey(w.Key(p), "", "path %q %s", p, problem)
		}
	}
}

func (c *checker) files(m map[string]string, w strictdoc.Path) { pathKeys(c, m, w) }

// pattern checks a pattern as path.Match reads it.
func (c *checker) patterns(ps []string, w strictdoc.Path, absolute bool) {
	for i, p := range ps {
		if _, err := path.Match(p, ""); err != nil {
			c.At(w.Item(i), `* and ? stand for letters other than "/", [a-z] for one of a set.`, "pattern %q is not well formed", p)
		} else if absolute && !path.IsAbs(p) {
			c.At(w.Item(i), "", "path %q is not absolute", p)
		}
	}
	c.unique(ps, w)
}
