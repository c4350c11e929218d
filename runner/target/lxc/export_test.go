package lxc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/liblxc"
)

// Bare prepares what a container without any plan needs, and returns what runs
// the probe in it once by lxc-execute: the measure for benchmarks.
func Bare(ctx context.Context, l *LXC, cgroup string) (func() error, error) {
	tc, err := l.Create(ctx, target.Config{Name: "bare", Cgroup: cgroup})
	if err != nil {
		return nil, err
	}
	c := tc.(*Container)
	sock, err := c.Listen()
	if err != nil {
		return nil, err
	}
	sock.Close()
	c.lines = append(c.ownLines(), liblxc.Base(cgroup, nil)...)
	if err := os.WriteFile(c.Outside("config"), []byte(c.Configuration()), 0o644); err != nil {
		return nil, err
	}
	program, err := exec.LookPath("lxc-execute")
	if err != nil {
		return nil, err
	}
	return func() error {
		return c.Sandbox.Output(ctx, strings.NewReader("{}"), program,
			"-P", c.Sandbox.Inside(c.Sandbox.Prefix()), "-n", c.Name, "-f", c.Inside("config"), "--", observe.OwnDir+"/probe")
	}, nil
}

// Enter runs a program of the running container's root in the container's mount
// namespace, and returns its standard output and error.
func Enter(ctx context.Context, c target.Container, program string, args ...string) (string, error) {
	in := c.(*Container)
	pid := fmt.Sprint(in.PID())
	args = append([]string{"--target", pid, "--mount", "--root", "--wd=/", "--", program}, args...)
	cmd := exec.CommandContext(ctx, in.prog.Nsenter, args...)
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
