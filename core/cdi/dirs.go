package cdi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"gpurig/core/host"
	"gpurig/core/refuse"
	"gpurig/core/suggest"
)

// DefaultDirs returns the directories that CDI names, in rising priority.
func DefaultDirs() []string { return []string{"/etc/cdi", "/var/run/cdi"} }

// Specs are the Specs of a machine, in the order of directories and names.
type Specs = []Source

// A Reader reads Spec directories. The zero value with a Root and Dirs reads
// every Spec whoever wrote it.
type Reader struct {
	Root host.Root
	Dirs []string // in rising priority
	// RootOnly refuses a Spec that somebody other than root could have written
	// or replaced: every directory above it, every link on the way and the file
	// itself have to belong to root and be writable for nobody else.
	RootOnly bool
	// VendorDirs locks vendors to a directory: Specs of that vendor elsewhere are
	// refused.
	VendorDirs map[string]string
}

// ReadDirs reads the Specs in dirs, which are in rising priority; see Reader.
func ReadDirs(root host.Root, dirs []string) (Specs, []Problem) {
	return (&Reader{Root: root, Dirs: dirs}).Read()
}

// Read returns the Specs that are sound, and a Problem for everything that was
// left out and why. A missing directory is none. Only regular files called
// *.yaml and *.json are read, also through links; nothing else is ever opened,
// and directories inside the directories are not entered.
//
// Problems that are notes say which device of a lower priority is overridden and
// by which file; two files of equal priority that define the same device are a
// problem, and become an error when that device is asked for.
func (r *Reader) Read() (Specs, []Problem) {
	var out Specs
	var problems []Problem
	seen := map[string]bool{}
	for prio, dir := range r.Dirs {
		real, err := host.Resolve(r.Root, dir)
		if errors.Is(err, fs.ErrNotExist) || seen[real] && err == nil {
			continue
		}
		if err != nil {
			problems = append(problems, fileProblem(dir, ReasonSpecUnreadable, "", "%v", err))
			continue
		}
		seen[real] = true
		s, p := r.dir(dir, prio)
		out, problems = append(out, s...), append(problems, p...)
	}
	return out, append(problems, overlaps(out)...)
}

func (r *Reader) dir(dir string, prio int) (Specs, []Problem) {
	names, err := r.Root.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, []Problem{fileProblem(dir, ReasonSpecUnreadable, "", "%v", err)}
	}
	var out Specs
	var problems []Problem
	for _, name := range names {
		file := path.Join(dir, name)
		if ext := path.Ext(name); ext != ".yaml" && ext != ".json" {
			if l := strings.ToLower(ext); l == ".yml" || l == ".yaml" || l == ".json" {
				problems = append(problems, fileProblem(file, ReasonSpecExtension, "Rename the file.", "is not read: a Spec's name ends in .yaml or .json"))
			}
			continue
		}
		src, p := r.file(file, prio)
		problems = append(problems, p...)
		if len(p) == 0 {
			out = append(out, src)
		}
	}
	return out, problems
}

func (r *Reader) file(file string, prio int) (Source, []Problem) {
	if r.RootOnly {
		if why := host.Untrusted(r.Root, file); why != "" {
			return Source{}, []Problem{fileProblem(file, ReasonSpecUntrusted, "Make root its owner, and let only root write to it.", "%s", why)}
		}
	}
	data, p := r.read(file)
	if p != nil {
		return Source{}, []Problem{*p}
	}
	spec, problems := parse(data, file)
	if len(problems) > 0 {
		return Source{}, problems
	}
	vendor, _, _ := strings.Cut(spec.Kind, "/")
	if want, locked := r.VendorDirs[vendor]; locked && path.Clean(want) != path.Dir(file) {
		return Source{}, []Problem{fileProblem(file, ReasonSpecWrongDir, "", "Specs of %s are taken from %s only", vendor, want)}
	}
	sum := sha256.Sum256(data)
	return Source{Spec: spec, Where: file, SHA256: hex.EncodeToString(sum[:]), Priority: prio}, nil
}

