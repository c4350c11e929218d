package conformance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// program finds a program that a consumer needs.
func program(consumer, name, hint string) (string, error) {
	if os.Geteuid() != 0 {
		return "", &Missing{consumer, "needs root", "run as root"}
	}
	p, err := exec.LookPath(name)
	if err != nil {
		return "", &Missing{consumer, "there is no " + name, hint}
	}
	return filepath.Abs(p)
}

var number = regexp.MustCompile(`[0-9]+\.[0-9]+(\.[0-9]+)?`)

// versionOf asks a program for its version.
func versionOf(program string) string {
	out, err := exec.Command(program, "--version").CombinedOutput()
	if v := number.FindString(string(out)); err == nil && v != "" {
		return v
	}
	return "unknown"
}

// specDir is where consumers look for Specs that cannot be told to look elsewhere.
const specDir = "/etc/cdi"

// podman is that on the path, as root.
type podman struct {
	dir, program, runtime string
	made                  bool // specDir was
	count                 int
}

// Podman returns it, or a *Missing.
func Podman() (Consumer, error) {
	at, err := program("podman", "podman", "apt-get install podman")
	if err != nil {
		return nil, err
	}
	p := &podman{program: at}
	if p.dir, err = os.MkdirTemp("", "gpurig-conformance-"); err != nil {
		return nil, err
	}
	if p.runtime, err = stub(p.dir); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	for name, text := range map[string]string{
		"containers.conf": "[containers]\ndefault_ulimits = []\npids_limit = 0\n[engine]\nlock_type = \"file\"\n",
		"storage.conf":    fmt.Sprintf("[storage]\ndriver = \"vfs\"\ngraphroot = %q\nrunroot = %q\n", p.dir+"/graph", p.dir+"/run"),
		"registries.conf": "",
	} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	err = os.Mkdir(specDir, 0o755)
	p.made = err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *podman) Name() string    { return "podman" }
func (p *podman) Version() string { return versionOf(p.program) }

func (p *podman) Configure(ctx context.Context, c Case) ([]byte, error) {
	p.count++
	specs, root := filepath.Join(p.dir, fmt.Sprint("cdi", p.count)), filepath.Join(p.dir, fmt.Sprint("root", p.count))
	err := errors.Join(os.Mkdir(specs, 0o755), os.Mkdir(root, 0o755))
	if err == nil {
		err = os.WriteFile(filepath.Join(specs, "case.yaml"), []byte(c.Spec), 0o644)
	}
	if err != nil {
		return nil, errors.Join(ErrBroken, err)
	}
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--propagation", "private", "--mount-proc",
		"sh", "-c", `mount --bind "$0" `+specDir+` && "$@"; exit $?`, specs, p.program,
		"--root", p.dir+"/graph", "--runroot", p.dir+"/run", "--tmpdir", p.dir+"/state", "--storage-driver", "vfs",
		"--cgroup-manager", "cgroupfs", "--events-backend", "none", "--runtime", p.runtime,
		"run", "--rm", "--network", "none", "--cgroups", "no-conmon", "--ulimit", "host", "--pids-limit", "0", "--log-driver", "none",
		"--passwd=false", "--systemd=false", "--device", c.Device, "--rootfs", root, "/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	cmd.Env = append(os.Environ(), "CONTAINERS_CONF="+p.dir+"/containers.conf", "CONTAINERS_STORAGE_CONF="+p.dir+"/storage.conf",
		"CONTAINERS_REGISTRIES_CONF="+p.dir+"/registries.conf")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = said(string(out), err)
	}
	return taken(p.dir, err)
}

// said is a program's own error: a line that begins with "Error: ". Without one it has
// not answered.
func said(output string, err error) error {
	for line := range strings.Lines(output) {
		if words, ok := strings.CutPrefix(strings.TrimSpace(line), "Error: "); ok {
			return errors.New(words)
		}
	}
	return fmt.Errorf("%w: %w: %s", ErrBroken, err, oneLine(output))
}

func (p *podman) Close() error {
	err := os.RemoveAll(p.dir)
	if p.made {
		err = errors.Join(err, os.Remove(specDir))
	}
	return err
}
