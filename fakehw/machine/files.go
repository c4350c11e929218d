package machine

import (
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/fakehw/live"
	"gpurig/fakehw/tree"
)

// overlaid are the real directories that get a layer of files. In every other
// directory further entries stand among the real ones.
var overlaid = []string{"/usr", "/etc", "/lib", "/lib64", "/opt"}

// A staging area is a tmpfs: what is in it, and how it is used.
type staging struct {
	mknod   bool       // nodes can be made
	t       *tree.Tree // folders: upper/usr, work/usr, annex/0, dev
	host    *tree.Tree
	files   map[string][]byte
	dirs    map[string]place // of the host's directories
	setup   *setup
	annexes map[string]string // real directory -> folder
	live    string            // folder that is /run/gpurig
	err     error
}

// A place is where a directory of the host is on the machine.
type place struct {
	real   string // without links
	exists string // the deepest directory of it that is there
}

// stage says what the staging area has for a host. It keeps nothing of the host's
// tree but entries that do not change.
func stage(h *live.Host, m host.Model, o Options, mknod bool) (*staging, error) {
	h.Locker().Lock()
	defer h.Locker().Unlock()
	s := &staging{mknod: mknod, t: tree.New(), host: h.Tree(), files: o.Files, dirs: map[string]place{}, setup: &setup{}, annexes: map[string]string{}}
	if mknod {
		s.dev()
	}
	err := s.host.Walk(func(p string, e *tree.Entry) error {
		if p == "/sys" || p == "/proc" || p == "/dev" {
			return fs.SkipDir
		}
		if data, ok := o.Files[p]; ok && e.Mode.IsRegular() {
			e = &tree.Entry{Info: e.Info, Data: data}
			e.Size = int64(len(data))
		}
		s.entry(p, e)
		return s.err
	})
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Sorted(maps.Keys(o.Files)) {
		if _, err := s.host.Lstat(p); err != nil {
			s.entry(p, &tree.Entry{Info: host.Info{Mode: 0o755, Size: int64(len(o.Files[p]))}, Data: o.Files[p]})
		}
	}
	s.run(o)
	s.cache(m)
	return s, s.err
}

// run makes /run/gpurig, whose files and sockets come later.
func (s *staging) run(o Options) {
	if len(o.Live)+len(o.Serve) == 0 {
		return
	}
	run := s.place("/run").exists
	at := place{run + "/gpurig", run}
	s.live = strings.TrimPrefix(s.folder(at.real, at), "/")
	s.put(at.real, &tree.Entry{Info: host.Info{Mode: fs.ModeDir | 0o755}}, at)
}

func (s *staging) do(err error) {
	if s.err == nil {
		s.err = err
	}
}

// place finds a directory of the host on the machine, links followed.
func (s *staging) place(dir string) place {
	if dir == "/" {
		return place{"/", "/"}
	}
	if p, ok := s.dirs[dir]; ok {
		return p
	}
	up := s.place(path.Dir(dir))
	p := place{path.Join(up.real, path.Base(dir)), up.exists}
	if up.exists == up.real {
		var st unix.Stat_t
		if err := unix.Stat(p.real, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			if real, err := realPath(p.real); err == nil {
				p = place{real, real}
			}
		}
	}
	s.dirs[dir] = p
	return p
}

// realPath follows every link of a path of the machine.
func realPath(p string) (string, error) {
	fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
}

// entry puts one entry of the host in its place. What the machine has itself
// stays, unless it is the driver's.
func (s *staging) entry(p string, e *tree.Entry) {
	at := s.place(path.Dir(p))
	real := path.Join(at.real, path.Base(p))
	var st unix.Stat_t
	err := unix.Lstat(real, &st)
	switch {
	case e.Mode.IsDir():
		if err == nil || len(e.Children) > 0 {
			return // it comes with what is in it
		}
	case err == nil && (!drivers(p) || st.Mode&unix.S_IFMT == unix.S_IFDIR):
		return
	}
	s.put(real, e, at)
}

// drivers reports whether a file of the host takes the place of one that the
// machine has.
func drivers(p string) bool {
	if p == "/etc/os-release" {
		return true
	}
	for _, word := range []string{"nvidia", "cuda", "nvcuvid", "nvoptix", "nv_tegra", "/tegra", "cufile", "/etc/cdi/", "nv-fabricmanager"} {
		if strings.Contains(p, word) {
			return true
		}
	}
	return false
}

