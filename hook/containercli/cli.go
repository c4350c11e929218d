// Package containercli is a stand-in for NVIDIA's nvidia-container-cli, which LXD's
// nvidia.runtime, LXC's hook nvidia and NVIDIA's container runtime hook (docker run
// --gpus) call: its commands info, list and configure.
//
// Configure plans with core/legacy, as every container is planned for. It mounts what
// the plan has, and cdi-hook, run as a program with its own limits, makes mount points,
// links and the loader's cache. Nothing of the image is read or run by this program:
// it resolves the paths of mount points inside the container's root (inroot.Attach).
//
// What is made in the root stays there, as with NVIDIA's program: its callers do not
// call when the container stops. Needs Linux 5.12 (mount_setattr).
package containercli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host/osroot"
	"gpurig/core/passthrough"
	"gpurig/core/refuse"
	"gpurig/core/show"
)

const usage = `usage: nvidia-container-cli [OPTION...] info [--csv]
       nvidia-container-cli [OPTION...] list [OPTION...]
       nvidia-container-cli [OPTION...] configure [OPTION...] ROOTFS

gpurig's stand-in for NVIDIA's program of this name, for its callers: LXD's
nvidia.runtime, LXC's hook nvidia, and docker run --gpus. See docs/hosts.md.
`

// timeout bounds one call: container managers wait for ever.
const timeout = 30 * time.Second

// A call is one run of the program.
type call struct {
	options
	out, err io.Writer
	log      io.Writer
	lib      nvml.Interface
	host     *passthrough.Host
}

// Main runs the program and returns its exit code, 0 or 1.
func Main(args []string, out, errOut io.Writer) int {
	c := &call{out: out, err: errOut, log: io.Discard}
	err := c.main(args)
	for _, e := range refuse.As(err) {
		if e.Hint != "" {
			defer show.Fprintf(errOut, "hint: %s\n", e.Hint)
		}
	}
	if err == nil {
		return 0
	}
	show.Fprintf(errOut, "nvidia-container-cli: %v\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	return 1
}

func (c *call) main(args []string) (err error) {
	if c.options, err = parse(args); err != nil {
		return err
	}
	if c.debug != "" {
		f, err := os.OpenFile(c.debug, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return fmt.Errorf("--debug: %w", err)
		}
		defer f.Close()
		c.log = f
	}
	c.logf("%q", args)
	if err = c.run(); err != nil {
		c.logf("error: %v", err)
	}
	return err
}

func (c *call) run() error {
	switch c.command {
	case "help":
		_, err := io.WriteString(c.out, usage)
		return err
	case "version":
		_, err := io.WriteString(c.out, "cli-version: gpurig\n")
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, fmt.Errorf("not done after %s", timeout))
	defer cancel()
	if c.loadModules {
		c.load(ctx)
	}
	root, err := osroot.New("/")
	if err != nil {
		return err
	}
	defer root.Close()
	c.lib = nvml.New()
	c.host = passthrough.New(root, c.lib, passthrough.HostOptions{DriverRoot: c.root})
	switch c.command {
	case "info":
		return c.info()
	case "list":
		return c.list(ctx)
	}
	return c.configure(ctx)
}

func (c *call) logf(format string, args ...any) { show.Fprintf(c.log, format+"\n", args...) }

var errNoDriver = errors.New("NVIDIA's driver does not answer")
