package scenarios

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gpurig/core/strictdoc"
)

// Options are the words that a scenario may use. A nil list is not checked.
type Options struct {
	Hosts   []string // host profiles
	Images  []string // container images
	Reasons []string // reasons of refusals, warnings and notes
	// Ldconfig says whether an image has one; nil: nothing is checked.
	Ldconfig func(image string) bool
	// Content says what an image cannot have of a container's content; nil: nothing is checked.
	Content func(image string, c Content) *ContentError
	// Fault says what is wrong with the text of a fault; nil: nothing is checked.
	Fault func(text string) error
	// Driver says what is wrong with a driver's version or branch; nil: nothing is checked.
	Driver func(version string) error
	// Try returns the host of a scenario, by its name, under a driver (empty: its own),
	// or why it cannot have that; nil: nothing is checked.
	Try func(name, scenarioFile, driver string) (Trial, error)
	// HostFile says what is wrong with the host's file beside a scenario, and Twin
	// whether there is a scenario of that name beside it; nil: nothing is checked.
	HostFile func(name, scenarioFile string) error
	// IsHost reports whether a file in a folder is a host's, and no scenario; nil: none is.
	IsHost func(data []byte) bool
	Twin   func(name, scenarioFile string) bool
}

// Load reads the scenarios at paths: files, or folders with all that is in
// them. Scenarios come in order of name; a file given twice comes once. An
// error is a strictdoc.Problems with everything that is wrong in all files.
func Load(opts Options, paths ...string) ([]Scenario, error) {
	var all []Scenario
	var problems strictdoc.Problems
	seen := map[string]bool{}
	for _, p := range paths {
		files, err := filesBelow(p)
		if err != nil {
			problems = append(problems, problem(p, err))
		}
		for _, f := range files {
			if seen[f.path] {
				continue
			}
			seen[f.path] = true
			data, err := readFile(f.path)
			if err != nil {
				problems = append(problems, problem(f.path, err))
				continue
			}
			if f.path != p && opts.IsHost != nil && opts.IsHost(data) {
				continue
			}
			s, err := Parse(f.name, f.path, data, opts)
			problems = append(problems, problemsOf(f.path, err)...)
			all = append(all, s)
		}
	}
	return sorted(all, problems)
}

// LoadFS reads the scenarios in fsys that names mean, each a scenario or a
// folder; every one where no name is given. Others are not opened, so what is
// wrong in them does not matter.
func LoadFS(fsys fs.FS, opts Options, names ...string) ([]Scenario, error) {
	var all []Scenario
	var problems strictdoc.Problems
	err := fs.WalkDir(fsys, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Ext(p) != ext || !IsNamed(strings.TrimSuffix(p, ext), names) {
			return err
		}
		data, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		s, err := Parse(strings.TrimSuffix(p, ext), p, data, opts)
		problems = append(problems, problemsOf(p, err)...)
		all = append(all, s)
		return nil
	})
	if err != nil {
		problems = append(problems, &strictdoc.Problem{File: "scenarios", Msg: reasonOf(err)})
	}
	return sorted(all, problems)
}

// IsNamed reports whether one of names is this scenario or a folder above it.
func IsNamed(name string, names []string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(n string) bool {
		return name == strings.TrimSuffix(n, ext) || strings.HasPrefix(name, strings.TrimSuffix(n, "/")+"/")
	})
}

// Has reports whether fsys has a scenario that name means, see LoadFS. It reads
// directories alone.
func Has(fsys fs.FS, name string) bool {
	found := false
	// What cannot be walked is reported by whoever loads it.
	_ = fs.WalkDir(fsys, ".", func(p string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && path.Ext(p) == ext && IsNamed(strings.TrimSuffix(p, ext), []string{name}) {
			found = true
			return fs.SkipAll
		}
		return err
	})
	return found
}

const ext = ".yaml"

