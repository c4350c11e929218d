package machine

import (
	"context"
	"errors"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"gpurig/core/host"
	"gpurig/core/show"
	"gpurig/fakehw/disk"
	"gpurig/fakehw/fusefs"
	"gpurig/fakehw/live"
	"gpurig/fakehw/tree"
)

// A server is what answers for a machine, outside of it.
type server struct {
	h      *live.Host
	o      Options
	area   int // the staging area
	mknod  bool
	kernel *kernel
	fds    []int // of real directories
	fuse   *fusefs.Served
	events *kobjects // nil: none are sent
	live   string    // folder of the staging area that is /run/gpurig
	first  *process
	up     chan struct{} // closed when the command runs
	done   chan struct{}
	ended  chan struct{} // closed when the machine is given up

	stop    context.CancelFunc // ends what serves the sockets
	serving sync.WaitGroup
}

// newServer returns the server of h, which keeps what happens to the host from
// now on.
func newServer(h *live.Host, o Options, first *process) (*server, error) {
	kernel, err := newKernel()
	if err != nil {
		return nil, err
	}
	var events *kobjects
	if o.Uevents {
		if events, err = sendUevents(h); err != nil {
			return nil, err
		}
	}
	s := &server{h: h, o: o, events: events, area: -1, kernel: kernel, first: first, up: make(chan struct{}), done: make(chan struct{}, 1), ended: make(chan struct{})}
	h.Watch(s.follow)
	return s, nil
}

// A plan is what will be staged, if nothing is in the way.
type plan struct {
	staging *staging
	err     error
}

// plan finds out what has to be staged.
func (s *server) plan(m host.Model) <-chan plan {
	out := make(chan plan, 1)
	go func() {
		st, err := stage(s.h, m, s.o)
		out <- plan{st, err}
	}()
	return out
}

// close gives everything up. Changes of the host are not followed any more.
func (s *server) close() {
	close(s.ended)
	if s.events != nil {
		s.events.close()
	}
	if s.stop != nil {
		s.stop()
		s.serving.Wait()
	}
	for _, fd := range s.fds {
		unix.Close(fd)
	}
	if s.area >= 0 {
		unix.Close(s.area)
	}
	s.kernel.close()
}

func (s *server) directory(p string) (int, error) {
	fd, err := unix.Open(p, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return -1, nil
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: p, Err: err}
	}
	s.fds = append(s.fds, fd)
	return fd, nil
}

// files makes the live files. Whoever makes one may look at the host.
func (s *server) files(m host.Model) <-chan map[string][]byte {
	out := make(chan map[string][]byte, 1)
	go func() {
		files := map[string][]byte{}
		for name, make := range s.o.Live {
			files[name] = make(m)
		}
		out <- files
	}()
	return out
}

// serve answers on the FUSE connection.
func (s *server) serve(conn int, mknod bool) (*fusefs.Served, error) {
	s.mknod = mknod
	u := fusefs.Union{Tree: s.h.Tree(), Lock: s.h.Locker(), Write: s.h.Write, OneOwner: s.first.user, Branches: map[string]fusefs.Branch{}, Files: map[string]func() []byte{}}
	sys, err := newSysView()
	if err != nil {
		unix.Close(conn)
		return nil, err
	}
	branches := map[string]fusefs.Branch{
		"sys":    {Sub: "/sys", Merge: sys.merge, Hide: sys.hide, Deny: sys.deny},
		"driver": {Sub: "/proc/driver", Point: pointName, Merge: func(rel string) bool { return rel == "" }, Hide: func(rel string) bool { return strings.HasPrefix(rel, "nvidia") }},
	}
	reals := map[string]string{"sys": "/sys", "driver": "/proc/driver"}
	if !s.mknod {
		branches["dev"] = fusefs.Branch{Sub: "/dev", Merge: func(rel string) bool { return rel == "" || rel == "char" }, Hide: func(rel string) bool { return gpuPath("/dev/" + rel) }}
		reals["dev"] = "/dev"
	}
	for _, name := range slices.Sorted(maps.Keys(branches)) {
		b := branches[name]
		if b.Real, err = s.directory(reals[name]); err != nil {
			unix.Close(conn)
			return nil, err
		}
		u.Branches[name] = b
	}
	for p, make := range procFiles(s.h) {
		u.Files[procName(p)] = make
	}
	s.fuse, err = u.Serve(conn)
	return s.fuse, err
}

