package conformance

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	rspec "github.com/opencontainers/runtime-spec/specs-go"
)

// nvidia is NVIDIA's container runtime in CDI mode, in front of an OCI runtime.
type nvidia struct{ dir, program string }

// NVIDIA returns it, or a *Missing.
func NVIDIA() (Consumer, error) {
	at, err := program("nvidia-container-runtime", "nvidia-container-runtime",
		"go install github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-container-runtime@v1.20.1, or install nvidia-container-toolkit")
	if err != nil {
		return nil, err
	}
	n := nvidia{program: at}
	if n.dir, err = os.MkdirTemp("", "gpurig-conformance-"); err != nil {
		return nil, err
	}
	runtime, err := stub(n.dir)
	if err == nil {
		err = errors.Join(os.Mkdir(n.dir+"/cdi", 0o755), os.Mkdir(n.dir+"/bundle", 0o755), os.MkdirAll(n.dir+"/nvidia-container-runtime", 0o755))
	}
	if err == nil {
		err = os.WriteFile(n.dir+"/nvidia-container-runtime/config.toml", fmt.Appendf(nil, `[nvidia-container-runtime]
mode = "cdi"
runtimes = [%q]
log-level = "error"
[nvidia-container-runtime.modes.cdi]
spec-dirs = [%q]
annotation-prefixes = ["cdi.k8s.io/"]
`, runtime, n.dir+"/cdi"), 0o644)
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (nvidia) Name() string { return "nvidia-container-runtime" }

func (n nvidia) Version() string {
	info, err := buildinfo.ReadFile(n.program) // with --version it asks the runtime behind it
	if err != nil {
		return "unknown"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == "github.com/NVIDIA/nvidia-container-toolkit" && strings.HasPrefix(m.Version, "v") {
			return m.Version[1:]
		}
	}
	return "unknown"
}

func (n nvidia) Configure(ctx context.Context, c Case) ([]byte, error) {
	spec := rspec.Spec{
		Version: "1.0.2", Root: &rspec.Root{Path: "rootfs"}, Annotations: map[string]string{"cdi.k8s.io/conformance": c.Device},
		Process: &rspec.Process{Args: []string{"/bin/true"}, Cwd: "/", Env: []string{"PATH=/bin"}}, Linux: &rspec.Linux{},
	}
	text, err := json.Marshal(spec)
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(n.dir, "bundle/config.json"), text, 0o644), os.WriteFile(filepath.Join(n.dir, "cdi/case.yaml"), []byte(c.Spec), 0o644))
	}
	if err != nil {
		return nil, errors.Join(ErrBroken, err)
	}
	cmd := exec.CommandContext(ctx, n.program, "create", "--bundle", n.dir+"/bundle", "conformance")
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+n.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		words := oneLine(string(out))
		if _, after, ok := strings.Cut(words, "level=error msg="); ok {
			words = after
		}
		err = errors.New(words)
	}
	return taken(n.dir, err)
}

func (n nvidia) Close() error { return os.RemoveAll(n.dir) }