// read returns the bytes of a regular file that did not change while it was
// read. It tries three times: a writer that rewrites the file in place leaves
// YAML that is cut but valid.
func (r *Reader) read(file string) ([]byte, *Problem) {
	for range 3 {
		real, err := host.Resolve(r.Root, file)
		if err != nil {
			return nil, linkProblem(file, err)
		}
		before, err := r.Root.Lstat(real)
		if err != nil {
			return nil, linkProblem(file, err)
		}
		if !before.Mode.IsRegular() {
			p := fileProblem(file, ReasonSpecNotRegular, "", "is %s, not a regular file", typeName(before.Mode))
			return nil, &p
		}
		if before.Size > MaxSpec {
			p := fileProblem(file, ReasonSpecTooLarge, "", "has %d bytes, at most %d are read", before.Size, MaxSpec)
			return nil, &p
		}
		data, err := r.Root.ReadFile(real)
		if err != nil {
			return nil, linkProblem(file, err)
		}
		after, err := r.Root.Lstat(real)
		if err == nil && after.Size == before.Size && int64(len(data)) >= before.Size {
			return data, nil
		}
	}
	p := fileProblem(file, ReasonSpecChanging, "Try again when its writer is done.", "changes while it is read")
	return nil, &p
}

func linkProblem(file string, err error) *Problem {
	reason := ReasonSpecUnreadable
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) {
		reason = ReasonSpecNotRegular
	}
	p := fileProblem(file, reason, "", "%v", err)
	return &p
}

func fileProblem(file string, r refuse.Reason, hint, format string, args ...any) Problem {
	return Problem{Path: file, Reason: r, Msg: fmt.Sprintf(format, args...), Hint: hint}
}

func typeName(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeCharDevice != 0:
		return "a character device"
	case m&fs.ModeDevice != 0:
		return "a block device"
	}
	return "of type " + m.Type().String()
}

// overlaps says which devices are defined more than once, and by whom.
func overlaps(all Specs) []Problem {
	where := map[Name][]int{}
	var order []Name
	for i, s := range all {
		for _, d := range s.Spec.Devices {
			n := nameIn(s.Spec.Kind, d.Name)
			if len(where[n]) == 1 {
				order = append(order, n)
			}
			where[n] = append(where[n], i)
		}
	}
	var out []Problem
	for _, n := range order {
		out = append(out, overlap(all, n, where[n]))
	}
	return out
}

func overlap(all Specs, n Name, at []int) Problem {
	top := 0
	for _, i := range at {
		top = max(top, all[i].Priority)
	}
	var winners, losers []string
	sum := ""
	for _, i := range at {
		if all[i].Priority == top {
			winners, sum = append(winners, all[i].Where), all[i].SHA256
		} else {
			losers = append(losers, all[i].Where)
		}
	}
	if len(winners) > 1 {
		return fileProblem(winners[0], ReasonDeviceConflict, "Remove the device from all files but one.",
			"device %s is defined by %s, none of which comes before the others", n, strings.Join(winners, " and "))
	}
	p := fileProblem(winners[0], ReasonSpecOverridden, "", "device %s is taken from this file (SHA-256 %s) and not from %s",
		n, sum, strings.Join(losers, " and "))
	p.Note = true
	return p
}

// Explain adds to refusals of the reasons ReasonNotFound and ReasonAllMatchesNone where was
// looked, and which files there could not be used: one of them may have what was
// asked for.
func Explain(err error, dirs []string, problems []Problem) error {
	var es []*refuse.Error
	for _, e := range refuse.As(err) {
		if e.Reason == ReasonNotFound || e.Reason == ReasonAllMatchesNone {
			e = e.WithHint("%s", strings.TrimSpace(e.Hint+" "+looked(dirs, problems)))
		}
		es = append(es, e)
	}
	if len(es) == 0 {
		return err
	}
	return refuse.Join(es...)
}

func looked(dirs []string, problems []Problem) string {
	var unused []string
	for _, p := range problems {
		if !p.Note && p.Path != "" {
			unused = append(unused, p.Path)
		}
	}
	slices.Sort(unused)
	unused = slices.Compact(unused)
	s := "Looked in " + suggest.List(dirs) + "."
	if len(unused) > 0 {
		s += " Not usable: " + suggest.List(unused) + "."
	}
	return s
}
