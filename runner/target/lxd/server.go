package lxd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/core/emit/lxc"
	"gpurig/runner/image"
	"gpurig/runner/lxdapi"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/sandbox"
)

// poolDir has the storage pool, below the scratch directory. The pool is called
// as the sandbox is.
const poolDir = "pool"

// A server is one daemon and what its containers share.
type server struct {
	*sandbox.Sandbox
	daemon *daemon // nil: somebody else's
	api    *lxdapi.Client
	// Of somebody else's daemon.
	pid     int
	nsenter string

	cgroup string // version
	alone  string // Config.Alone of its containers
	has    int    // containers

	mu     sync.Mutex
	count  int
	images map[string]func() error // by name: imports it, once
}

// startServer starts a daemon and makes its pool. What was made is removed when
// it fails. enter is target.Host's; nil: the daemon runs on the machine at hand.
func startServer(ctx context.Context, f lxdapi.Flavour, cgroup string, p programs, enter target.Enter) (_ *server, err error) {
	w, err := sandbox.OpenOn(enter, cgroup, runtimeDir, p.Programs)
	if err != nil {
		return nil, err
	}
	s := &server{Sandbox: w, cgroup: cgroup, images: map[string]func() error{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	d, err := newDaemon(w, f, p)
	if err != nil {
		return nil, err
	}
	s.daemon = d
	if s.api, err = s.daemon.start(ctx); err != nil {
		return nil, err
	}
	return s, s.createPool(ctx)
}

// liblxc is the version of the server's; zero: it says none.
func (s *server) liblxc() lxc.Version {
	v, _ := lxc.ParseVersion(s.api.Server().DriverVer)
	return v
}

func (s *server) createPool(ctx context.Context) error {
	if err := os.Mkdir(s.Outside(poolDir), 0o711); err != nil {
		return err
	}
	return s.api.CreatePool(ctx, s.Prefix(), s.Inside(poolDir))
}

// command returns a program to be run where the daemon has its mounts.
func (s *server) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	if s.daemon == nil {
		return exec.CommandContext(ctx, s.nsenter, append([]string{"--target", fmt.Sprint(s.pid), "--mount", "--pid", "--wd=/", "--", program}, args...)...)
	}
	return s.daemon.command(ctx, program, args...)
}

func (s *server) close() error {
	var errs []error
	if s.daemon != nil {
		errs = append(errs, s.daemon.close())
	} else if s.api != nil {
		errs = append(errs, s.leave())
	}
	if s.api != nil {
		s.api.Close()
	}
	if s.Sandbox != nil {
		errs = append(errs, s.Sandbox.Close())
	}
	return errors.Join(errs...)
}

// create makes a container that has no device but its root.
func (s *server) create(ctx context.Context, c target.Config, img *image.Image) (*Container, error) {
	if err := s.imported(ctx, img); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.count++
	name := fmt.Sprintf("%s-c%d", s.Prefix(), s.count)
	s.mu.Unlock()
	ctr := &Container{server: s, config: c, name: name, dir: s.Prefix() + "/" + name, readOnly: img.ReadOnly}
	if err := s.api.Create(ctx, name, alias(s, img), ctr.instance(emission{})); err != nil {
		return nil, err
	}
	own := func(id uint32) uint32 { return id } // the daemon maps them at the first start
	if err := img.MakeSockets(s.Outside(rootDir(name)), own); err != nil {
		return nil, err
	}
	return ctr, os.MkdirAll(s.Outside(ctr.dir), 0o755)
}

// alias is what an image of ours is called.
func alias(s *server, img *image.Image) string { return s.Prefix() + "-" + img.Name }

// importTime is how long the import of an image may take. It takes a second.
const importTime = 60 * time.Second

// imported imports an image when it is first asked for. Who asks meanwhile waits.
func (s *server) imported(ctx context.Context, img *image.Image) error {
	s.mu.Lock()
	once := s.images[img.Name]
	if once == nil {
		once = sync.OnceValue(func() error {
			tar, err := imageTar(img, alias(s, img))
			if err != nil {
				return fmt.Errorf("image %s: %w", img.Name, err)
			}
			// Not the context of one of those who wait for it.
			ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), importTime, fmt.Errorf("no answer for %s", importTime))
			defer cancel()
			return s.api.ImportImage(ctx, alias(s, img), tar)
		})
		s.images[img.Name] = once
	}
	s.mu.Unlock()
	return once()
}

// little is what a disk has left, in bytes, when writes to it fail.
const little = 64 << 10

// diskFull reports whether there is no room for what containers write.
func (s *server) diskFull() bool {
	var st unix.Statfs_t
	err := unix.Statfs(s.Outside(""), &st)
	return err == nil && st.Bavail*uint64(st.Bsize) < little
}

// rootDir is where a container's root is, below the scratch directory.
func rootDir(name string) string { return filepath.Join(poolDir, "containers", name, "rootfs") }

// dead reports whether a daemon of our own has ended by itself. Its containers go with
// its namespaces.
func (s *server) dead() bool {
	if s.daemon == nil || s.daemon.life.Over() {
		return s.daemon != nil
	}
	// Its socket refuses a moment before its end is heard of.
	_, err := sandbox.Listener(s.Outside(socketName))
	return errors.Is(err, unix.ECONNREFUSED) && s.daemon.life.Why() != nil
}

// removed takes a container away, running or not. Where the daemon is dead, its
// namespaces are about to go, with all that is in them.
func (s *server) removed(ctx context.Context, name string) error {
	if s.dead() {
		return nil
	}
	state, err := s.api.State(ctx, name)
	if err != nil {
		if lxdapi.IsNotFound(err) {
			return nil
		}
		return err
	}
	if state.Status != "Stopped" {
		if err := s.api.Stop(ctx, name, -1, true); err != nil && !lxdapi.IsStopped(err) {
			return err
		}
	}
	if err := s.writable(ctx, name); err != nil {
		return err
	}
	return s.api.Delete(ctx, name)
}

// writable takes away the read-only view of a root that a failed start leaves where
// the daemon has its mounts.
func (s *server) writable(ctx context.Context, name string) error {
	pid := s.pid
	if s.daemon != nil {
		pid = s.daemon.pidns.PID()
	}
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return err
	}
	lines, err := observe.ParseMountinfo(string(table))
	if err != nil {
		return err
	}
	for _, m := range lines {
		if strings.HasSuffix(m.Target, "/containers/"+name+"/rootfs") {
			// Where LXD did it meanwhile there is nothing to unmount.
			_ = s.command(ctx, "/bin/umount", "-l", m.Target).Run()
		}
	}
	return nil
}
