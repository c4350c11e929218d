package lxd_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/runner/lxdapi"
	"gpurig/runner/target"
	"gpurig/runner/target/lxd"
	"gpurig/runner/target/targettest"
)

// What fails at the daemon and is no fault of the product: the verdict is broken,
// with the daemon's own words.
func TestFaultsOfTheDaemonAreBroken(t *testing.T) { each(t, faultsAreBroken) }

func faultsAreBroken(t *testing.T, f lxdapi.Flavour) {
	t.Parallel()
	ctx := context.Background()
	config := target.Config{Name: "c2", Image: "glibc", Cgroup: "v1"}
	for _, c := range []struct {
		name  string
		fail  func(t *testing.T, l *lxd.LXD, api *lxdapi.Client, prefix string) error
		want  string // LXD's words
		incus string // Incus's; empty: the same
	}{
		{"image missing", func(t *testing.T, l *lxd.LXD, api *lxdapi.Client, prefix string) error {
			return api.DeleteImage(ctx, prefix+"-glibc")
		}, "not found", "image not provided"},
		{"container name taken", func(t *testing.T, l *lxd.LXD, api *lxdapi.Client, prefix string) error {
			return api.Create(ctx, prefix+"-c2", prefix+"-glibc", lxdapi.Instance{
				Devices: map[string]lxdapi.Device{"root": {"type": "disk", "path": "/", "pool": prefix}},
			})
		}, "already", "unique constraint failed: instances.project_id, instances.name"},
		{"disk full", func(t *testing.T, l *lxd.LXD, api *lxdapi.Client, prefix string) error {
			return lxd.Fill(ctx, l, "v1")
		}, "out of disk space", ""},
		{"storage pool gone", func(t *testing.T, l *lxd.LXD, api *lxdapi.Client, prefix string) error {
			return errors.Join(api.Delete(ctx, prefix+"-c1"), api.DeleteImage(ctx, prefix+"-glibc"), api.DeletePool(ctx, prefix))
		}, "not found", "image not provided"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := c.want
			if f == lxdapi.Incus && c.incus != "" {
				want = c.incus
			}
			before := leftovers(t)
			l := requireLXD(t, f, "v1").l
			first, _ := begin(t, l)
			if err := first.Stop(ctx); err != nil {
				t.Fatal(err)
			}
			api, prefix, err := lxd.API(ctx, l, "v1")
			if err != nil {
				t.Fatal(err)
			}
			if err := c.fail(t, l, api, prefix); err != nil {
				t.Fatal(err)
			}
			_, err = l.Create(ctx, config)
			if !errors.Is(err, target.ErrBroken) || !strings.Contains(strings.ToLower(err.Error()), want) {
				t.Errorf("Create() = %v; want ErrBroken with %q", err, want)
			}
			if err := l.Close(ctx); err != nil {
				t.Errorf("Close() = %v", err)
			}
			for _, left := range leftovers(t) {
				if strings.Contains(left, prefix) {
					t.Errorf("left: %s; before: %q", left, before)
				}
			}
		})
	}
}

// A disk that is full when a container starts is no answer of the product either.
func TestDiskFullAtAStart(t *testing.T) {
	t.Parallel() // LXD takes half a minute to give up
	ctx := context.Background()
	l := requireLXD(t, lxdapi.LXD, "v1").l
	c, h := begin(t, l)
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if err := lxd.Fill(ctx, l, "v1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(ctx, h, targettest.Plan(targettest.Version, true)); !errors.Is(err, target.ErrBroken) || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Start() = %v; want ErrBroken with the cause", err)
	}
}

// Nor is a daemon that does not answer its own hook in time, on a machine that has
// other things to do.
func TestDaemonSilentAtAStart(t *testing.T) {
	t.Parallel() // LXD's hook takes half a minute to give up
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	l := requireLXD(t, lxdapi.LXD, "v1").l
	c, h := begin(t, l)
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	for range 20 { // a hook may be through before the daemon is stopped
		frozen := make(chan error, 1)
		go func() { frozen <- lxd.Freeze(ctx, l, "v1") }()
		err := c.Start(ctx, h, targettest.Plan(targettest.Version, true))
		if ferr := <-frozen; ferr != nil {
			t.Fatal(ferr)
		}
		if err == nil {
			if err := c.Stop(ctx); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if !errors.Is(err, target.ErrBroken) || !strings.Contains(err.Error(), "Error: ") {
			t.Errorf("Start() = %v; want ErrBroken with the words of LXD's hook", err)
		}
		return
	}
	t.Error("no hook was held up: nothing is shown by this test")
}
