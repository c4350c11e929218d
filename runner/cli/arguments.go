package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpurig/core/strictdoc"
	"gpurig/fakehw/fault"
	"gpurig/runner"
	"gpurig/scenarios"
)

// An argument names scenarios: a shipped one or a folder of those, a file or a folder,
// and in brackets which variants: "mig/one-of-two[cgroup=v1,faults=no-uvm]".
type argument struct {
	path    string
	shipped bool
	name    string            // of the scenario, where the argument is that and the file was found by it
	picks   map[string]string // by key of a matrix; empty: all variants
	faults  []string
}

// faultsKey is the key of a result's variant that has the faults of the run.
const faultsKey = "faults"

// parseArgument reads an argument and finds what it names. A name that is neither of a
// shipped scenario nor of a file is looked for as a report prints it: below this
// folder, and below each folder in it.
func parseArgument(text string) (argument, error) {
	if text == "" {
		return argument{}, errors.New("a scenario or folder with an empty name")
	}
	a := argument{path: text}
	if _, err := os.Lstat(text); err == nil && !scenarios.Has(scenarios.Files, text) {
		return a, nil
	}
	path, rest, bracket := strings.Cut(text, "[")
	if bracket {
		var err error
		if a.path = path; !strings.HasSuffix(rest, "]") {
			return argument{}, hint(fmt.Errorf("scenario %q: a bracket is not closed", text), "write NAME[KEY=VALUE,...]")
		}
		if a.picks, err = parsePicks(strings.TrimSuffix(rest, "]")); err != nil {
			return argument{}, fmt.Errorf("scenario %q: %w", text, err)
		}
		if f, ok := a.picks[faultsKey]; ok {
			all, err := fault.ParseList(strings.Fields(f))
			if err != nil {
				return argument{}, err
			}
			a.faults = all.Texts()
			delete(a.picks, faultsKey)
		}
	}
	if a.shipped = scenarios.Has(scenarios.Files, a.path); a.shipped {
		return a, nil
	}
	if _, err := os.Lstat(a.path); err == nil || filepath.IsAbs(a.path) {
		return a, nil
	}
	found, err := filepath.Glob(filepath.Join("*", globbed(a.path)+".yaml"))
	if _, here := os.Lstat(a.path + ".yaml"); here == nil {
		found = append(found, a.path+".yaml")
	}
	switch {
	case err != nil:
		return argument{}, err
	case len(found) > 1:
		return argument{}, hint(fmt.Errorf("scenario %q: several files have that name: %s", text, strings.Join(found, ", ")), "name the file")
	case len(found) == 1:
		a.name, a.path = filepath.ToSlash(a.path), found[0]
	}
	return a, nil
}

// globbed returns the pattern that matches a path alone.
func globbed(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// parsePicks reads "cgroup=v1,faults=no-uvm off-bus:0". The text of a fault may have
// commas.
func parsePicks(text string) (map[string]string, error) {
	keys := append(scenarios.MatrixKeys(), faultsKey)
	picks := map[string]string{}
	last := ""
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		_, twice := picks[key]
		switch {
		case ok && slices.Contains(keys, key) && twice:
			return nil, fmt.Errorf("%s is there twice", key)
		case ok && slices.Contains(keys, key):
			picks[key], last = value, key
		case last == faultsKey:
			picks[last] += "," + part
		default:
			return nil, fmt.Errorf("%q: want KEY=VALUE with a key of %s", part, strings.Join(keys, ", "))
		}
	}
	return picks, nil
}