// put adds an entry at the real path p to the staging area.
func (s *staging) put(p string, e *tree.Entry, at place) {
	to := s.folder(p, at)
	if to == "" {
		return
	}
	s.parents(path.Dir(p), path.Dir(to))
	switch {
	case e.Mode.IsDir():
		s.do(s.t.Mkdir(to, e.Mode.Perm()))
	case e.Mode.IsRegular():
		s.do(s.t.WriteFile(to, e.Data, e.Mode.Perm()))
	case e.IsLink():
		s.do(s.t.Symlink(to, e.Target))
	case e.Mode&fs.ModeSocket != 0:
		s.do(s.t.Socket(to, e.Mode.Perm()))
	case e.Mode&fs.ModeNamedPipe != 0:
		s.do(s.t.Fifo(to, e.Mode.Perm()))
	}
}

// folder returns where in the staging area the real path p is, and notes how
// that is shown.
func (s *staging) folder(p string, at place) string {
	for _, dir := range overlaid {
		if !strings.HasPrefix(p, dir+"/") || !strings.HasPrefix(at.exists+"/", dir+"/") {
			continue
		}
		if !slices.Contains(s.setup.Overlays, dir) {
			s.setup.Overlays = append(s.setup.Overlays, dir)
			s.do(s.t.Mkdir("/work"+dir, 0o755))
			s.parents(dir, "/upper"+dir)
		}
		return "/upper" + p
	}
	dir, ok := s.annexes[at.exists]
	if !ok {
		dir = "annex/" + strconv.Itoa(len(s.annexes))
		s.annexes[at.exists] = dir
		s.setup.Annexes = append(s.setup.Annexes, annex{Dir: at.exists, Stage: dir})
		s.parents(at.exists, "/"+dir)
	}
	rest, _ := below1(p, at.exists)
	return "/" + dir + "/" + rest
}

// below1 returns where p is below dir.
func below1(p, dir string) (string, bool) {
	return strings.CutPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// parents makes the folder to with mode and owner of the real directory dir, and
// those above it.
func (s *staging) parents(dir, to string) {
	if _, err := s.t.Lstat(to); err == nil || to == "/" {
		return
	}
	if up := path.Dir(to); up != "/upper" && up != "/annex" {
		s.parents(path.Dir(dir), up)
	}
	mode, uid, gid := fs.FileMode(0o755), uint32(0), uint32(0)
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err == nil {
		mode, uid, gid = fs.FileMode(st.Mode&0o777), st.Uid, st.Gid
	}
	s.do(s.t.Mkdir(to, mode))
	s.do(s.t.Chown(to, uid, gid))
}

// dev puts the host's nodes and their links into the folder dev.
func (s *staging) dev() {
	s.setup.Dev = true
	s.do(s.t.Mkdir("/dev", 0o755))
	for p, e := range ownDev(s.host) {
		s.do(s.t.Graft(p, e))
	}
}

// ownDev yields what of /dev is the host's own: its nodes, folders of such, and the
// links to them.
func ownDev(t *tree.Tree) iter.Seq2[string, *tree.Entry] {
	return func(yield func(string, *tree.Entry) bool) {
		top, err := t.Entry("/dev")
		if err != nil {
			return
		}
		for name, e := range top.Children {
			if host.IsGPUNode(name) && !yield("/dev/"+name, e) {
				return
			}
		}
		for _, dir := range []string{"char", "block"} {
			d := top.Children[dir]
			if d == nil {
				continue
			}
			for name, e := range d.Children {
				to, up := strings.CutPrefix(e.Target, "../")
				to, _, _ = strings.Cut(to, "/")
				if up && host.IsGPUNode(to) && !yield("/dev/"+dir+"/"+name, e) {
					return
				}
			}
		}
	}
}

// eachLeaf calls f for all below e that has nothing below it, and for e if it is so.
func eachLeaf(p string, e *tree.Entry, f func(p string, e *tree.Entry)) {
	if !e.Mode.IsDir() || len(e.Children) == 0 {
		f(p, e)
	}
	for name, child := range e.Children {
		eachLeaf(p+"/"+name, child, f)
	}
}

func node(p string, e *tree.Entry) device.Node {
	return device.Node{Path: p, Type: e.DeviceType(), Num: e.Num, Mode: e.Mode.Perm(), UID: e.UID, GID: e.GID}
}
