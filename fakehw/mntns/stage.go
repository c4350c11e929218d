package mntns

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/core/host"
	"gpurig/fakehw/disk"
	"gpurig/fakehw/fusefs"
	"gpurig/fakehw/tree"
)

// A stage is the child's scenery: where trees are set up, and the way back.
type stage struct {
	real   int    // the real root directory
	base   int    // our tmpfs
	mknod  bool   // device nodes can be made; else FUSE shows them
	mapped bool   // only one owner exists
	number int    // of the next set
	sets   []*set // what stands, least recently used first
	broken bool   // a handler panicked: serve no more
}

// maxSets is how many trees a child keeps set up. Their files are in memory.
const maxSets = 8

// A set is one tree that is set up.
type set struct {
	tree    *tree.Tree
	name    string // below base
	fd      int    // its root directory
	missing []disk.Missing
}

// newStage proves that the namespace is ours and mounts the tmpfs. Our tmpfs
// goes on top of "/" itself: this process keeps its root directory, which is
// what lies below, so no directory of the machine is covered or needed.
func newStage(parentNS string) (*stage, error) {
	if err := prove(parentNS); err != nil {
		return nil, err
	}
	real, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/", Err: err}
	}
	base, err := newTmpfs()
	if err != nil {
		return nil, err
	}
	if err := unix.MoveMount(base, "", real, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return nil, os.NewSyscallError("move_mount", err)
	}
	s := &stage{real: real, base: base}
	if s.mapped, err = mapped(); err != nil {
		return nil, err
	}
	// A device with a driver-less number, so that nothing can come of it.
	err = unix.Mknodat(base, "probe", unix.S_IFCHR|0o600, int(unix.Mkdev(240, 1)))
	s.mknod = err == nil
	switch {
	case err == nil:
		err = unix.Unlinkat(base, "probe", 0)
	case errors.Is(err, unix.EPERM):
		err = unix.Access("/dev/fuse", unix.R_OK|unix.W_OK)
		if err != nil {
			err = fmt.Errorf("device nodes need FUSE here: %w", &os.PathError{Op: "access", Path: "/dev/fuse", Err: err})
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// newTmpfs returns the descriptor of a tmpfs that is mounted nowhere yet.
func newTmpfs() (int, error) {
	fsfd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen tmpfs", err)
	}
	defer unix.Close(fsfd)
	for _, o := range [][2]string{{"source", fusefs.Name}, {"mode", "0755"}} {
		if err := unix.FsconfigSetString(fsfd, o[0], o[1]); err != nil {
			return -1, os.NewSyscallError("fsconfig "+o[0], err)
		}
	}
	if err := unix.FsconfigCreate(fsfd); err != nil {
		return -1, os.NewSyscallError("fsconfig create", err)
	}
	mnt, err := unix.Fsmount(fsfd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID)
	if err != nil {
		return -1, os.NewSyscallError("fsmount", err)
	}
	return mnt, nil
}

// mapped reports whether our user namespace knows a single owner only.
func mapped() (bool, error) {
	text, err := os.ReadFile("/proc/self/gid_map")
	if err != nil {
		return false, err
	}
	words := strings.Fields(string(text)) // inside, outside, count
	if len(words) < 3 {
		return false, fmt.Errorf("/proc/self/gid_map: %q is not understood", text)
	}
	n, err := strconv.ParseUint(words[2], 10, 32)
	return n == 1 && len(words) == 3, err
}

// answer builds the tree of a request, sets it up, and runs the handler in it.
func (s *stage) answer(ctx context.Context, kind string, request []byte) (reply []byte, err error) {
	h, ok := handler(kind)
	if !ok {
		return nil, ErrUnknownKind // parent and child are one program, so never
	}
	var t *tree.Tree
	if err := guard(&s.broken, func() (err error) { t, err = h.Build(request); return err }); err != nil {
		return nil, err
	}
	if t == nil {
		return nil, errors.New("no tree was built")
	}
	on, err := s.find(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := s.enter(on); err != nil {
		return nil, err
	}
	v := View{Tree: t, Missing: slices.Clone(on.missing)}
	err = guard(&s.broken, func() (err error) { reply, err = h.Run(ctx, v, request); return err })
	if back := s.leave(); back != nil {
		s.broken = true
		return nil, errors.Join(err, back)
	}
	return reply, err
}

// enter makes a set our root directory, and makes sure of it.
func (s *stage) enter(on *set) error {
	if err := unix.Fchdir(on.fd); err != nil {
		return os.NewSyscallError("fchdir", err)
	}
	if err := unix.Chroot("."); err != nil {
		return os.NewSyscallError("chroot", err)
	}
	var want, got unix.Stat_t
	if err := errors.Join(unix.Fstat(on.fd, &want), unix.Stat("/", &got)); err != nil {
		return err
	}
	if want.Dev != got.Dev || want.Ino != got.Ino {
		return errors.New("the root directory is not the tree's")
	}
	return nil
}

func (s *stage) leave() error {
	if err := unix.Fchdir(s.real); err != nil {
		return os.NewSyscallError("fchdir", err)
	}
	return os.NewSyscallError("chroot", unix.Chroot("."))
}

// find returns the set of t, which it sets up unless it stands already. The
// tree itself is the key: who builds an equal one anew gets a new set.
func (s *stage) find(ctx context.Context, t *tree.Tree) (*set, error) {
	if i := slices.IndexFunc(s.sets, func(have *set) bool { return have.tree == t }); i >= 0 {
		on := s.sets[i]
		s.sets = append(slices.Delete(s.sets, i, i+1), on)
		return on, nil
	}
	if len(s.sets) == maxSets {
		oldest := s.sets[0]
		s.sets = s.sets[1:]
		if err := s.strike(oldest); err != nil {
			return nil, err
		}
	}
	on, err := s.setUp(ctx, t)
	if err == nil {
		s.sets = append(s.sets, on)
	}
	return on, err
}

// setUp makes t ready to be entered.
func (s *stage) setUp(ctx context.Context, t *tree.Tree) (_ *set, err error) {
	s.number++
	on := &set{tree: t, name: strconv.Itoa(s.number)}
	if on.fd, err = newTmpfs(); err != nil {
		return nil, err
	}
	if err := s.attach(on); err != nil {
		unix.Close(on.fd)
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.strike(on))
		}
	}()
	var dirs []string
	if !s.mknod {
		dirs = deviceDirs(t)
	}
	on.missing, err = disk.WriteAt(ctx, t, on.fd, disk.Options{Mknod: s.mknod, Leave: dirs, Only: readHere})
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if err := s.mountDevices(ctx, on, dir); err != nil {
			return nil, err
		}
	}
	return on, nil
}

