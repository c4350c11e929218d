package lxd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpurig/core/plan"
	"gpurig/runner/image"
	"gpurig/runner/lxdapi"
	"gpurig/runner/target"
	"gpurig/runner/target/lxd"
	"gpurig/runner/target/sim"
	"gpurig/runner/target/targettest"
)

// user returns a target that uses the daemon at socket.
func user(t *testing.T, f lxdapi.Flavour, socket string) *lxd.LXD {
	t.Helper()
	dir, err := targettest.Programs()
	if err != nil {
		t.Fatal(err)
	}
	l := lxd.New(lxd.Options{Flavour: f, Socket: socket, Images: image.NewSet(nil), Probe: filepath.Join(dir, "gpurig-probe"), Hook: filepath.Join(dir, "cdi-hook")})
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

// standing starts a daemon that stands for one that others use, and returns its socket.
func standing(t *testing.T, f lxdapi.Flavour, cgroup string) string {
	t.Helper()
	socket, err := lxd.Socket(context.Background(), requireLXD(t, f, cgroup).l, cgroup)
	if err != nil {
		t.Fatal(err)
	}
	return socket
}

// state is all that a daemon has, and the machine of the run with a process id.
func state(t *testing.T, socket string, pid int) string {
	t.Helper()
	api, err := lxdapi.Dial(context.Background(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	var out []string
	for kind, list := range map[string]func(context.Context) ([]string, error){"container": api.Instances, "image": api.Aliases, "pool": api.Pools} {
		names, err := list(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			out = append(out, kind+" "+n)
		}
	}
	for _, pattern := range []string{"/var/lib/gpurig-%d-*", "/sys/fs/cgroup/*/gpurig-%d-*", "/sys/fs/cgroup/gpurig-%d-*"} {
		paths, err := filepath.Glob(fmt.Sprintf(pattern, pid))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, paths...)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// A daemon that runs already makes the same containers, and nothing is left in it.
func TestDaemonThatRunsIsUsedAndLeftAsItWas(t *testing.T) { each(t, usedAndLeftAsItWas) }

func usedAndLeftAsItWas(t *testing.T, f lxdapi.Flavour) {
	ctx := context.Background()
	socket := standing(t, f, "v1")
	before := state(t, socket, os.Getpid())
	l := user(t, f, socket)
	s, err := sim.NewLXD(image.NewSet(nil))
	if err != nil {
		t.Fatal(err)
	}
	stories, err := targettest.Stories()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("stories", func(t *testing.T) {
		for _, story := range stories {
			if f == lxdapi.Incus && story.Name != stories[0].Name {
				continue // its own daemon has told them all already
			}
			t.Run(story.Name, func(t *testing.T) {
				t.Parallel()
				if story.Config.Cgroup == "v2" {
					t.Skip("the daemon's containers have v1")
				}
				want, err := targettest.Tell(ctx, s, story)
				if err != nil {
					t.Fatal(err)
				}
				got, err := targettest.Tell(ctx, l, story)
				if err != nil {
					t.Fatal(err)
				}
				targettest.Compare(t, want, got)
			})
		}
	})
	begin(t, l) // and one that is left running
	during := state(t, socket, os.Getpid())
	for _, want := range []string{"container gpurig-", "image gpurig-", "/var/lib/gpurig-"} {
		if !strings.Contains(during, want) {
			t.Errorf("while it is used there is no %q:\n%s", want, during)
		}
	}
	if err := l.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if after := state(t, socket, os.Getpid()); after != before {
		t.Errorf("after it was used there is\n%s\nbefore there was\n%s", after, before)
	}
}

// The daemon of the machine says which liblxc it has, to who writes for it; what a
// target cannot do says whose target it is.
func TestDaemonThatRunsSaysWhatItIs(t *testing.T) { each(t, saysWhatItIs) }

func saysWhatItIs(t *testing.T, f lxdapi.Flavour) {
	socket := standing(t, f, "v1")
	t.Setenv(strings.ToUpper(string(f))+"_SOCKET", socket)
	if v, ok := lxd.Running(t.Context(), f); !ok || v.Major < 5 {
		t.Errorf("Running() = %v, %v; want the version of its liblxc", v, ok)
	}
	t.Setenv("LXD_SOCKET", socket)
	t.Setenv("INCUS_SOCKET", socket)
	other := lxdapi.LXD
	if f == other {
		other = lxdapi.Incus
	}
	if v, ok := lxd.Running(t.Context(), other); ok {
		t.Errorf("Running(%s) = %v of a daemon that is %s", other, v, f)
	}
	c, h := begin(t, user(t, f, socket))
	p := targettest.Plan(targettest.Version, false)
	p.Mounts = append(p.Mounts, plan.Mount{Source: "tmpfs", Type: "tmpfs", Target: "/tmp/data", Options: []string{"nosuid", "nodev"}})
	err := c.Plug(t.Context(), h, p)
	cannot, ok := errors.AsType[*target.CannotError](err)
	if !ok || cannot.Target != string(f) {
		t.Errorf("Plug() of a tmpfs = %v; want a CannotError of target %s", err, f)
	}
}

// What a killed run left in a daemon that goes on, the next one removes. The victim
// is this test binary again.
func TestF29HarnessKilledWithADaemonThatGoesOn(t *testing.T) {
	if socket := targettest.Victim(); socket != "" {
		begin(t, user(t, lxdapi.LXD, socket))
		targettest.AwaitDeath()
	}
	socket := standing(t, lxdapi.LXD, "v1")
	const nobody = 0 // no process has that number
	before := state(t, socket, nobody)
	victim := targettest.StartVictim(t, socket)
	targettest.Kill(t, victim)
	if state(t, socket, victim.Process.Pid) == before {
		t.Error("a killed run left nothing: nothing is shown by this test")
	}
	l := user(t, lxdapi.LXD, socket)
	if err := l.Can(context.Background(), target.Config{Name: "c", Cgroup: "v1"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if after := state(t, socket, victim.Process.Pid); after != before {
		t.Errorf("after the next run there is\n%s\nbefore there was\n%s", after, before)
	}
}

// A socket that the user named is that, or the target says why it cannot.
func TestSocketThatCannotServe(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	deaf := filepath.Join(t.TempDir(), "deaf")
	l, err := net.Listen("unix", deaf)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close() // as a daemon that was killed leaves its socket
	old := filepath.Join(t.TempDir(), "old")
	lo, err := net.Listen("unix", old)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"type":"sync","metadata":{"auth":"trusted","api_extensions":["etag"],"environment":{"server":"lxd","server_version":"3.0.3"}}}`)
	})}
	go server.Serve(lo)
	defer server.Close()
	for socket, want := range map[string]string{
		filepath.Join(t.TempDir(), "none"): "no such file or directory",
		deaf:                               "connection refused",
		"/dev/null":                        "connection refused",
		old:                                "lxd 3.0.3 is too old",
	} {
		err := user(t, lxdapi.LXD, socket).Can(context.Background(), target.Config{Name: "c", Cgroup: "v1"})
		cerr, ok := errors.AsType[*target.CannotError](err)
		if !errors.Is(err, target.ErrBroken) {
			t.Errorf("%s: Can() = %v; want ErrBroken", socket, err)
		}
		if !ok || !strings.Contains(cerr.Why, socket) || !strings.Contains(cerr.Why, want) || !strings.Contains(cerr.Hint, "--lxd-socket") {
			t.Errorf("%s: Can() = %v; want that it cannot, with %q and a hint", socket, err, want)
		}
		// Who opens the target hears of it before anything runs.
		_, err = lxd.Open(context.Background(), lxd.Options{Socket: socket})
		if cerr, ok = errors.AsType[*target.CannotError](err); !ok || !strings.Contains(cerr.Why, want) {
			t.Errorf("%s: Open() = %v; want that it cannot, with %q", socket, err, want)
		}
	}
}

// The containers of a daemon that runs have the cgroups that it has.
func TestDaemonThatRunsHasOneCgroupVersion(t *testing.T) {
	socket := standing(t, lxdapi.LXD, "v2")
	l := user(t, lxdapi.LXD, socket)
	if err := l.Can(context.Background(), target.Config{Name: "c", Cgroup: "v2"}); err != nil {
		t.Errorf("v2: %v", err)
	}
	err := l.Can(context.Background(), target.Config{Name: "c", Cgroup: "v1"})
	if cerr, ok := errors.AsType[*target.CannotError](err); !ok || !strings.Contains(cerr.Why, "have cgroup v2, and v1 is asked for") {
		t.Errorf("v1: Can() = %v", err)
	}
}

func TestWhichSocket(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     lxd.Options
		env   map[string]string
		want  string
		asked bool
	}{
		{"named", lxd.Options{Flavour: lxdapi.LXD, Socket: "/s"}, map[string]string{"LXD_SOCKET": "/other"}, "/s", true},
		{"private", lxd.Options{Flavour: lxdapi.LXD, Socket: lxd.Private}, map[string]string{"LXD_SOCKET": "/other"}, "", false},
		{"a program", lxd.Options{Flavour: lxdapi.LXD, Daemon: "./lxd"}, map[string]string{"LXD_SOCKET": "/other"}, "", false},
		{"both", lxd.Options{Flavour: lxdapi.LXD, Daemon: "./lxd", Socket: "/s"}, nil, "/s", true},
		{"LXD_SOCKET", lxd.Options{Flavour: lxdapi.LXD}, map[string]string{"LXD_SOCKET": "/s", "LXD_DIR": "/d"}, "/s", true},
		{"LXD_DIR", lxd.Options{Flavour: lxdapi.LXD}, map[string]string{"LXD_DIR": "/d"}, "/d/unix.socket", true},
		{"INCUS_SOCKET", lxd.Options{Flavour: lxdapi.Incus}, map[string]string{"LXD_SOCKET": "/l", "INCUS_SOCKET": "/i"}, "/i", true},
		{"INCUS_DIR", lxd.Options{Flavour: lxdapi.Incus}, map[string]string{"INCUS_DIR": "/d"}, "/d/unix.socket", true},
	} {
		got, asked := lxd.Found(c.o, func(k string) string { return c.env[k] })
		if got != c.want || asked != c.asked {
			t.Errorf("%s: %q, %v; want %q, %v", c.name, got, asked, c.want, c.asked)
		}
	}
}
