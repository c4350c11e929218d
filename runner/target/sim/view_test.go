package sim_test

import (
	"context"
	"io/fs"
	"testing"

	"gpurig/core/plan"
	"gpurig/fakehw/tree"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/targettest"
)

// The host's files are read as owner and mode have it, on the way too.
func TestTheContainersRootReadsWhatItMay(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		name  string
		idmap []plan.IDMap
		modes map[string]fs.FileMode // of the host's
		found bool
	}{
		{"all may", targettest.DefaultIDMap(), nil, true},
		{"root alone may", targettest.DefaultIDMap(), map[string]fs.FileMode{"/srv/dir/secret": 0o600}, false},
		{"root alone may go there", targettest.DefaultIDMap(), map[string]fs.FileMode{"/srv/dir": 0o700}, false},
		{"the host's root", nil, map[string]fs.FileMode{"/srv/dir/secret": 0o600}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			host := tree.New()
			if err := host.WriteFile("/srv/dir/secret", []byte("canary-1"), 0o644); err != nil {
				t.Fatal(err)
			}
			for p, m := range tc.modes {
				if err := host.Chmod(p, m); err != nil {
					t.Fatal(err)
				}
			}
			c, err := newSim(t).Create(ctx, target.Config{Name: "c1", Image: "glibc", Cgroup: "v2", IDMap: tc.idmap})
			if err != nil {
				t.Fatal(err)
			}
			p := plan.Plan{Mounts: []plan.Mount{{Source: "/srv/dir", Target: "/mnt", Dir: true, Options: []string{"ro", "bind"}}}}
			if err := c.Start(ctx, target.Host{Root: host, Sum: host.Sum}, p); err != nil {
				t.Fatal(err)
			}
			o, err := c.Observe(ctx, observe.Request{Texts: []string{"canary-1"}})
			if err != nil || len(o.Problems) > 0 || (len(o.Found) == 1) != tc.found {
				t.Errorf("found %+v, %v, problems %q", o.Found, err, o.Problems)
			}
		})
	}
}