// names reports whether the argument is about the scenario.
func (a *argument) names(s *scenarios.Scenario, shipped bool) bool {
	if a.shipped || shipped {
		return a.shipped && shipped && scenarios.IsNamed(s.Name, []string{a.path})
	}
	rel, err := filepath.Rel(a.path, s.File)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// fits reports whether the argument is about the variant of a scenario that it names.
func (a *argument) fits(v *scenarios.Variant) bool {
	have := v.Map()
	for k, want := range a.picks {
		if have[k] != want {
			return false
		}
	}
	return true
}

// load reads what the arguments name, or all shipped scenarios where there are none, and
// expands it. The faults are those in brackets, the same of all arguments.
func load(texts []string) (all []scenarios.Scenario, variants []scenarios.Variant, faults []string, err error) {
	var args []argument
	for i, text := range texts {
		a, err := parseArgument(text)
		if err != nil {
			return nil, nil, nil, err
		}
		if args = append(args, a); !slices.Equal(a.faults, args[0].faults) {
			return nil, nil, nil, hint(fmt.Errorf("%s and %s have different faults", texts[0], texts[i]), "run them one after the other")
		}
		faults = a.faults
	}
	all, own, err := loadArguments(args)
	if err != nil {
		return nil, nil, nil, err
	}
	used := make([]bool, len(args))
	for i := range all {
		var about []int
		for k := range args {
			if args[k].names(&all[i], i < len(all)-own) {
				about = append(about, k)
			}
		}
		for _, v := range scenarios.Expand(all[i]) {
			fits := len(args) == 0
			for _, k := range about {
				if args[k].fits(&v) {
					used[k], fits = true, true
				}
			}
			if fits {
				variants = append(variants, v)
			}
		}
	}
	for k, a := range args {
		if used[k] {
			continue
		}
		err := fmt.Errorf("scenario %q: no such variant", texts[k])
		var ids []string
		for i := range all {
			if a.names(&all[i], i < len(all)-own) {
				for _, v := range scenarios.Expand(all[i]) {
					ids = append(ids, v.ID())
				}
			}
		}
		if len(ids) > 12 {
			return nil, nil, nil, hint(err, "gpurig list --variants %s shows its %d", a.path, len(ids))
		}
		return nil, nil, nil, hint(err, "it has %s", strings.Join(ids, ", "))
	}
	return all, variants, faults, nil
}

// loadArguments returns the scenarios, the last own of which are not shipped. Shipped
// ones are read only where they are meant: a mistake in one is nobody's business who
// runs a file.
func loadArguments(args []argument) (all []scenarios.Scenario, own int, err error) {
	var names, files []string
	byFile := map[string]string{}
	for _, a := range args {
		if a.shipped {
			names = append(names, a.path)
			continue
		}
		files = append(files, a.path)
		if a.name != "" {
			byFile[filepath.Clean(a.path)] = a.name
		}
	}
	if len(files) == 0 || len(names) > 0 {
		if all, err = scenarios.LoadFS(scenarios.Files, runner.Words(), names...); err != nil {
			return nil, 0, broken(err)
		}
	}
	more, err := loadOwn(files)
	if problems, ok := errors.AsType[strictdoc.Problems](err); ok {
		for _, p := range problems {
			if p.Line == 0 && p.Hint == "" && errors.Is(p, fs.ErrNotExist) {
				p.Msg += strictdoc.Meant(strings.TrimSuffix(p.File, ".yaml"), shippedNames())
				p.Hint = "gpurig list shows the shipped scenarios"
			}
		}
	}
	if err != nil {
		return nil, 0, err
	}
	for i := range more {
		s := &more[i]
		if name := byFile[filepath.Clean(s.File)]; name != "" {
			s.Name = name
		}
		if scenarios.Has(scenarios.Files, s.File) {
			s.File = "./" + s.File // else it would be taken for the shipped one
		}
	}
	for i := range all {
		for k := range more {
			if all[i].Name == more[k].Name {
				return nil, 0, hint(fmt.Errorf("%s and the shipped scenario %s have the same name", more[k].File, all[i].Name), "run them one after the other")
			}
		}
	}
	return append(all, more...), len(more), nil
}

// loadOwn reads scenarios that are not shipped. A host that cannot be loaded breaks its
// scenarios when they run, and not the others: it is an error only where no scenario
// would be left.
func loadOwn(files []string) ([]scenarios.Scenario, error) {
	words := runner.Words()
	all, err := scenarios.Load(words, files...)
	if err != nil {
		words.HostFile, words.Try = nil, runner.Profiles{}.TryLoaded
		rest, other := scenarios.Load(words, files...)
		problems, ok := errors.AsType[strictdoc.Problems](err)
		if other != nil || !ok {
			return nil, err
		}
		bad := map[string]bool{}
		for _, p := range problems {
			bad[p.File] = true
		}
		if len(bad) >= len(rest) {
			return nil, err
		}
		all = rest
	}
	return all, checkChanges(all)
}

// checkChanges tells of changes that hosts cannot have before anything runs.
func checkChanges(all []scenarios.Scenario) error {
	var problems strictdoc.Problems
	for _, s := range all {
		if !runner.Removes(s) || s.Needs != nil {
			continue
		}
		if line, err := runner.CheckChanges(context.Background(), s); err != nil {
			problems = append(problems, &strictdoc.Problem{File: s.File, Line: line, Column: 1, Msg: err.Error(), Err: err,
				Hint: "gpurig host mount shows the files of a host"})
		}
	}
	return problems.Err()
}
