package stage

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"gpurig/core/elf"
	"gpurig/core/hookspec"
	"gpurig/core/ldcache"
	"gpurig/hook/inroot"
)

// Libraries of the image can come before the host's: in a folder that is searched
// earlier, in a subfolder for newer processors, under a higher version in the very
// folder that the host's are mounted in. Where that is so, links to the host's are
// made in folders of our own, which the loader's configuration names first.
const ownDir = "/usr/lib/cdi-hook"

// confHead is what ld.so.conf begins with where the drop-in does not come first
// otherwise.
const confHead = "include " + dropIn + "\n"

// machines are the names of our folders: Debian's names of architectures. A folder
// that has the name of a platform, "x86_64", is one for better processors to glibc up
// to 2.36, and others come before it in a cache, or it is passed over.
var machines = map[elf.Machine]string{elf.X8664: "amd64", elf.AArch64: "arm64", elf.I386: "x86", elf.ARM: "armhf"}

// muslMachines are those of musl's architectures, see muslArchs.
var muslMachines = map[string]elf.Machine{"x86_64": elf.X8664, "aarch64": elf.AArch64, "i386": elf.I386, "armhf": elf.ARM}

const hwcapsDir = "glibc-hwcaps"

// levels are the subfolders for newer x86-64 processors.
var levels = []string{"x86-64-v2", "x86-64-v3", "x86-64-v4"}

// An identity is one file, by whatever path and mount.
type identity struct{ dev, ino uint64 }

// A library is one of the host's, mounted into a folder that is to be searched.
type library struct {
	path    string // of the mount point
	dir     string // its folder, without links
	names   []string
	machine elf.Machine
	id      identity
}

// A loss is a name for which a loader does not take the host's library.
type loss struct {
	library
	name  string
	found ldcache.Found
	musl  bool
	later bool // not yet: after the next ldconfig of the container
}

func (l loss) warning() hookspec.Warning {
	return hookspec.Warning{Reason: hookspec.LibraryShadowed, SONAME: l.name, Host: l.path, Loads: l.found.Path, By: string(l.found.By), Later: l.later}
}