// procName is the name of a file of /proc at the top of the FUSE mount.
func procName(p string) string {
	return "proc" + strings.ReplaceAll(strings.TrimPrefix(p, "/proc"), "/", ".")
}

// stage fills the staging area and says what to do with it.
func (s *server) stage(ctx context.Context, st *staging, live <-chan map[string][]byte) (*setup, error) {
	missing, err := disk.WriteAt(ctx, st.t, s.area, disk.Options{})
	if err != nil {
		return nil, err
	}
	report(s.o.Warn, missing)
	out := st.setup
	if s.mknod {
		if out.NoDev, err = s.dev(ctx); err != nil {
			return nil, err
		}
	}
	if none := lacking(s.h); len(none) > 0 {
		show.Fprintf(s.o.Warn, "left out: %s: this machine's kernel has none, and nothing can be added to /proc\n", strings.Join(none, ", "))
	}
	s.live, out.Live = st.live, st.live
	if err := s.sockets(ctx); err != nil {
		return nil, err
	}
	for name, data := range <-live {
		if err := s.rewrite(name, data); err != nil {
			return nil, err
		}
	}
	slices.Sort(out.Overlays)
	for _, a := range out.Annexes {
		if everybodys(a.Dir) {
			show.Fprintf(s.o.Warn, "%s has files of the host here: new files in it are removed with the machine%s\n", a.Dir, insteadOf(st.t, a))
		}
	}
	out.Binds = []bind{{"sys", "/sys"}, {"driver", "/proc/driver"}}
	for _, p := range slices.Sorted(maps.Keys(procFiles(s.h))) {
		out.Binds = append(out.Binds, bind{procName(p), p})
	}
	out.Release = s.h.Model().Kernel
	out.Command, out.Env = s.o.Command, withSysfs(s.o.Env)
	if out.Dir, err = os.Getwd(); err != nil {
		out.Dir = "/"
	}
	return out, nil
}

// withSysfs tells libsystemd, and with it udevadm, to take the machine's /sys for
// one. It refuses devices below any /sys that is no sysfs, as FUSE is none
// (device_set_syspath in sd-device.c, "SYSTEMD_DEVICE_VERIFY_SYSFS" in systemd's
// ENVIRONMENT.md). A user's own word stands.
func withSysfs(env []string) []string {
	const name = "SYSTEMD_DEVICE_VERIFY_SYSFS="
	if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name) }) {
		return env
	}
	return append(slices.Clip(env), name+"0")
}

// dev makes the host's nodes and their links in the folder dev of the staging area,
// and lists those that lead to a device of the machine itself.
func (s *server) dev(ctx context.Context) (denied []string, err error) {
	s.h.Locker().Lock()
	defer s.h.Locker().Unlock()
	missing, err := disk.WriteAt(ctx, s.h.Tree(), s.area, disk.Options{Mknod: true, Only: hostsOwn})
	if err != nil {
		return nil, err
	}
	report(s.o.Warn, missing)
	top, err := s.h.Tree().Entry("/dev")
	if err != nil {
		return nil, err
	}
	return s.denied("/dev", top.Children), nil
}

// denied lists the nodes among entries, and below the directories among them, whose
// number the machine itself has. Keys are paths below dir.
func (s *server) denied(dir string, entries map[string]*tree.Entry) []string {
	var out []string
	taken := s.kernel.taken()
	eachOwn(dir, entries, func(dir, name string, e *tree.Entry) {
		if e.IsDevice() && taken(nodeNumber{e.DeviceType(), e.Num}) {
			out = append(out, path.Join(dir, name))
		}
	})
	slices.Sort(out)
	return out
}

// follow makes the machine what the host has become. A change that comes before
// the machine is up waits until it is.
func (s *server) follow(e live.Event) {
	select {
	case <-s.ended:
		return
	default:
	}
	select {
	case <-s.up:
		s.show(e)
	case <-s.ended:
	}
}

func (s *server) show(e live.Event) {
	s.fuse.Changed(e.Changes)
	if s.mknod {
		if err := s.nodes(e.Changes); err != nil {
			show.Fprintf(s.o.Warn, "device nodes: %v\n", err)
		}
	}
	if s.events != nil {
		if err := s.events.changed(s.h, e.Changes); err != nil {
			show.Fprintf(s.o.Warn, "%v\n", err)
		}
	}
	for name, make := range s.o.Live {
		if err := s.rewrite(name, make(e.Model)); err != nil {
			show.Fprintf(s.o.Warn, "%s: %v\n", name, err)
		}
	}
}

