package containercli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/core/place"
	"gpurig/core/plan"
	"gpurig/core/refuse"
	"gpurig/hook/inroot"
)

// A mount is one of the plan that is not attached yet.
type mount struct {
	plan.Mount
	tree *os.File
}

// configure gives a container that has not started the plan of the request.
func (c *call) configure(ctx context.Context) error {
	res, err := c.plan(ctx)
	if err != nil {
		return err
	}
	owner, err := c.owner()
	if err != nil {
		return err
	}
	var mounts []mount
	defer func() {
		for _, m := range mounts {
			m.tree.Close()
		}
	}()
	for _, m := range allMounts(*res.Plan) {
		tree, err := detached(m)
		if err != nil {
			return err
		}
		mounts = append(mounts, mount{m, tree})
	}
	if !c.noCgroups {
		if err := c.allow(place.Rules(res.Plan.Nodes)); err != nil {
			return err
		}
	}
	hook, err := cdiHook()
	if err != nil {
		return err
	}
	if err := c.enter(); err != nil {
		return err
	}
	root, err := inroot.Open(c.rootfs, inroot.Options{Owner: inroot.Owner(owner)})
	if err != nil {
		return err
	}
	defer root.Close()
	mounts = slices.DeleteFunc(mounts, func(m mount) bool {
		covered := isSocket(m.Target) && root.Covered(m.Target)
		if covered {
			c.logf("%s: the container has a mount over it", m.Target)
			m.tree.Close()
		}
		return covered
	})
	file, err := hookFile(*res.Plan, mounts, owner)
	if err != nil {
		return err
	}
	return c.carryOut(ctx, hook, file, func() error {
		for _, m := range mounts {
			c.logf("mount %s", m.Target)
			if err := root.Attach(m.Target, int(m.tree.Fd())); err != nil {
				return err
			}
		}
		return nil
	})
}

// isSocket reports whether a file of the driver is one of its services, which a
// container that mounts its own /run does without.
func isSocket(target string) bool {
	return slices.ContainsFunc([]string{"/run/", "/var/run/", "/tmp/"}, func(dir string) bool { return strings.HasPrefix(target, dir) })
}

// carryOut does the plan in the container's mount namespace: cdi-hook before and
// after everything is mounted.
func (c *call) carryOut(ctx context.Context, hook string, file hookspec.File, attach func() error) error {
	dir, err := os.MkdirTemp("/tmp", "nvidia-container-cli-")
	if err != nil {
		return fmt.Errorf("the folder of the hook file: %w", err)
	}
	defer os.RemoveAll(dir)
	data, err := file.Marshal()
	if err != nil {
		return err
	}
	name := dir + "/cdi-hook.json"
	if err := os.WriteFile(name, data, 0o600); err != nil {
		return err
	}
	run := func(stage string) error {
		cmd := exec.CommandContext(ctx, hook, "--stage", stage, "--root", c.rootfs, name)
		cmd.Env = []string{}
		out, err := cmd.CombinedOutput()
		c.logf("cdi-hook --stage %s: %v %s", stage, err, out)
		if err != nil {
			return fmt.Errorf("cdi-hook --stage %s: %s (%w)", stage, strings.TrimSpace(string(out)), err)
		}
		_, err = c.err.Write(out)
		return err
	}
	if err := run("prepare"); err != nil {
		return err
	}
	if err := attach(); err != nil {
		return err
	}
	return run("apply")
}

// allMounts are the mounts of a plan and those of its nodes, each after the ones that
// it lies in.
func allMounts(p plan.Plan) []plan.Mount {
	all := slices.Clone(p.Mounts)
	for _, n := range p.Nodes {
		all = append(all, plan.Mount{Source: n.Source, Target: n.Path, Options: []string{"ro", "nosuid", "noexec", "bind"}})
	}
	return all
}

// hookFile is what cdi-hook does in the root.
func hookFile(p plan.Plan, mounts []mount, owner hookspec.Owner) (hookspec.File, error) {
	w := place.Placer{}
	var list []plan.Mount
	for _, m := range mounts {
		list = append(list, m.Mount)
	}
	w.Mounts(list, ReasonArgument, func(string) bool { return false })
	for i, m := range w.Hook.MountPoints { // nodes of the same number may be other files
		if strings.HasPrefix(m.Path, "/dev/") {
			w.Hook.MountPoints[i].Source = ""
		}
	}
	w.File(p, "container", "")
	w.Hook.Owner = owner
	return w.Hook, refuse.Join(w.Refusals...)
}

// attributes are what the options of a mount are to mount_setattr(2).
var attributes = map[string]uint64{"ro": unix.MOUNT_ATTR_RDONLY, "nosuid": unix.MOUNT_ATTR_NOSUID, "nodev": unix.MOUNT_ATTR_NODEV, "noexec": unix.MOUNT_ATTR_NOEXEC}

// detached makes the mount of a file, folder or node of the host that is attached
// nowhere yet.
func detached(m plan.Mount) (*os.File, error) {
	if m.Type != "" {
		return nil, fmt.Errorf("mount of %s on %s: not a file of the host", m.Type, m.Target)
	}
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC)
	if m.Dir {
		flags |= unix.AT_RECURSIVE
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, m.Source, flags)
	if err != nil {
		return nil, &os.PathError{Op: "open_tree", Path: m.Source, Err: err}
	}
	attr := unix.MountAttr{Propagation: unix.MS_PRIVATE}
	for _, o := range m.Options {
		attr.Attr_set |= attributes[o]
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "mount_setattr", Path: m.Source, Err: err}
	}
	return os.NewFile(uintptr(fd), m.Source), nil
}

// cdiHook is the program beside this one.
func cdiHook() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	p := filepath.Join(path.Dir(self), "cdi-hook")
	if _, err := os.Stat(p); err != nil {
		return "", fmt.Errorf("cdi-hook, which has to be beside this program: %w", err)
	}
	return p, nil
}

// owner is who owns what is made: the container's root, as our user namespace has it.
func (c *call) owner() (hookspec.Owner, error) {
	var o hookspec.Owner
	if c.pid == 0 {
		return o, nil
	}
	for name, id := range map[string]*uint32{"uid_map": &o.UID, "gid_map": &o.GID} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.pid, name))
		if err != nil {
			return o, err
		}
		mapped := false
		for line := range strings.Lines(string(text)) {
			var inside, outside, count uint32
			if n, _ := fmt.Sscan(line, &inside, &outside, &count); n == 3 && inside == 0 {
				*id, mapped = outside, true
			}
		}
		if !mapped {
			return o, fmt.Errorf("process %d: %s has no id for the container's root", c.pid, name)
		}
	}
	return o, nil
}

// enter goes into the mount namespace of the container's process, which for us is
// that of the first thread, and has still the host's files.
func (c *call) enter() error {
	if c.pid == 0 {
		return nil
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", c.pid))
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	host, err := rootDirectory()
	if err != nil {
		return err
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("the mount namespace of process %d: %w", c.pid, err)
	}
	if now, err := rootDirectory(); err != nil || now != host { // programs and files would be the image's
		return refuse.New(ReasonArgument, "--pid", "process %d has left the host's root already", c.pid).WithErr(err).WithHint("Call configure before the container manager changes the root: as a prestart or createRuntime hook.")
	}
	return nil
}

// rootDirectory is the device and inode of "/".
func rootDirectory() ([2]uint64, error) {
	var st unix.Stat_t
	err := unix.Stat("/", &st)
	return [2]uint64{st.Dev, st.Ino}, err
}
