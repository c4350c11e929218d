package podman

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gpurig/core/emit/oci"
	"gpurig/core/host/osroot"
	"gpurig/core/plan"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/foreground"
	"gpurig/runner/target/sandbox"
)

// A Container is a real container. Its directory holds the root, all that its Podman
// keeps, and the hook file.
type Container struct {
	*foreground.Container
	programs programs
	given    string // the Spec and the command
}

var (
	_ target.Container   = (*Container)(nil)
	_ foreground.Program = (*Container)(nil)
)

// Start is part of target.Container. An error that is not target.ErrBroken is the
// answer of Podman, its runtime or the hook.
func (c *Container) Start(ctx context.Context, h target.Host, p plan.Plan) error {
	return c.Begin(func() error {
		edits, err := c.emit(ctx, h, p)
		if err != nil {
			return err
		}
		if err := c.tidy(ctx, edits); err != nil {
			return err
		}
		text, err := c.write(edits, p)
		if err != nil {
			return errors.Join(target.ErrBroken, err)
		}
		args := c.arguments(edits)
		c.given = text + "podman " + strings.Join(args, " ") + "\n"
		return c.Launch(ctx, c.command(args))
	})
}

// emit writes a plan for the runtime. The error is a refusal of package oci, or
// target.ErrBroken.
func (c *Container) emit(ctx context.Context, h target.Host, p plan.Plan) (oci.Edits, error) {
	prefix, err := c.Sandbox.Host(ctx, h, p)
	if err != nil {
		return oci.Edits{}, errors.Join(target.ErrBroken, err)
	}
	root, err := osroot.New(c.Outside("rootfs"))
	if err != nil {
		return oci.Edits{}, errors.Join(target.ErrBroken, err)
	}
	defer root.Close()
	return oci.Emit(p, oci.Options{
		Container: c.Config.Name, HostRoot: prefix, HookPath: c.Sandbox.Inside(sandbox.HookPath), HookFile: c.HookFile(),
		Resolve: func(p string) (string, error) { return sandbox.Resolve(root, p) },
	})
}

// tidy makes mount points, and takes back what earlier starts left: no hook of a
// runtime comes before the mounts.
func (c *Container) tidy(ctx context.Context, e oci.Edits) error {
	if e.Hooks == nil {
		if !c.Hooked {
			return nil
		}
		err := c.Hook(ctx, "--stage", "clean", "--root", c.Inside("rootfs"))
		c.Hooked = err != nil
		return err
	}
	if err := c.WriteHook(e.Hook, true); err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	return c.Hook(ctx, "--stage", "prepare", "--root", c.Inside("rootfs"))
}

// Files of the container: a runtime that keeps what it says of a failure, and that.
const (
	runtimeFile = "bin/runc"
	saidFile    = "said"

	runtimeKilled = "the runtime was killed"
)

