package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/runner/smoke"
	"gpurig/runner/target"
)

// Where our programs are below the scratch directory.
const (
	ProbePath = "bin/gpurig-probe"
	HookPath  = "bin/cdi-hook"
	SmokePath = "bin/" + smoke.Program
)

// Programs are what a sandbox needs, by absolute path. Smoke may be empty: then the
// smoke workload cannot be asked for.
type Programs struct{ Nsenter, Probe, Hook, Smoke string }

// scratchDirs are places that every system has and no tool that is needed here
// is in. One of them is hidden under our tmpfs, in the kept namespace only.
var scratchDirs = []string{"/mnt", "/media", "/srv"}

// A nsHolder is a helper process that made a mount namespace and ends with us, or somebody
// else's process whose namespace we use as it is. What the helper made we hold by
// descriptors: somebody may kill it, and containers do not notice.
type nsHolder struct {
	stdin   io.Closer    // closing it ends the process; nil: it is somebody else's
	wait    func() error // for its end
	pid     int          // whose namespace it is
	root    *os.File     // of the helper's namespace; nil: it is somebody else's
	ns      *os.File     // that namespace
	scratch string       // inside
	joined  string       // outside, of somebody else's; empty: it is seen through pid
	prefix  string
	claim   claim    // on the directories of that name
	parents []string // of the cgroups of containers
	runtime string   // a folder of the machine that gets a tmpfs too
	madeRun bool     // it was made for us
	nsenter string   // program of util-linux
}

// startNSHolder starts the helper and copies the programs into the namespace. enter
// runs it on a fake machine; nil: on this one.
func startNSHolder(cgroup, runtime string, p Programs, enter target.Enter) (_ *nsHolder, err error) {
	k := &nsHolder{runtime: runtime, nsenter: p.Nsenter}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
		}
	}()
	for _, dir := range scratchDirs {
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			k.scratch = dir
			break
		}
	}
	if k.scratch == "" {
		return nil, fmt.Errorf("none of the folders %s is there to mount on", strings.Join(scratchDirs, ", "))
	}
	if runtime != "" {
		if err := os.Mkdir(runtime, 0o755); err == nil {
			k.madeRun = true
		} else if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	if err := k.run(p.Probe, cgroup, enter); err != nil {
		return nil, err
	}
	if k.root, err = os.OpenFile(fmt.Sprintf("/proc/%d/root", k.pid), unix.O_PATH|unix.O_DIRECTORY, 0); err != nil {
		return nil, err
	}
	if k.ns, err = os.Open(fmt.Sprintf("/proc/%d/ns/mnt", k.pid)); err != nil {
		return nil, err
	}
	if k.parents, err = cgroupParents(k.outsideRoot()); err != nil {
		return nil, err
	}
	if err := sweepCgroups(k.parents); err != nil {
		return nil, err
	}
	if k.prefix, k.claim, err = claimPrefix(k.parents); err != nil {
		return nil, err
	}
	return k, k.copyPrograms(p)
}

// copyPrograms puts our programs below the scratch directory.
func (k *nsHolder) copyPrograms(p Programs) error {
	for name, from := range map[string]string{ProbePath: p.Probe, HookPath: p.Hook, SmokePath: p.Smoke} {
		if from == "" {
			continue
		}
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(k.Outside(name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(k.Outside(name), data, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// Inside returns where a path below the scratch directory is for processes in
// the namespace; Outside, where it is for us; ByHand, where it is for what Output
// runs.
func (k *nsHolder) Inside(p string) string { return filepath.Join(k.scratch, p) }

// Outside: see Inside.
func (k *nsHolder) Outside(p string) string {
	if k.joined != "" {
		return filepath.Join(k.joined, p)
	}
	return filepath.Join(k.outsideRoot(), k.scratch, p)
}

// outsideRoot is where the namespace's root directory is for us.
func (k *nsHolder) outsideRoot() string {
	if k.root == nil {
		return rootOf(k.pid)
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), k.root.Fd())
}

func rootOf(pid int) string { return fmt.Sprintf("/proc/%d/root", pid) }

// ByHand: see Inside.
func (k *nsHolder) ByHand(p string) string {
	if k.joined != "" {
		return k.Outside(p)
	}
	return k.Inside(p)
}

// Command returns a program to be run in the namespace. It gets no environment
// of ours: liblxc finds no newuidmap on such a PATH and, being root, writes the
// maps itself, whatever /etc/subuid says.
func (k *nsHolder) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	ns := fmt.Sprintf("--mount=/proc/%d/ns/mnt", k.pid)
	if k.ns != nil {
		ns = fmt.Sprintf("--mount=/proc/%d/fd/%d", os.Getpid(), k.ns.Fd())
	}
	cmd := exec.CommandContext(ctx, k.nsenter, append([]string{ns, program}, args...)...)
	cmd.Env = []string{"PATH=" + k.Inside("nothing")}
	cmd.Dir = "/"
	return cmd
}

// Output runs a program in the namespace to its end; for one that we joined, in
// our own, where process ids are as we see them. The error has what the program said.
func (k *nsHolder) Output(ctx context.Context, stdin io.Reader, program string, args ...string) error {
	cmd := k.Command(ctx, program, args...)
	if k.joined != "" {
		env := cmd.Env
		cmd = exec.CommandContext(ctx, program, args...)
		cmd.Env, cmd.Dir = env, "/"
	}
	cmd.Stdin = stdin
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if text := strings.TrimSpace(out.String()); text != "" {
			return fmt.Errorf("%s: %s", filepath.Base(program), text)
		}
		return fmt.Errorf("%s: %w", filepath.Base(program), err)
	}
	return nil
}

// Prefix is a name that no other sandbox has: of cgroup directories, and of the
// folder of containers, since liblxc makes a socket name for the whole machine
// out of the latter.
func (k *nsHolder) Prefix() string { return k.prefix }

// OutsideRuntime is where the folder is for us that got a tmpfs for a runtime's state.
func (k *nsHolder) OutsideRuntime() string {
	return filepath.Join(k.outsideRoot(), k.runtime)
}

// RemoveCgroups removes the cgroup directories of a container below our own, after what
// was in them was killed. "*" is every container.
func (k *nsHolder) RemoveCgroups(name string) error {
	return removeCgroups(k.parents, containerCgroups(k.prefix, name)...)
}

// close ends the process; the namespace and what is mounted in it go with it.
func (k *nsHolder) close() error {
	var errs []error
	if k.stdin != nil {
		errs = append(errs, removeCgroups(k.parents, k.prefix))
		k.stdin.Close()
		if err := k.wait(); err != nil && !killed(err) {
			errs = append(errs, fmt.Errorf("helper process: %w", err))
		}
		k.stdin = nil
	}
	for _, f := range []*os.File{k.root, k.ns} {
		if f != nil {
			f.Close()
		}
	}
	k.root, k.ns = nil, nil
	if k.joined != "" {
		errs = append(errs, removeCgroups(k.parents, k.prefix), os.RemoveAll(k.joined))
	}
	if k.madeRun {
		// Somebody else may use it by now: then it is not empty and stays.
		if err := os.Remove(k.runtime); err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		k.madeRun = false
	}
	k.claim.release()
	k.claim = nil
	return errors.Join(errs...)
}
