package scenarios

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/strictdoc"
)

// A Content is what the root of a container has on top of its image, or lacks of it.
// It is put there in the order of the fields, and within one by path. Links in the
// folders of a path are followed, inside the root; folders that are missing are made.
// The zero Content is the image as it is.
type Content struct {
	Remove    []string           `yaml:"remove,omitempty" json:"remove,omitempty"`       // of the image, with all below
	Move      map[string]string  `yaml:"move,omitempty" json:"move,omitempty"`           // of the image, to another path: what a link then leads to
	Links     map[string]string  `yaml:"links,omitempty" json:"links,omitempty"`         // text of the link, by path
	Dirs      []string           `yaml:"dirs,omitempty" json:"dirs,omitempty"`           // 0755
	Files     map[string]string  `yaml:"files,omitempty" json:"files,omitempty"`         // text, by path; 0644
	Libraries map[string]Library `yaml:"libraries,omitempty" json:"libraries,omitempty"` // by path; 0644
	Sockets   []string           `yaml:"sockets,omitempty" json:"sockets,omitempty"`     // 0666
	FIFOs     []string           `yaml:"fifos,omitempty" json:"fifos,omitempty"`         // 0666
	Modes     map[string]string  `yaml:"modes,omitempty" json:"modes,omitempty"`         // octal, by path; links are followed
	Owners    map[string]string  `yaml:"owners,omitempty" json:"owners,omitempty"`       // "UID:GID" in the container, by path; links are not followed
}

// A Library is a small real shared object, which loaders load. In the folder
// glibc-hwcaps/LEVEL of another it is the one for that level.
type Library struct {
	SONAME  string `yaml:"soname,omitempty" json:"soname,omitempty"`                               // empty: it has none
	Version string `yaml:"version,omitempty" json:"version,omitempty"`                             // a text in it, so that two differ: "999.99"
	Machine string `yaml:"machine,omitempty" json:"machine,omitempty" words:"x86_64 aarch64 i386"` // as uname -m; empty: x86_64
	Class   string `yaml:"class,omitempty" json:"class,omitempty" words:"32 64"`                   // width of addresses; empty: that of the machine. 32 on x86_64 is x32
}

// Empty reports whether c leaves an image as it is.
func (c Content) Empty() bool {
	return len(c.Remove)+len(c.Move)+len(c.Links)+len(c.Dirs)+len(c.Files)+len(c.Libraries)+len(c.Sockets)+len(c.FIFOs)+len(c.Modes)+len(c.Owners) == 0
}

// A ContentError says which part of a Content an image cannot have.
type ContentError struct {
	Key  string // "links"
	Path string // as it stands under that key
	Err  error
}

func (e *ContentError) Error() string {
	return "content: " + e.Key + ": " + e.Path + ": " + e.Err.Error()
}

func (e *ContentError) Unwrap() error { return e.Err }

// mountedOver are the folders that every container has for itself: what an image has
// there is never seen.
var mountedOver = []string{"/dev", "/proc", "/sys"}

// content checks what stands in one Content, and then that the images have room for it.
func (c *checker) content(name string, ctr Container, w strictdoc.Path) {
	ct := ctr.Content
	if ctr.VM && !ct.Empty() {
		c.At(w, "", "a virtual machine has no image")
	}
	made := map[string]string{}
	one := func(key, p string, at strictdoc.Path, report func(strictdoc.Path, string, string, ...any)) {
		problem := pathProblem(p)
		if problem == "" {
			problem = contentProblem(p)
		}
		if problem != "" {
			report(at, "", "path %q %s", p, problem)
		} else if other, twice := made[p]; twice {
			report(at, "Keep one of the two.", "%q is made twice: by %s and by %s", p, other, key)
		}
		made[p] = key
	}
	listed := func(key string, ps []string) {
		for i, p := range ps {
			one(key, p, w.Key(key).Item(i), c.At)
		}
	}
	keyed := func(key string, p string) { one(key, p, w.Key(key).Key(p), c.AtKey) }
	for p, target := range ct.Links {
		keyed("links", p)
		if target == "" || len(target) > 4095 || strings.ContainsRune(target, 0) {
			c.At(w.Key("links").Key(p), "", "no link can have this text: want 1 to 4095 bytes, none of them zero")
		}
	}
	listed("dirs", ct.Dirs)
	for p := range ct.Files {
		keyed("files", p)
	}
	for p, l := range ct.Libraries {
		keyed("libraries", p)
		c.library(l, w.Key("libraries").Key(p))
	}
	listed("sockets", ct.Sockets)
	listed("fifos", ct.FIFOs)
	for from, to := range ct.Move {
		c.path(to, w.Key("move").Key(from))
	}
	pathKeys(c, ct.Move, w.Key("move"))
	c.paths(ct.Remove, w.Key("remove"))
	pathKeys(c, ct.Modes, w.Key("modes"))
	for p, m := range ct.Modes {
		c.mode(m, w.Key("modes").Key(p))
	}
	pathKeys(c, ct.Owners, w.Key("owners"))
	for p, o := range ct.Owners {
		if _, _, ok := ParseOwner(o); !ok {
			c.At(w.Key("owners").Key(p), "", "owner %q: want UID:GID, two numbers from 0 to 65535", o)
		}
	}
	if c.opts.Content == nil || c.Err() != nil {
		return
	}
	for _, kind := range c.imagesOf(ctr) {
		if err := c.opts.Content(kind, ct); err != nil {
			c.At(c.contentPlace(w, ct, err), "", "%s: %v", name, err)
			return
		}
	}
}