// write writes the Spec and Podman's configuration, and returns the Spec as text.
func (c *Container) write(e oci.Edits, p plan.Plan) (string, error) {
	for _, dir := range []string{"bin", "cdi", "hooks.d", "tmp"} {
		if err := os.MkdirAll(c.Outside(dir), 0o755); err != nil {
			return "", err
		}
	}
	text, err := json.MarshalIndent(specOf(e, p), "", "  ")
	if err != nil {
		return "", err
	}
	for name, content := range map[string]string{
		"cdi/plan.json": string(text) + "\n",
		// Locks in shared memory would be those of every Podman of the machine, and its
		// hooks would run in our containers.
		"containers.conf": fmt.Sprintf("[containers]\ndefault_ulimits = []\npids_limit = 0\n[engine]\nlock_type = \"file\"\nhooks_dir = [%q]\n", c.Inside("hooks.d")),
		"storage.conf":    fmt.Sprintf("[storage]\ndriver = \"vfs\"\ngraphroot = %q\nrunroot = %q\n", c.Inside("graph"), c.Inside("run")),
		"registries.conf": "",
		// Of what a hook says, Podman repeats the first line that has "no such file" in it.
		runtimeFile: fmt.Sprintf("#!%s\n%s \"$@\" || { code=$?; if [ $code -gt 128 ]; then echo %q; else cat %s/run/*-containers/*/userdata/oci-log; fi >>%s; exit $code; }\n",
			c.programs.shell, c.programs.runtime, runtimeKilled, c.Inside(""), c.Inside(saidFile)),
	} {
		if err := os.WriteFile(c.Outside(name), []byte(content), 0o755); err != nil {
			return "", err
		}
	}
	if err := os.Remove(c.Outside(saidFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return string(text) + "\n", nil
}

// arguments are those of podman. "--ulimit host" keeps it from raising limits, which
// takes CAP_SYS_RESOURCE.
func (c *Container) arguments(e oci.Edits) []string {
	args := []string{
		"--root", c.Inside("graph"), "--runroot", c.Inside("run"), "--tmpdir", c.Inside("state"), "--storage-driver", "vfs",
		"--cgroup-manager", "cgroupfs", "--events-backend", "none", "--conmon", c.programs.conmon,
		"--runtime", c.Inside(runtimeFile), "--runtime-flag", "root=" + c.Inside("runtime"),
		"run", "--rm", "--name", c.Name,
		"--network", "none", "--no-hosts", "--hostname", c.Config.Name, "--passwd=false", "--systemd=false",
		"--cgroups", "no-conmon", "--cgroup-parent", "/" + c.Sandbox.Prefix() + "/" + c.Name, "--ulimit", "host", "--pids-limit", "0", "--log-driver", "none",
		"--env", "PATH=/sbin:/usr/sbin:/bin:/usr/bin", "--volume", c.Inside("own") + ":" + observe.OwnDir + ":ro",
	}
	if c.ReadOnly() {
		args = append(args, "--read-only", "--read-only-tmpfs=false")
	}
	for _, g := range e.Groups {
		args = append(args, "--group-add", fmt.Sprint(g))
	}
	return append(args, "--device", kind+"="+device, "--rootfs", c.Inside("rootfs"), observe.OwnDir+"/probe", "init", observe.OwnDir)
}

// command is podman in namespaces of its own: of mounts, where /etc/cdi has our Spec alone,
// and of processes, so that conmon, which cleans up after the container by another podman,
// goes with it however it ends.
func (c *Container) command(args []string) *exec.Cmd {
	// Not podman but the shell is the first process there: it reaps what conmon leaves,
	// which podman waits for.
	const script = `mount --bind "$0" ` + specDir + ` && "$@"; exit $?`
	cmd := c.Sandbox.Command(context.Background(), c.programs.unshare, append([]string{
		"--mount", "--propagation", "private", "--mount-proc", c.programs.shell, "-c", script, c.Inside("cdi"), c.programs.podman}, args...)...)
	// It becomes the shell, so its end is seen when all processes of the namespace are gone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	cmd.Env = []string{
		"PATH=" + sandbox.Path, "HOME=" + c.Inside("tmp"), "TMPDIR=" + c.Inside("tmp"),
		"CONTAINERS_CONF=" + c.Inside("containers.conf"), "CONTAINERS_STORAGE_CONF=" + c.Inside("storage.conf"),
		"CONTAINERS_REGISTRIES_CONF=" + c.Inside("registries.conf"),
	}
	cmd.Stdin = strings.NewReader("")
	return cmd
}

// Forget is part of foreground.Program: it removes all that Podman has of the
// container, and its cgroups, as the end of the machine does.
func (c *Container) Forget() error {
	var errs []error
	for _, dir := range []string{"graph", "run", "state", "runtime"} {
		errs = append(errs, os.RemoveAll(c.Outside(dir)))
	}
	return errors.Join(append(errs, c.Sandbox.RemoveCgroups(c.Name))...)
}

// Problem is part of foreground.Program: the hook's own words, else Podman's error. A
// Podman that ends without one was killed, or has a fault of its own.
func (c *Container) Problem(output string) error {
	said, _ := os.ReadFile(c.Outside(saidFile)) // there is one where the runtime failed
	if strings.Contains(string(said), runtimeKilled) {
		return &target.EndedError{Program: filepath.Base(c.programs.runtime), How: "killed"}
	}
	if words := cmp.Or(target.HookSaid(string(said)), target.HookSaid(output)); words != "" {
		return errors.New(words)
	}
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for _, line := range lines {
		if words, ok := strings.CutPrefix(line, "Error: "); ok {
			if strings.HasPrefix(words, "write child: ") || strings.Contains(words, "from conmon") {
				return &target.EndedError{Program: "conmon", How: "killed", Words: words}
			}
			return errors.New("podman: " + words)
		}
	}
	return &target.EndedError{Program: "podman", How: "without an error message", Words: lines[len(lines)-1], Log: lines}
}

// Plug is part of target.Container, Unplug too.
func (c *Container) Plug(context.Context, target.Host, plan.Plan) error { return errNoPlug() }

// Unplug is part of target.Container.
func (c *Container) Unplug(context.Context, target.Host, plan.Plan) error { return errNoPlug() }

func errNoPlug() error {
	return &target.CannotError{Target: "podman",
		Why:  "not applicable: Podman fixes a container's devices and mounts when it creates it",
		Hint: "use a target of system containers, such as lxc"}
}

// Observe is part of target.Container.
func (c *Container) Observe(ctx context.Context, r observe.Request) (observe.Observation, error) {
	r.Manager = observe.Podman
	return c.Container.Observe(ctx, r)
}

// Stop is part of target.Container. Podman has the runtime delete the container, and
// the poststop hooks run.
// Without conmon nobody tells Podman of the end, and it waits for ever.
func (c *Container) Stop(ctx context.Context) error {
	if c.Running() && !c.monitored() {
		return fmt.Errorf("stop %s: %w", c.Config.Name, errors.Join(errConmon, c.Crash(ctx)))
	}
	err := c.End(unix.SIGTERM)
	if errors.Is(err, sandbox.ErrStillRunning) && !c.monitored() {
		return errors.Join(errConmon, err)
	}
	return err
}

var errConmon error = &target.EndedError{Program: "conmon", How: "killed"}

// monitored reports whether the container's conmon is there.
func (c *Container) monitored() bool {
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return slices.ContainsFunc(commands, func(file string) bool {
		text, err := os.ReadFile(file)
		program, args, _ := strings.Cut(string(text), "\x00")
		return err == nil && filepath.Base(program) == "conmon" && strings.Contains(args, c.Inside("run"))
	})
}

// Configuration is part of target.Container: the Spec and the command.
func (c *Container) Configuration() string { return c.given }
