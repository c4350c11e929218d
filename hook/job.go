package hook

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook/calls"
	"gpurig/hook/inroot"
	"gpurig/hook/stage"
)

// A Stage is a part of the work, by when it can be done.
type Stage = stage.Stage

// The stages, see package stage.
const (
	Prepare = stage.Prepare
	Apply   = stage.Apply
	Finish  = stage.Finish
	Clean   = stage.Clean
)

// A Job is one call of the hook: which file, which stage, which root.
type Job struct {
	File  string
	Stage Stage
	Root  string // path of the root directory; empty: PID's
	PID   int    // of the container's first process, still waiting for us
	Walk  bool   // resolve paths without openat2

	// Inside says that we run as the container's root, in its user namespace if it
	// has one: ids of the hook file are the manager's and mean nothing there.
	Inside bool
	// Mounted says that something must be mounted on Root.
	Mounted bool
	// Container is what the manager calls the container; empty: it does not say.
	Container string
	// OfALife says that the stage belongs to one start of the container by liblxc
	// and may come when the next one has begun. By hand, order is the caller's.
	OfALife bool
}

// A UsageError is a wrong call: the caller's mistake, exit code 2.
type UsageError struct{ Msg, Hint string }

func (e *UsageError) Error() string { return e.Msg }

const usage = `usage: cdi-hook [--stage STAGE] [--root DIR | --pid PID | --oci [--root DIR]] FILE

Carries out FILE, the hook file that a container manager wrote, inside one
container's root file system. As an LXC hook it needs only FILE:

  lxc.hook.version = 1
  lxc.hook.pre-start = /path/to/cdi-hook FILE    mount points
  lxc.hook.start-host = /path/to/cdi-hook FILE   links, library cache, modes
  lxc.hook.post-stop = /path/to/cdi-hook FILE    empty mount points go

lxc.hook.mount can stand in for start-host. As an OCI hook, createContainer and
poststop, add --oci: the container's state is read from standard input, and the
root from the bundle; give --root where the container's root cannot read that, as
in Docker's user namespaces. By hand, give --stage (prepare, apply, finish, clean) and --root.
`

// parseJob reads the command line and what LXC left in the environment.
func parseJob(args []string, env map[string]string, stdin io.Reader) (Job, error) {
	var j Job
	var stage string
	var oci bool
	set := flag.NewFlagSet("cdi-hook", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&stage, "stage", "", "")
	set.StringVar(&j.Root, "root", "", "")
	set.IntVar(&j.PID, "pid", 0, "")
	set.BoolVar(&oci, "oci", false, "")
	set.BoolVar(&j.Walk, "no-openat2", false, "")
	if err := set.Parse(args); err != nil {
		return Job{}, &UsageError{Msg: err.Error(), Hint: "run cdi-hook --help"}
	}
	if set.NArg() == 0 {
		return Job{}, &UsageError{Msg: "no hook file given", Hint: "run cdi-hook --help"}
	}
	// LXC with hook version 0 adds the container's name, "lxc" and the type.
	rest := set.Args()[1:]
	if len(rest) == 3 && rest[1] == "lxc" && env["LXC_HOOK_TYPE"] == "" {
		env["LXC_NAME"], env["LXC_HOOK_TYPE"], rest = rest[0], rest[2], nil
	}
	if len(rest) > 0 {
		return Job{}, &UsageError{Msg: fmt.Sprintf("argument %q after the hook file", rest[0]), Hint: "options stand before the file"}
	}
	j.File = set.Arg(0)
	if !path.IsAbs(j.File) || path.Clean(j.File) != j.File {
		return Job{}, &UsageError{Msg: fmt.Sprintf("hook file %q: not an absolute, clean path", j.File)}
	}
	switch {
	case stage != "":
		return j, j.byHand(stage)
	case oci:
		return j, j.fromOCI(stdin)
	case env["LXC_HOOK_TYPE"] != "":
		return j, j.fromLXC(env)
	}
	return Job{}, &UsageError{Msg: "neither an LXC hook (no LXC_HOOK_TYPE) nor --oci nor --stage",
		Hint: "set lxc.hook.version = 1, or run cdi-hook --help"}
}

func (j *Job) byHand(stage string) error {
	j.Stage = Stage(stage)
	switch j.Stage {
	case Prepare, Apply, Finish, Clean:
	default:
		return &UsageError{Msg: fmt.Sprintf("stage %q: want prepare, apply, finish or clean", stage)}
	}
	if (j.Root == "") == (j.PID == 0) {
		return &UsageError{Msg: "give one of --root and --pid"}
	}
	if j.Root != "" {
		return checkRoot("--root", j.Root)
	}
	return nil
}

