package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook/inroot"
)

// A journal remembers what the hook made in one root, so that exactly that can
// be taken back. It lies beside the hook file, on the host, where the container
// cannot reach it. Dirty says that a run began and did not finish: temporaries
// may lie about.
type journal struct {
	Version int                 `json:"version"`
	Dirty   bool                `json:"dirty,omitempty"`
	Points  []string            `json:"points,omitempty"`  // empty files made to be mounted on
	Dirs    []string            `json:"dirs,omitempty"`    // directories, outermost first
	Links   map[string]string   `json:"links,omitempty"`   // text by path
	Linker  bool                `json:"linker,omitempty"`  // the loader's configuration is ours
	NoCache bool                `json:"noCache,omitempty"` // there was no /etc/ld.so.cache
	Conf    bool                `json:"conf,omitempty"`    // /etc/ld.so.conf is ours
	Musl    map[string]pathFile `json:"musl,omitempty"`    // by path
	Touched []string            `json:"touched,omitempty"` // directories that temporaries were made in

	name string
}

const journalVersion = 1

// A pathFile is a path file of musl's that we wrote: what it was, nil for
// absent, and what we wrote.
type pathFile struct {
	Was   *string `json:"was"`
	Wrote string  `json:"wrote"`
}

func journalName(hookFile string) string { return hookFile + ".made" }

func readJournal(hookFile string) (*journal, error) {
	j := &journal{Version: journalVersion, Links: map[string]string{}, Musl: map[string]pathFile{}, name: journalName(hookFile)}
	data, err := readTrusted(j.name, 8<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := json.Unmarshal(data, j); err != nil || j.Version != journalVersion {
		return nil, fmt.Errorf("journal %s: not one that this cdi-hook wrote", j.name)
	}
	if j.Links == nil {
		j.Links = map[string]string{}
	}
	if j.Musl == nil {
		j.Musl = map[string]pathFile{}
	}
	return j, nil
}

// save writes the journal: old or new, never mixed.
func (j *journal) save() error {
	data, err := json.MarshalIndent(j, "", " ")
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	f, err := os.CreateTemp(path.Dir(j.name), ".journal-*")
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	_, err = f.Write(append(data, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), j.name)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

func (j *journal) remove() error {
	if err := os.Remove(j.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// begin notes every directory that this run may leave a temporary in.
func (j *journal) begin(f hookspec.File) error {
	touched := map[string]bool{"/etc": true, "/etc/ld.so.conf.d": true}
	for _, d := range j.Touched {
		touched[d] = true
	}
	for _, l := range f.Links {
		touched[path.Dir(l.Path)] = true
	}
	for _, m := range f.MountPoints {
		touched[path.Dir(m.Path)] = true
	}
	j.Touched = j.Touched[:0]
	for d := range touched {
		j.Touched = append(j.Touched, d)
	}
	slices.Sort(j.Touched)
	j.Dirty = true
	return j.save()
}

// made notes what a change left behind.
func (j *journal) made(res inroot.Result) {
	for _, d := range res.Dirs {
		if !slices.Contains(j.Dirs, d) {
			j.Dirs = append(j.Dirs, d)
		}
	}
}

// sweep removes temporaries of a run that was killed.
func (j *journal) sweep(r *inroot.Root) error {
	if !j.Dirty {
		return nil
	}
	for _, d := range j.Touched {
		if _, err := r.Sweep(d); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EROFS) {
			return err
		}
	}
	return nil
}

// takeBack removes what the journal has and keep does not want. Objects that
// somebody changed since are not ours any more and stay.
func (j *journal) takeBack(r *inroot.Root, keep hookspec.File) error {
	wantPoint, wantDir, wantLink := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, m := range keep.MountPoints {
		if m.Dir {
			wantDir[m.Path] = true
		} else {
			wantPoint[m.Path] = true
		}
	}
	for _, l := range keep.Links {
		wantLink[l.Path] = l.Target
	}
	j.Points = slices.DeleteFunc(j.Points, func(p string) bool { return !wantPoint[p] && gone(r.RemoveEmpty(p, false)) })
	for p, text := range j.Links {
		if _, ok := wantLink[p]; !ok && gone(r.RemoveLink(p, text)) {
			delete(j.Links, p)
		}
	}
	for i := len(j.Dirs) - 1; i >= 0; i-- {
		p := j.Dirs[i]
		if wantDir[p] {
			continue
		}
		removed, err := r.RemoveEmpty(p, true)
		if err != nil {
			return err
		}
		if removed {
			j.Dirs = slices.Delete(j.Dirs, i, i+1)
		}
	}
	return nil
}

// gone reports whether an entry needs no further care: it was removed, or is
// not ours any more. Only an error keeps it in the journal.
func gone(_ bool, err error) bool { return err == nil }