// mountedLibraries are the paths of the host's files with names of libraries in the
// folders that are to be searched: mounted alone, or in a folder that is.
func (w *work) mountedLibraries(v *look) []string {
	var out []string
	for _, m := range w.file.MountPoints {
		if !m.Dir && slices.Contains(w.file.LibraryDirs, path.Dir(m.Path)) {
			out = append(out, m.Path)
		}
	}
	for _, dir := range w.file.LibraryDirs {
		if !slices.ContainsFunc(w.file.MountPoints, func(m hookspec.MountPoint) bool {
			return m.Dir && (dir == m.Path || strings.HasPrefix(dir, m.Path+"/"))
		}) {
			continue
		}
		names, _ := v.ReadDir(dir) // an error is said where the cache is made
		for _, n := range names {
			out = append(out, path.Join(dir, n))
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(p string) bool { return !ldcache.IsLibraryName(path.Base(p)) })
}

// libraries are the host's in the folders that are to be searched. A program asks for
// one by its SONAME, and by what links of the plan to it are called.
func (w *work) libraries(v *look) ([]library, error) {
	var out []library
	at := map[string]int{}
	for _, p := range w.mountedLibraries(v) {
		f, real, err := ldcache.Inspect(v, p)
		if err != nil || machines[f.Machine] == "" || f.Type != elf.SharedObject || path.Base(real) != path.Base(p) {
			continue // the cache says why it is left out; a link's file is taken by its own name
		}
		id, err := v.identity(real)
		if err != nil {
			return nil, err
		}
		l := library{path: p, dir: path.Dir(real), machine: f.Machine, id: id}
		if l.names = []string{path.Base(p)}; f.SONAME != "" {
			l.names[0] = f.SONAME
		}
		at[p] = len(out)
		out = append(out, l)
	}
	for _, l := range w.file.Links {
		i, ok := at[path.Join(path.Dir(l.Path), l.Target)]
		if name := path.Base(l.Path); ok && ldcache.IsLibraryName(name) && !slices.Contains(out[i].names, name) {
			out[i].names = append(out[i].names, name)
		}
	}
	return out, nil
}

// lost asks every loader of the root, with this cache, for the host's libraries, as
// on each processor that the cache tells apart. turned are links of ours that ldconfig
// would have lead elsewhere, and where.
func (v *look) lost(cache ldcache.Cache, libs []library, turned map[string]string) ([]loss, error) {
	if len(libs) == 0 {
		return nil, nil
	}
	loaders, err := ldcache.Loaders(v)
	if err != nil {
		return nil, err
	}
	ids := map[string][]identity{} // of those that share a name, any will do
	key := func(l library, name string) string { return machines[l.machine] + " " + name }
	for _, l := range libs {
		for _, n := range l.names {
			ids[key(l, n)] = append(ids[key(l, n)], l.id)
		}
	}
	var out []loss
	ask := func(ld ldcache.Loader, r *ldcache.Resolver, l library, n string) error {
		found, err := r.Find(n)
		if err != nil || found.Path == "" && n != l.names[0] {
			return err // no cache has the name of a link alone: nothing comes before it
		}
		if found.Path != "" && found.Problem == "" {
			id, err := v.identity(found.Real)
			if err != nil {
				return err
			}
			if elsewhere, later := turned[found.Path]; slices.Contains(ids[key(l, n)], id) {
				if later {
					found.Path = elsewhere
					out = append(out, loss{library: l, name: n, found: found, later: true})
				}
				return nil
			}
		}
		if !slices.ContainsFunc(out, func(o loss) bool { return o.name == n && o.path == l.path && o.found.Real == found.Real }) {
			out = append(out, loss{library: l, name: n, found: found, musl: ld.Musl != ""})
		}
		return nil
	}
	for _, ld := range loaders {
		for level := range 1 + len(levels) {
			if level > 0 && (ld.Machine != elf.X8664 || !slices.ContainsFunc(cache.Entries, func(e ldcache.Entry) bool { return e.HWCaps == levels[level-1] })) {
				continue
			}
			for _, o := range ld.Programs(v, ldcache.Options{Level: level + 1, Cache: &cache}) {
				r, err := ldcache.NewResolver(v, ld, o)
				if err != nil {
					return nil, err
				}
				for _, l := range libs {
					if l.machine != ld.Machine {
						continue
					}
					for _, n := range l.names {
						if err := ask(ld, r, l, n); err != nil {
							return nil, err
						}
					}
				}
			}
		}
	}
	return out, nil
}

// hold makes the host's libraries come first, as far as the root lets us.
func (w *work) hold(lost []loss) error {
	w.first = true
	var links []ldcache.Link
	for _, l := range lost {
		// A preloaded library is in every program, and some are lost for not being in the
		// configuration alone.
		if l.found.By == ldcache.ByPreload || l.later && l.found.Path == "" {
			continue
		}
		dir := path.Join(ownDir, machines[l.machine])
		if slices.ContainsFunc(links, func(x ldcache.Link) bool { return x.Dir == dir && x.Name == l.name }) {
			continue // several of the host's share the name: any will do
		}
		links = append(links, ldcache.Link{Dir: dir, Real: dir, Name: l.name, Target: l.path})
		if l.found.HWCaps != "" {
			for _, level := range levels {
				sub := path.Join(dir, hwcapsDir, level)
				links = append(links, ldcache.Link{Dir: sub, Real: sub, Name: l.name, Target: l.path})
			}
		}
		w.held = append(w.held, dir)
	}
	slices.Sort(w.held)
	w.held = slices.Compact(w.held)
	if _, err := w.sonameLinks(links); err != nil && !inroot.OfTheImage(err) && !inroot.BeyondReach(err) {
		return err
	} else if err != nil {
		w.note("the host's libraries cannot come first: %v", err)
	}
	return nil
}

// heldBefore takes up what an earlier run held first.
func (w *work) heldBefore() {
	for p := range w.journal.Links {
		if rest, ok := strings.CutPrefix(p, ownDir+"/"); ok {
			machine, _, _ := strings.Cut(rest, "/")
			w.held = append(w.held, path.Join(ownDir, machine))
		}
	}
	slices.Sort(w.held)
	w.held, w.first = slices.Compact(w.held), len(w.held) > 0
}

// muslHeld is what hold has musl's loader search first.
func muslHeld(arch string) []string {
	return []string{path.Join(ownDir, machines[muslMachines[arch]])}
}

// recordOwn notes the folders of our own that there may be.
func (w *work) recordOwn() error {
	hwcaps := path.Join(ownDir, machines[elf.X8664], hwcapsDir)
	dirs := []string{hwcaps}
	for _, name := range machines {
		dirs = append(dirs, path.Join(ownDir, name))
	}
	for _, level := range levels {
		dirs = append(dirs, path.Join(hwcaps, level))
	}
	gone, err := w.root.Missing(ownDir)
	if err == nil && len(gone) > 0 {
		w.journal.addDirs(slices.Concat(gone, dirs))
		return nil
	}
	for _, p := range dirs {
		if err == nil {
			err = w.recordDir(p)
		}
	}
	return err
}

// ownLinks takes every link in a folder of our own for ours: a run that was killed, or
// could not write the journal, made it.
func (w *work) ownLinks() error {
	for _, dir := range w.journal.Dirs {
		if !strings.HasPrefix(dir, ownDir+"/") {
			continue
		}
		names, err := w.names(dir)
		if err != nil {
			return err
		}
		for _, n := range names {
			p := path.Join(dir, n)
			text, err := w.root.Readlink(p)
			if err != nil && !inroot.OfTheImage(err) {
				return err
			}
			if _, known := w.journal.Links[p]; err == nil && !known {
				w.journal.addLink(p, text, nil, true)
			}
		}
	}
	return nil
}

// warn says what is lost all the same: a refusal where the file is strict.
func (w *work) warn(lost []loss) error {
	for _, l := range lost {
		if w.file.Strict {
			return fmt.Errorf("%s: %s", hookspec.LibraryShadowed, l.warning())
		}
		w.warnings = append(w.warnings, l.warning())
	}
	return nil
}