// attach mounts the set's tmpfs below ours.
func (s *stage) attach(on *set) error {
	if err := unix.Mkdirat(s.base, on.name, 0o755); err != nil {
		return os.NewSyscallError("mkdir", err)
	}
	return os.NewSyscallError("move_mount", unix.MoveMount(on.fd, "", s.base, on.name, unix.MOVE_MOUNT_F_EMPTY_PATH))
}

// mountDevices shows the tree's directory dir by FUSE.
func (s *stage) mountDevices(ctx context.Context, on *set, dir string) error {
	fd, err := unix.Openat2(on.fd, "."+dir, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	if _, err := fusefs.MountAt(ctx, on.tree, fd, fusefs.Options{Sub: dir}); err != nil {
		return err
	}
	if s.mapped {
		on.missing = append(on.missing, foreign(on.tree, dir)...)
	}
	return nil
}

// foreign lists what below dir belongs to an owner that we cannot show.
func foreign(t *tree.Tree, dir string) []disk.Missing {
	var out []disk.Missing
	_ = t.Walk(func(p string, e *tree.Entry) error { // fails only if we do
		if (e.UID != 0 || e.GID != 0) && (p == dir || strings.HasPrefix(p, dir+"/")) {
			out = append(out, disk.Missing{Path: p, What: fmt.Sprintf("owner %d:%d", e.UID, e.GID), Err: unix.EINVAL})
		}
		return nil
	})
	return out
}

// strike takes a set down. Mounts first, then the directory below them, which is
// empty: nothing is ever removed by walking (F29).
func (s *stage) strike(old *set) error {
	unix.Close(old.fd)
	if err := unix.Fchdir(s.base); err != nil {
		return os.NewSyscallError("fchdir", err)
	}
	err := unix.Unmount(old.name, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err == nil {
		err = unix.Unlinkat(s.base, old.name, unix.AT_REMOVEDIR)
	}
	if back := unix.Fchdir(s.real); back != nil || err != nil {
		return fmt.Errorf("take down a tree: %w", errors.Join(err, back))
	}
	return nil
}

// deviceDirs returns the directories to show by FUSE, shortest first: those
// named "dev" that have a device node somewhere below, and the directory itself
// of a node that is below none.
func deviceDirs(t *tree.Tree) []string {
	dirs := map[string]bool{}
	for _, n := range t.Nodes("/") {
		dir := path.Dir(n.Path)
		if before, _, ok := strings.Cut(n.Path+"/", "/dev/"); ok && isDir(t, before+"/dev") {
			dir = before + "/dev"
		}
		if dir != "/" { // one there is not shown, and disk says so
			dirs[dir] = true
		}
	}
	var out []string
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		inside := func(have string) bool { return strings.HasPrefix(dir, strings.TrimSuffix(have, "/")+"/") }
		if !slices.ContainsFunc(out, inside) {
			out = append(out, dir)
		}
	}
	return out
}

func isDir(r host.Root, p string) bool {
	info, err := r.Lstat(p)
	return err == nil && info.Mode.IsDir()
}

// readHere leaves out what is written to disk for nobody: a program in a namespace looks
// for GPUs and a driver's files, not for processors, modules and how devices sleep.
func readHere(dir, name string, _ *tree.Entry) bool {
	switch name {
	case "power", "pci_bus", "infiniband", "ari_enabled", "broken_parity_status", "msi_bus", "d3cold_allowed", "dma_mask_bits", "consistent_dma_mask_bits", "local_cpus", "local_cpulist":
		return !strings.HasPrefix(dir, "/sys/")
	case "system":
		return dir != "/sys/devices"
	case "modules":
		return dir != "/lib" && dir != "/usr/lib"
	case "cpuinfo", "version", "config.gz":
		return dir != "/proc"
	}
	return true
}