// contentPlace is where the part stands that an image cannot have.
func (c *checker) contentPlace(w strictdoc.Path, ct Content, err *ContentError) strictdoc.Path {
	at := w.Key(err.Key)
	for key, ps := range map[string][]string{"remove": ct.Remove, "dirs": ct.Dirs, "sockets": ct.Sockets, "fifos": ct.FIFOs} {
		if key == err.Key {
			return at.Item(slices.Index(ps, err.Path))
		}
	}
	return at.Key(err.Path)
}

func contentProblem(p string) string {
	for _, dir := range mountedOver {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			return "is never seen: each container has its own " + dir
		}
	}
	for _, name := range strings.Split(p, "/") {
		switch {
		case len(name) > 255:
			return "has a name of more than 255 bytes"
		case strings.ContainsRune(name, 0):
			return "has a zero byte"
		case strings.HasPrefix(name, ".wh."):
			return `has a name that begins with ".wh.", which says in a layer that a file is gone`
		}
	}
	return ""
}

func (c *checker) library(l Library, w strictdoc.Path) {
	if l.SONAME != "" && (!isName(l.SONAME, "._+-", 255) || path.Base(l.SONAME) != l.SONAME) {
		c.At(w.Key("soname"), "", "SONAME %q: want a file name of letters, digits, \".\", \"_\", \"+\" and \"-\"", l.SONAME)
	}
	if len(l.Version) > 64 || strings.ContainsFunc(l.Version, func(r rune) bool { return r < '!' || r > '~' }) {
		c.At(w.Key("version"), "", "version %q: want at most 64 letters, digits and marks", l.Version)
	}
	if l.Class == "64" && l.Machine == "i386" || l.Class == "32" && l.Machine == "aarch64" {
		c.At(w.Key("class"), "", "there are no libraries of %s bits for %s", l.Class, l.Machine)
	}
}

// ParseOwner reads "UID:GID".
func ParseOwner(s string) (uid, gid uint32, ok bool) {
	u, g, ok := strings.Cut(s, ":")
	a, err := strconv.ParseUint(u, 10, 16)
	b, gerr := strconv.ParseUint(g, 10, 16)
	return uint32(a), uint32(b), ok && err == nil && gerr == nil
}

// ldconfig reports a container that has none.
func (c *checker) ldconfig(name string, w strictdoc.Path) {
	ctr, ok := c.s.Containers[name]
	switch {
	case !ok:
		return
	case ctr.VM:
		c.At(w, "", "%q is a virtual machine, in which nothing runs", name)
		return
	case c.opts.Ldconfig == nil:
		return
	}
	for _, kind := range c.imagesOf(ctr) {
		if !c.opts.Ldconfig(kind) {
			c.At(w, "Images of glibc have one, but for glibc-old.", "the image %s of %q has no ldconfig", kind, name)
			return
		}
	}
}

// imagesOf are the kinds that a container's image is, one by one.
func (c *checker) imagesOf(ctr Container) []string {
	switch {
	case c.s.Matrix.Image != nil:
		return c.s.Matrix.Image
	case ctr.Image == "":
		return []string{DefaultImage}
	}
	return []string{ctr.Image}
}