// nodes adds and removes device nodes. Where one of them is bound to keep it from
// being opened, removing it takes the bind away, since we are outside.
func (s *server) nodes(changes []tree.Change) error {
	var errs []error
	entries := map[string]*tree.Entry{}
	now := map[string]*tree.Entry{}
	s.h.Locker().Lock()
	if top, err := s.h.Tree().Entry("/dev"); err == nil {
		eachOwn("/dev", top.Children, func(dir, name string, e *tree.Entry) {
			now[dir+"/"+name] = &tree.Entry{Info: e.Info, Target: e.Target} // the host's changes
		})
	}
	s.h.Locker().Unlock()
	for _, c := range slices.Backward(changes) { // what is in a directory before it
		if c.Kind == tree.Removed && strings.HasPrefix(c.Path, "/dev/") {
			errs = append(errs, s.remove(c.Path))
		}
	}
	for _, c := range changes {
		if e := now[c.Path]; e != nil && c.Kind != tree.Removed {
			entries[c.Path] = e
		}
	}
	if len(entries) == 0 {
		return errors.Join(errs...)
	}
	for _, p := range slices.Sorted(maps.Keys(entries)) {
		errs = append(errs, s.place(p, entries[p]))
	}
	if denied := s.denied("", entries); len(denied) > 0 {
		if err := s.first.w.send(message{NoDev: denied}); err != nil {
			return err
		}
		select {
		case <-s.done:
		case <-s.first.gone:
		}
	}
	return errors.Join(errs...)
}

func (s *server) remove(p string) error {
	err := unix.Unlinkat(s.area, p[1:], 0)
	if err == unix.EISDIR {
		err = unix.Unlinkat(s.area, p[1:], unix.AT_REMOVEDIR)
	}
	if err == unix.ENOENT || err == unix.ENOTEMPTY { // never there; a directory that is not ours alone
		return nil
	}
	return wrapPath("remove", p, err)
}

func wrapPath(op, p string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: p, Err: err}
}

func (s *server) place(p string, e *tree.Entry) error {
	if err := s.mkdirs(path.Dir(p)); err != nil {
		return err
	}
	at := p[1:]
	switch {
	case e.IsLink():
		if err := s.remove(p); err != nil {
			return err
		}
		return wrapPath("symlink", p, unix.Symlinkat(e.Target, s.area, at))
	case e.Mode.IsDir():
		return s.mkdirs(p)
	case !e.IsDevice():
		return nil
	}
	n := node(p, e)
	kind := uint32(unix.S_IFBLK)
	if e.Mode&os.ModeCharDevice != 0 {
		kind = unix.S_IFCHR
	}
	err := unix.Mknodat(s.area, at, kind|uint32(n.Mode), int(unix.Mkdev(n.Num.Major, n.Num.Minor)))
	if err != nil && err != unix.EEXIST {
		return wrapPath("mknod", p, err)
	}
	if err := unix.Fchmodat(s.area, at, uint32(n.Mode), 0); err != nil { // the umask took some
		return wrapPath("chmod", p, err)
	}
	return wrapPath("chown", p, unix.Fchownat(s.area, at, int(n.UID), int(n.GID), unix.AT_SYMLINK_NOFOLLOW))
}

func (s *server) mkdirs(dir string) error {
	if dir == "/" {
		return nil
	}
	if err := s.mkdirs(path.Dir(dir)); err != nil {
		return err
	}
	err := unix.Mkdirat(s.area, dir[1:], 0o755)
	if err == unix.EEXIST {
		return nil
	}
	if err == nil {
		err = unix.Fchmodat(s.area, dir[1:], 0o755, 0) // the umask took some
	}
	return wrapPath("mkdir", dir, err)
}

// rewrite replaces a live file at once, so that no reader sees half of it.
func (s *server) rewrite(name string, data []byte) error {
	tmp, to := s.live+"/."+name, s.live+"/"+name
	fd, err := unix.Openat(s.area, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return wrapPath("create", tmp, err)
	}
	f := os.NewFile(uintptr(fd), tmp)
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return wrapPath("rename", to, unix.Renameat(s.area, tmp, s.area, to))
}