func sorted(all []Scenario, problems strictdoc.Problems) ([]Scenario, error) {
	slices.SortStableFunc(all, func(a, b Scenario) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(all); i++ {
		if all[i].Name == all[i-1].Name {
			problems = append(problems, &strictdoc.Problem{File: all[i].File, Msg: fmt.Sprintf("a scenario %q is in %s too", all[i].Name, all[i-1].File),
				Hint: "Reports and shards go by name: rename one of the files."})
		}
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return all, nil
}

func problemsOf(file string, err error) strictdoc.Problems {
	if ps, ok := errors.AsType[strictdoc.Problems](err); ok {
		return ps
	}
	if err != nil {
		return strictdoc.Problems{problem(file, err)}
	}
	return nil
}

func problem(file string, err error) *strictdoc.Problem {
	p := &strictdoc.Problem{File: file, Msg: reasonOf(err), Err: err}
	if other, ok := errors.AsType[*strictdoc.Problem](err); ok {
		p = other
	}
	return p
}

// reasonOf drops the path that the os package puts in front of its reason.
func reasonOf(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// ErrNone marks a folder without a scenario.
var ErrNone = errors.New("no scenario (*.yaml) is in this folder")

// A source is one file and the name of its scenario.
type source struct{ path, name string }

// filesBelow lists the scenario files at p. A scenario is named by its path
// below the folder that was given, or below the nearest folder "scenarios". In a
// folder, names that begin with a dot are left out, as are folders "testdata".
func filesBelow(p string) ([]source, error) {
	info, err := os.Stat(p)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []source{{p, nameOf(filepath.Dir(p), p)}}, nil
	}
	var out []source
	err = filepath.WalkDir(p, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(e.Name(), ".") && file != p
		switch {
		case e.IsDir() && (hidden || e.Name() == "testdata" && file != p):
			return filepath.SkipDir
		case e.IsDir() || hidden:
		case filepath.Ext(file) == ext:
			out = append(out, source{file, nameOf(p, file)})
		case strings.EqualFold(filepath.Ext(file), ".yml") || strings.EqualFold(filepath.Ext(file), ext):
			return &strictdoc.Problem{File: file, Msg: "a scenario in a folder has a name that ends in " + ext, Hint: "Rename the file."}
		}
		return nil
	})
	if err == nil && len(out) == 0 {
		err = ErrNone
	}
	return out, err
}

func nameOf(root, file string) string {
	name := filepath.ToSlash(strings.TrimSuffix(file, ext))
	if abs, err := filepath.Abs(file); err == nil {
		if _, below, ok := cutLast(filepath.ToSlash(strings.TrimSuffix(abs, ext)), "/scenarios/"); ok {
			return below
		}
	}
	if rel, err := filepath.Rel(root, file); err == nil {
		name = filepath.ToSlash(strings.TrimSuffix(rel, ext))
	}
	return name
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func readFile(p string) ([]byte, error) {
	info, err := os.Stat(p)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%d bytes; a scenario has at most %d", info.Size(), maxFile)
	}
	return os.ReadFile(p)
}

// Parse reads one scenario. Name is its name in reports, file what problems are
// reported against. An error is a strictdoc.Problems with everything that is wrong.
func Parse(name, file string, data []byte, opts Options) (Scenario, error) {
	s := Scenario{Name: name, File: file}
	d, ok := form.Read(file, data, &s)
	if ok { // of a file that is no YAML, that is all there is to say
		s.Title, s.Lines = title(d, data), d.Lines()
		check(d, &s, opts)
	}
	if err := d.Err(); err != nil {
		return Scenario{Name: name, File: file}, err
	}
	return s, nil
}

// modeline is a comment for an editor: it may stand anywhere, also before the title.
var modeline = regexp.MustCompile(`^(yaml-language-server:|\$schema:|vim?:|-\*-)`)

// title returns the first comment: the lines from the first on that begin with
// "#", up to the first that does not or that is empty, without those for editors.
func title(d *strictdoc.Doc, data []byte) string {
	var words []string
	for line := range strings.Lines(string(data)) {
		rest, ok := strings.CutPrefix(line, "#")
		if rest = strings.TrimSpace(rest); ok && modeline.MatchString(rest) {
			continue
		}
		if !ok || rest == "" {
			break
		}
		words = append(words, rest)
	}
	t := strings.Join(words, " ")
	const hint = "Begin the file with a comment such as: # One of two MIG devices reaches the container."
	first, _ := utf8.DecodeRuneInString(t)
	switch {
	case t == "":
		d.At("", hint, "the first comment is missing; it is the scenario's title")
	case !strings.HasSuffix(t, ".") || len(strings.Fields(t)) < 3 || unicode.IsLower(first):
		d.At("", hint, "the first comment is not a sentence: %q", t)
	}
	return t
}
