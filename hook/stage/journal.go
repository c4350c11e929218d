package stage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gpurig/hook/inroot"
)

// A Store keeps one journal where the container cannot reach it.
type Store interface {
	Name() string // for messages
	// Read fails with fs.ErrNotExist where there is none, and on more than MaxJournal bytes.
	Read() ([]byte, error)
	Write(data []byte) error // old or new, never mixed
	Remove() error           // none there is no error
}

// A journal remembers what was made in one root, so that exactly that can be
// taken back.
//
// It is written ahead: what shall be made is in it before it is made, so that a
// run that is killed leaves nothing that nobody knows of. An entry therefore
// means "ours, if it is there".
type journal struct {
	Version  int                  `json:"version"`
	Lifetime *Lifetime            `json:"life,omitempty"`    // that has prepared the root last, until its mount points are gone
	Points   map[string]mountFile `json:"points,omitempty"`  // files made to be mounted on
	Dirs     []string             `json:"dirs,omitempty"`    // directories, parents first
	Links    map[string]ownLink   `json:"links,omitempty"`   // by path
	Linker   bool                 `json:"linker,omitempty"`  // the loader's configuration is ours
	Cache    bool                 `json:"cache,omitempty"`   // and there is a /etc/ld.so.cache in it
	NoCache  bool                 `json:"noCache,omitempty"` // there was none before
	Conf     bool                 `json:"conf,omitempty"`    // /etc/ld.so.conf is ours
	Heads    []string             `json:"heads,omitempty"`   // files that it led to, and that may begin with a line of ours
	Musl     map[string]pathFile  `json:"musl,omitempty"`    // by path
	// Displaced is what gave way to other files of ours, by path.
	Displaced map[string]displaced `json:"displaced,omitempty"`

	store         Store
	saved         []byte    // what it has
	savedLifetime *Lifetime // and whose it is there
}

const journalVersion = 2

// MaxJournal bounds a journal, in bytes.
const MaxJournal = 32 << 20

// A displaced is a file of the image's: the text of the link that it was, or its
// contents and attributes.
type displaced struct {
	Link *string `json:"link,omitempty"`
	Data []byte  `json:"data,omitempty"`
	inroot.Attr
}

// A mountFile is an empty file, and the text of the link that gave way to it.
type mountFile struct {
	Was *string `json:"was,omitempty"`
}

// An ownLink is a link of ours: the texts it may have (two while it is being
// changed), and that of the image's own link before, nil for none. SONAME says
// that no hook file named it: it leads to a library that is beside it.
type ownLink struct {
	Texts  []string `json:"texts"`
	Was    *string  `json:"was,omitempty"`
	SONAME bool     `json:"soname,omitempty"`
}

// A pathFile is a path file of musl's that we wrote: what it was, nil for
// absent, and what we may have written; the text of the link that gave way to it,
// nil for none. Contents are the image's own bytes.
type pathFile struct {
	Was []byte `json:"was"`
	inroot.Attr
	Link  *string  `json:"link,omitempty"`
	Wrote [][]byte `json:"wrote"`
}

func (p pathFile) isOurs(data []byte) bool {
	return slices.ContainsFunc(p.Wrote, func(w []byte) bool { return bytes.Equal(w, data) })
}

func newJournal(store Store) *journal {
	return &journal{Points: map[string]mountFile{}, Links: map[string]ownLink{}, Musl: map[string]pathFile{}, Displaced: map[string]displaced{}, store: store}
}

func readJournal(store Store) (*journal, error) {
	data, err := store.Read()
	if errors.Is(err, fs.ErrNotExist) {
		j := newJournal(store)
		j.Version = journalVersion
		return j, nil
	}
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	j := newJournal(store)
	err = json.Unmarshal(data, j)
	switch _, syntax := errors.AsType[*json.SyntaxError](err); {
	case syntax:
		return nil, fmt.Errorf("journal %s: not JSON: %w", store.Name(), err)
	case j.Version != journalVersion:
		return nil, fmt.Errorf("journal %s has version %d, this cdi-hook reads version %d", store.Name(), j.Version, journalVersion)
	case err != nil:
		return nil, fmt.Errorf("journal %s: %w", store.Name(), err)
	}
	j = j.each(unquoted)
	j.saved, j.savedLifetime = data, j.Lifetime
	return j, nil
}