// fromLXC knows which variable names the root in which hook. In start-host the
// variable LXC_ROOTFS_MOUNT names an empty directory of the host: the container
// is entered by its process instead.
func (j *Job) fromLXC(env map[string]string) error {
	if j.Root != "" || j.PID != 0 {
		return &UsageError{Msg: "--root and --pid are not for LXC hooks"}
	}
	j.Container = env["LXC_NAME"]
	switch typ := env["LXC_HOOK_TYPE"]; typ {
	case "pre-start", "post-stop":
		j.Stage, j.OfALife = Prepare, true
		if typ == "post-stop" {
			j.Stage = Finish
		}
		p := env["LXC_ROOTFS_PATH"]
		if kind, rest, ok := strings.Cut(p, ":"); ok && !strings.Contains(kind, "/") {
			if kind != "dir" {
				return &UsageError{Msg: fmt.Sprintf("root file system %q: only directories can be prepared before the start", p),
					Hint: "use lxc.rootfs.path = dir:/…"}
			}
			p = rest
		}
		j.Root = p
		return checkRoot("LXC_ROOTFS_PATH", p)
	case "mount":
		j.Stage, j.Root, j.Inside, j.Mounted = Apply, env["LXC_ROOTFS_MOUNT"], true, true
		return checkRoot("LXC_ROOTFS_MOUNT", j.Root)
	case "start-host":
		pid, err := strconv.Atoi(env["LXC_PID"])
		if err != nil || pid <= 1 {
			return &UsageError{Msg: fmt.Sprintf("LXC_PID %q: not a process id", env["LXC_PID"])}
		}
		j.Stage, j.PID = Apply, pid
		return nil
	default:
		return &UsageError{Msg: fmt.Sprintf("LXC hook type %q: not one that cdi-hook serves", typ),
			Hint: "use it as pre-start, start-host (or mount) and post-stop hook"}
	}
}

func checkRoot(name, p string) error {
	switch {
	case p == "":
		return &UsageError{Msg: name + " is empty"}
	case !filepath.IsAbs(p) || filepath.Clean(p) != p:
		return &UsageError{Msg: fmt.Sprintf("%s %q: not an absolute, clean path", name, p)}
	case p == "/":
		return &UsageError{Msg: name + " is the host's own root"}
	}
	return nil
}

// maxState bounds the container state that is read from standard input.
const maxState = 1 << 20

// fromOCI reads the container state that the runtime writes to the hook:
// https://github.com/opencontainers/runtime-spec/blob/main/runtime.md#state
//
// Of a container that has stopped, which only poststop hooks are told of, the
// mount points are taken away; such a hook runs in the runtime's namespaces.
func (j *Job) fromOCI(stdin io.Reader) error {
	j.Stage, j.Inside = Apply, true
	data, err := io.ReadAll(io.LimitReader(stdin, maxState+1))
	if err != nil {
		return fmt.Errorf("container state on standard input: %w", err)
	}
	if len(data) > maxState {
		return fmt.Errorf("container state on standard input: larger than %d bytes", maxState)
	}
	var state struct {
		Status string `json:"status"`
		Bundle string `json:"bundle"`
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return fmt.Errorf("container state on standard input: not JSON: %w", err)
	}
	if state.Status == "stopped" {
		j.Stage, j.Inside = Finish, false
	}
	if j.Root != "" {
		return checkRoot("--root", j.Root)
	}
	if err := checkRoot("bundle", state.Bundle); err != nil {
		return err
	}
	data, err = readTrusted(filepath.Join(state.Bundle, "config.json"), 8<<20)
	if err != nil {
		return err
	}
	var config struct {
		Root *struct {
			Path string `json:"path"`
		} `json:"root"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return fmt.Errorf("%s: not JSON: %w", filepath.Join(state.Bundle, "config.json"), err)
	}
	if config.Root == nil || config.Root.Path == "" {
		return fmt.Errorf("%s: no root.path", filepath.Join(state.Bundle, "config.json"))
	}
	j.Root = config.Root.Path
	if !filepath.IsAbs(j.Root) {
		j.Root = filepath.Join(state.Bundle, j.Root)
	}
	return checkRoot("root.path", j.Root)
}

// self are the ids that we run with.
func self() hookspec.Owner {
	return hookspec.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
}

// open pins the root directory of the job.
func (j Job) open(o inroot.Options) (*inroot.Root, error) {
	name, open := j.Root, j.openPath
	if j.PID != 0 {
		name, open = fmt.Sprintf("/proc/%d/root", j.PID), j.openPID
	}
	root, err := open(o)
	if err != nil {
		return nil, err
	}
	if err := notTheHost(root, name, j.File); err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// openPath opens a root by its path, which nobody but root and the container's
// own root can have changed.
func (j Job) openPath(o inroot.Options) (*inroot.Root, error) {
	up := path.Dir(j.Root)
	dir, err := trustedDir(up, o.Owner.UID)
	if err != nil {
		return nil, fmt.Errorf("container root: %w", err)
	}
	unix.Close(dir)
	root, err := inroot.Open(j.Root, o)
	if err != nil {
		return nil, err
	}
	if !j.Mounted {
		if err := root.AtRest(); err != nil {
			root.Close()
			return nil, err
		}
		return root, nil
	}
	mounted, err := root.IsMountPoint(up)
	if err == nil && !mounted {
		err = fmt.Errorf("container root %q: nothing is mounted there", j.Root)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// openPID opens the root directory of a process. The pidfd, opened first, proves
// afterwards that the id still means the same process.
func (j Job) openPID(o inroot.Options) (*inroot.Root, error) {
	pidfd, err := unix.PidfdOpen(j.PID, 0)
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", j.PID, err)
	}
	defer unix.Close(pidfd)
	own, err := sharesMounts(j.PID)
	if err == nil && own {
		err = errors.New("has the same mounts as cdi-hook: it is a process of the host")
	}
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", j.PID, err)
	}
	name := fmt.Sprintf("/proc/%d/root", j.PID)
	fd, err := calls.Openat(unix.AT_FDCWD, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("process %d ended: %w", j.PID, err)
	}
	return inroot.OpenFD(fd, name, o)
}
