package machine

import (
	"io/fs"
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
	t       *tree.Tree // folders: upper/usr, work/usr, annex/0
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

// stage says what the staging area has for a host besides its nodes. It keeps nothing
// of the host's tree but entries that do not change.
func stage(h *live.Host, m host.Model, o Options) (*staging, error) {
	h.Locker().Lock()
	defer h.Locker().Unlock()
	s := &staging{t: tree.New(), host: h.Tree(), files: o.Files, dirs: map[string]place{}, setup: &setup{}, annexes: map[string]string{}}
	err := s.host.Walk(func(p string, e *tree.Entry) error {
		if p == "/sys" || p == "/proc" || p == "/dev" || p == "/boot" && s.place(p).exists != p {
			return fs.SkipDir // a machine without /boot has no place for more in it
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
		s.do(s.t.Mkdir(to, e.Mode&host.Bits))
	case e.Mode.IsRegular():
		s.do(s.t.WriteFile(to, e.Data, e.Mode&host.Bits))
	case e.IsLink():
		s.do(s.t.Symlink(to, e.Target))
	case e.Mode&fs.ModeSocket != 0:
		s.do(s.t.Socket(to, e.Mode&host.Bits))
	case e.Mode&fs.ModeNamedPipe != 0:
		s.do(s.t.Fifo(to, e.Mode&host.Bits))
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

// hostsOwn reports whether what is in a directory of the host is its own to have on
// a machine, of /dev: its nodes, folders of such, and the links to them.
func hostsOwn(dir, name string, e *tree.Entry) bool {
	switch dir {
	case "/":
		return name == "dev"
	case "/dev":
		return host.IsGPUNode(name) || name == "char" || name == "block"
	case "/dev/char", "/dev/block":
		to, up := strings.CutPrefix(e.Target, "../")
		to, _, _ = strings.Cut(to, "/")
		return up && host.IsGPUNode(to)
	}
	return true
}

// eachOwn calls f for what is the host's own below dir and has nothing below it.
func eachOwn(dir string, entries map[string]*tree.Entry, f func(dir, name string, e *tree.Entry)) {
	for name, e := range entries {
		switch {
		case !hostsOwn(dir, name, e):
		case len(e.Children) > 0:
			eachOwn(dir+"/"+name, e.Children, f)
		default:
			f(dir, name, e)
		}
	}
}

func node(p string, e *tree.Entry) device.Node {
	return device.Node{Path: p, Type: e.DeviceType(), Num: e.Num, Mode: e.Mode & host.Bits, UID: e.UID, GID: e.GID}
}