// save writes the journal if it changed: old or new, never mixed. An empty one
// that was never written stays unwritten.
func (j *journal) save() error {
	data, err := json.Marshal(j.each(quoted))
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	data = append(data, '\n')
	if bytes.Equal(data, j.saved) || j.saved == nil && j.isEmpty() {
		return nil
	}
	if len(data) > MaxJournal {
		return fmt.Errorf("journal %s would have %d bytes, the limit is %d", j.store.Name(), len(data), MaxJournal)
	}
	if err := j.store.Write(data); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.saved, j.savedLifetime = data, j.Lifetime
	return nil
}

// onlyItsLifetime reports whether nothing else of the journal is to be saved.
func (j *journal) onlyItsLifetime() bool {
	as := *j
	as.Lifetime = j.savedLifetime
	data, err := json.Marshal(as.each(quoted))
	return err == nil && bytes.Equal(append(data, '\n'), j.saved)
}

func (j *journal) isEmpty() bool {
	return len(j.Points)+len(j.Dirs)+len(j.Links)+len(j.Musl) == 0 && !j.Linker
}

func (j *journal) remove() error {
	if err := j.store.Remove(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// addDirs notes directories. Sorted by name, parents come first.
func (j *journal) addDirs(dirs []string) {
	j.Dirs = append(j.Dirs, dirs...)
	slices.Sort(j.Dirs)
	j.Dirs = slices.Compact(j.Dirs)
}

// addLink notes that the link p shall have this text; was is the text of the
// link that is there now, nil for none.
func (j *journal) addLink(p, text string, was *string, soname bool) {
	l := j.Links[p]
	if was != nil && !slices.Contains(l.Texts, *was) {
		l.Was = was // the image's own, or what somebody made of ours
	}
	if !slices.Contains(l.Texts, text) {
		l.Texts = append(l.Texts, text)
	}
	l.SONAME = soname
	j.Links[p] = l
}

// settle forgets texts that were replaced.
func (j *journal) settle(p, text string) {
	if l, ok := j.Links[p]; ok && len(l.Texts) > 1 {
		l.Texts = []string{text}
		j.Links[p] = l
	}
}

// each is a copy of the journal in which f was called for every text that an image
// can choose.
func (j *journal) each(f func(string) string) *journal {
	out := *j
	was := func(p *string) *string {
		if p == nil {
			return nil
		}
		t := f(*p)
		return &t
	}
	out.Points, out.Links, out.Musl = map[string]mountFile{}, map[string]ownLink{}, map[string]pathFile{}
	out.Displaced = map[string]displaced{}
	out.Heads = nil
	for _, p := range j.Heads {
		out.Heads = append(out.Heads, f(p))
	}
	for p, m := range j.Points {
		m.Was = was(m.Was)
		out.Points[p] = m
	}
	for p, l := range j.Links {
		texts := make([]string, len(l.Texts))
		for i, t := range l.Texts {
			texts[i] = f(t)
		}
		out.Links[f(p)] = ownLink{Texts: texts, Was: was(l.Was), SONAME: l.SONAME}
	}
	for p, m := range j.Musl {
		m.Link = was(m.Link)
		out.Musl[p] = m
	}
	for p, d := range j.Displaced {
		d.Link = was(d.Link)
		out.Displaced[p] = d
	}
	return &out
}

// quoted is a text as JSON can have it: as Go quotes it where it is no UTF-8 or
// looks quoted already.
func quoted(s string) string {
	if utf8.ValidString(s) && !strings.HasPrefix(s, `"`) {
		return s
	}
	return strconv.QuoteToASCII(s)
}

func unquoted(s string) string {
	if !strings.HasPrefix(s, `"`) {
		return s
	}
	if t, err := strconv.Unquote(s); err == nil {
		return t
	}
	return s // of a version that did not quote
}
