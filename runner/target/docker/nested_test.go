package docker_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurig/core/plan"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/docker"
	"gpurig/runner/target/lxd"
	"gpurig/runner/target/sandbox"
	"gpurig/runner/target/targettest"
)

// outer starts a container of LXD that may nest, with the GPU of h that p gives,
// and a Docker engine in it. It returns the engine's socket as we see it.
func outer(t *testing.T, c target.Config, h target.Host, p plan.Plan) (*lxd.Container, string) {
	t.Helper()
	if _, err := exec.LookPath("lxd"); err != nil {
		cannot(t, "nested: %v", err)
	}
	r := requireDocker(t, target.Config{Name: "c", Cgroup: c.Cgroup})
	dir, err := targettest.Programs()
	if err != nil {
		t.Fatal(err)
	}
	l := lxd.New(lxd.Options{Images: r.images, Probe: filepath.Join(dir, "gpurig-probe"), Hook: filepath.Join(dir, "cdi-hook"), Socket: lxd.Private, Nesting: true})
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if err := l.Can(t.Context(), c); err != nil {
		cannot(t, "nested: %v", err)
	}
	made, err := l.Create(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Start(t.Context(), h, p); err != nil {
		t.Fatal(err)
	}
	o := made.(*lxd.Container)
	const usr = lxd.Machine + "/usr"
	if err := o.Exec(t.Context(), "/bin/busybox", "mkdir", "-p", "/inner/bin"); err != nil {
		t.Fatal(err)
	}
	engineInto(t, o.Root()+"/inner/bin")
	script := strings.Join([]string{
		// As an ordinary first process does where the manager has mounted none.
		"[ " + c.Cgroup + " = v2 ] || { mount -t tmpfs cgroup /sys/fs/cgroup && /bin/busybox mkdir /sys/fs/cgroup/devices && " +
			"mount -t cgroup -o devices cgroup /sys/fs/cgroup/devices; } || exit 1",
		"/bin/busybox ln -s " + usr + "/lib/x86_64-linux-gnu/*.so.* /usr/lib/", // a default folder of the loader
		"export PATH=/inner/bin:" + usr + "/sbin:" + usr + "/bin:/bin",
		"dockerd -H unix:///inner/engine --data-root /inner/data --exec-root /run/inner --pidfile /inner/pid --iptables=false " +
			"--ip6tables=false --bridge=none --storage-driver vfs --exec-opt native.cgroupdriver=cgroupfs >/inner/log 2>&1 </dev/null &",
	}, "\n")
	if err := o.Exec(t.Context(), "/bin/sh", "-c", script); err != nil {
		t.Fatal(err)
	}
	socket := o.Root() + "/inner/engine"
	for range 80 {
		if version, err := docker.Ask(t.Context(), socket); err == nil {
			t.Logf("the inner engine is Docker %s", version)
			return o, socket
		}
		time.Sleep(100 * time.Millisecond)
	}
	log, _ := os.ReadFile(o.Root() + "/inner/log")
	t.Fatalf("the inner engine does not answer: %s", log)
	return nil, ""
}

// engineInto copies an engine that is first on the path and no part of the machine's
// own /usr, which the outer container has.
func engineInto(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"dockerd", "containerd", "containerd-shim-runc-v2"} {
		at, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(at, "/usr/") {
			continue
		}
		data, err := os.ReadFile(at)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A GPU that LXD gives to a container (security.nesting) is seen and opened by a
// container of Docker in it; what the outer one may not open, the inner one may
// not either, whatever its engine allows.
//
// Seen with Docker 20.10.24, 26.1.5 and 28.5.2, and LXD 5.0.2: in a user namespace runc writes no rule
// and binds the nodes; on cgroup v1 without one the kernel takes no rule that is
// wider than the outer one's, and the inner container does not start.
func TestDockerInsideLXD(t *testing.T) {
	outerOf := func(cgroup string, ids []plan.IDMap) target.Config {
		return target.Config{Name: "o", Image: "glibc", Cgroup: cgroup, IDMap: ids}
	}
	for _, tc := range []struct {
		name    string
		c       target.Config
		refused string // what becomes of an inner container that is given the uvm node
	}{
		{"privileged, cgroup v1", outerOf("v1", nil), "devices.allow: operation not permitted"},
		{"idmapped, cgroup v1", outerOf("v1", targettest.DefaultIDMap()), ""},
		{"privileged, cgroup v2", outerOf("v2", nil), ""},
		{"idmapped, cgroup v2", outerOf("v2", targettest.DefaultIDMap()), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := targettest.Plan(targettest.Version, false)
			for i, n := range p.Nodes {
				if n.Path == "/dev/nvidia-uvm" {
					p.Nodes[i].Permissions = "" // the negative twin: the outer one may not open it
				}
			}
			dir, err := targettest.Programs()
			if err != nil {
				t.Fatal(err)
			}
			o, socket := outer(t, tc.c, host(t, targettest.Version), p)
			library := targettest.LibDir + "/libcuda.so." + targettest.Version
			inner := func(nodes ...string) (*sandbox.Line, error) {
				return docker.Inner(t.Context(), socket, o.Root(), nodes, []string{library}, filepath.Join(dir, "gpurig-probe"))
			}
			nodes := []string{"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"}
			line, err := inner(nodes...)
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("start with a node that the outer one may not open = %v; want %q", err, tc.refused)
				}
				nodes = nodes[:2]
				line, err = inner(nodes...)
			}
			if err != nil {
				log, _ := os.ReadFile(o.Root() + "/inner/log")
				t.Fatalf("%v\n%s", err, log)
			}
			defer line.Close()
			got, err := line.Look(observe.Request{Manager: observe.Docker})
			if err != nil {
				t.Fatal(err)
			}
			want := observe.Observation{Mounts: []observe.Mount{{Target: library, Type: "file", Options: []string{"ro"}}}}
			for _, n := range p.Nodes {
				if !slices.Contains(nodes, n.Path) {
					continue
				}
				open := observe.Allowed
				if n.Permissions == "" {
					open = observe.Denied
				}
				want.Nodes = append(want.Nodes, observe.Node{Path: n.Path, Type: n.Type, Num: n.Num, Mode: n.Mode, Open: open})
				if len(tc.c.IDMap) > 0 {
					want.Mounts = append(want.Mounts, observe.Mount{Target: n.Path, Type: "char", Options: []string{"rw"}})
				}
			}
			for _, d := range observe.Diff(want, got) {
				t.Errorf("want | got: %s", d)
			}
		})
	}
}
