package cachedir

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const alice, bob = 4242, 4343

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to others")
	}
}

// put makes a file, or a folder where the name ends with a slash, of an owner.
func put(t *testing.T, path string, uid int, mode os.FileMode) {
	t.Helper()
	var err error
	if strings.HasSuffix(path, "/") {
		err = os.Mkdir(path, 0o700)
	} else {
		err = os.WriteFile(path, []byte("x"), 0o600)
	}
	if err := errors.Join(err, os.Chown(path, uid, uid), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

// A43: what another user owns or could write is no cache, wherever on the path that is.
func TestCheck(t *testing.T) {
	needRoot(t)
	for _, tc := range []struct {
		name, at string
		make     func(dir string)
		bad      string // of the error; empty: trusted
	}{
		{name: "root's", at: "a/f", make: func(d string) { put(t, d+"/a/", 0, 0o755); put(t, d+"/a/f", 0, 0o755) }},
		{name: "not there yet", at: "a/b/c", make: func(d string) { put(t, d+"/a/", 0, 0o700) }},
		{name: "another's folder", at: "a/b", make: func(d string) { put(t, d+"/a/", alice, 0o755); put(t, d+"/a/b", 0, 0o755) }, bad: "/a belongs to user 4242"},
		{name: "another's folder, and nothing in it yet", at: "a/b", make: func(d string) { put(t, d+"/a/", alice, 0o755) }, bad: "/a belongs to user 4242"},
		{name: "another's file", at: "f", make: func(d string) { put(t, d+"/f", alice, 0o644) }, bad: "/f belongs to user 4242"},
		{name: "open to all", at: "a/f", make: func(d string) { put(t, d+"/a/", 0, 0o777); put(t, d+"/a/f", 0, 0o755) }, bad: "/a can be written by others"},
		{name: "open to all and sticky, on the way", at: "a/f", make: func(d string) { put(t, d+"/a/", 0, 0o777|os.ModeSticky); put(t, d+"/a/f", 0, 0o755) }},
		{name: "open to all and sticky, and what is asked for", at: "a", make: func(d string) { put(t, d+"/a/", 0, 0o777|os.ModeSticky) }, bad: "/a can be written by others"},
		{name: "a file open to all", at: "f", make: func(d string) { put(t, d+"/f", 0, 0o666) }, bad: "/f can be written by others"},
		{name: "open to a group", at: "a/f", make: func(d string) {
			put(t, d+"/a/", 0, 0o775)
			put(t, d+"/a/f", 0, 0o755)
			_ = os.Chown(d+"/a", 0, bob)
		}, bad: "/a can be written by others"},
		{name: "open to root's group", at: "a/f", make: func(d string) { put(t, d+"/a/", 0, 0o775); put(t, d+"/a/f", 0, 0o755) }},
		{name: "a link to another's", at: "l/f", make: func(d string) { put(t, d+"/a/", alice, 0o755); _ = os.Symlink(d+"/a", d+"/l") }, bad: "/a belongs to user 4242"},
		{name: "another's link to root's", at: "s/l", make: func(d string) {
			put(t, d+"/a/", 0, 0o755)
			put(t, d+"/s/", 0, 0o777|os.ModeSticky)
			_ = errors.Join(os.Symlink("../a", d+"/s/l"), os.Lchown(d+"/s/l", alice, alice))
		}, bad: "/s/l belongs to user 4242"},
		{name: "root's link to root's", at: "l/f", make: func(d string) {
			put(t, d+"/a/", 0, 0o755)
			put(t, d+"/a/f", 0, 0o644)
			_ = os.Symlink("a", d+"/l")
		}},
		{name: "links that go round", at: "l", make: func(d string) { _ = os.Symlink("l", d+"/l") }, bad: "too many levels"},
		{name: "dots", at: "a/../f", make: func(d string) { put(t, d+"/f", alice, 0o644) }, bad: "/f belongs to user 4242"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			tc.make(dir)
			err := Check(dir + "/" + tc.at)
			if tc.bad == "" && err != nil || tc.bad != "" && (err == nil || !strings.Contains(err.Error(), tc.bad) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("Check() = %v; want %q", err, tc.bad)
			}
			if tc.bad != "" && tc.name != "links that go round" && !errors.Is(err, ErrUntrusted) {
				t.Errorf("Check() = %v; want ErrUntrusted", err)
			}
		})
	}
}

// A43: TestPlaces runs as root with a home that sudo -E has kept, and as users with homes of
// their own and of others.
func TestPlaces(t *testing.T) {
	if out := os.Getenv("GPURIG_TEST_PLACES"); out != "" { // we are such a user
		dirs, why := Places()
		text := strings.Join(dirs, "\n") + "\n--\n" + fmt.Sprint(why)
		if err := os.WriteFile(out, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	needRoot(t)
	base := t.TempDir()
	if err := errors.Join(os.Chmod(base, 0o755), os.Chmod(filepath.Dir(base), 0o755)); err != nil {
		t.Fatal(err)
	}
	for home, uid := range map[string]int{"alice": alice, "bob": bob, "root": 0} {
		put(t, filepath.Join(base, home)+"/", uid, 0o755)
	}
	put(t, base+"/tmp/", 0, 0o777|os.ModeSticky)
	put(t, base+"/squat/", 0, 0o777|os.ModeSticky)
	put(t, fmt.Sprintf("%s/squat/gpurig-cache-%d/", base, alice), bob, 0o755)
	system := System
	if Check(System) != nil {
		system = "" // this machine's own is not root's alone
	}
	temporary := func(uid int) string { return fmt.Sprintf("%s/tmp/gpurig-cache-%d", base, uid) }
	for _, tc := range []struct {
		name, home, tmp string
		uid             int
		namespace       bool
		want            []string
		why             string
	}{
		{name: "root at home", home: "root", want: []string{base + "/root/.cache/gpurig", temporary(0), system}},
		{name: "root with the home of another", home: "alice", want: []string{temporary(0), system}, why: "/alice belongs to user 4242, not to root"},
		{name: "a user at home", home: "alice", uid: alice, want: []string{base + "/alice/.cache/gpurig", temporary(alice)}},
		{name: "a user with root's home", home: "root", uid: alice, want: []string{base + "/root/.cache/gpurig", temporary(alice)}}, // which cannot be written to
		{name: "a user with the home of another", home: "bob", uid: alice, want: []string{temporary(alice)}, why: "/bob belongs to user 4343"},
		{name: "and another was there first", home: "bob", tmp: "squat", uid: alice, want: nil, why: "/squat/gpurig-cache-4242 belongs to user 4343"},
		{name: "no home", uid: alice, want: []string{temporary(alice)}, why: "HOME"},
		{name: "root of a namespace of its own", home: "alice", uid: alice, namespace: true, want: []string{base + "/alice/.cache/gpurig", temporary(0), system}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := filepath.Join(base, "alice", "out")
			if tc.uid != alice {
				out = filepath.Join(base, "out")
			}
			_ = os.Remove(out)
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestPlaces$")
			cmd.Env = []string{"GPURIG_TEST_PLACES=" + out, "TMPDIR=" + filepath.Join(base, "tmp")}
			if tc.tmp != "" {
				cmd.Env[1] = "TMPDIR=" + filepath.Join(base, tc.tmp)
			}
			if tc.home != "" {
				cmd.Env = append(cmd.Env, "HOME="+filepath.Join(base, tc.home))
			}
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{}
			if tc.namespace {
				cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
				cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: tc.uid, Size: 1}}
				cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: tc.uid, Size: 1}}
			}
			if tc.uid != 0 && !tc.namespace {
				cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(tc.uid), Gid: uint32(tc.uid)}
			}
			if said, err := cmd.CombinedOutput(); err != nil && tc.namespace {
				t.Skipf("no user namespace: %v: %s", err, said)
			} else if err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			data, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			list, why, _ := strings.Cut(string(data), "\n--\n")
			want := slices.DeleteFunc(slices.Clone(tc.want), func(s string) bool { return s == "" || tc.namespace && s == system })
			got := slices.DeleteFunc(strings.Split(list, "\n"), func(s string) bool { return s == "" || tc.namespace && s == system })
			if !slices.Equal(got, want) || !strings.Contains(why, tc.why) {
				t.Errorf("Places() = %q, %s; want %q, %q", got, why, want, tc.why)
			}
		})
	}
}

// What make install puts apart from the program is found there, and what lies beside it
// is taken first.
func TestBesideOfWhatIsInstalled(t *testing.T) {
	dir := t.TempDir()
	for _, p := range []string{"bin", "lib/gpurig/key"} {
		if err := os.MkdirAll(filepath.Join(dir, p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{"bin/gpurig", "bin/both", "lib/gpurig/both", "lib/gpurig/one", "lib/gpurig/key/two"} {
		put(t, filepath.Join(dir, p), os.Geteuid(), 0o755)
	}
	for name, want := range map[string]string{"one": "lib/gpurig/one", "key/two": "lib/gpurig/key/two", "both": "bin/both"} {
		if got, err := besideOf(dir+"/bin/gpurig", name); err != nil || got != filepath.Join(dir, want) {
			t.Errorf("besideOf(%q) = %q, %v; want %s", name, got, err, want)
		}
	}
	if got, err := besideOf(dir+"/bin/gpurig", "none"); !errors.Is(err, os.ErrNotExist) || got != dir+"/bin/none" {
		t.Errorf("besideOf(none) = %q, %v; want the path in bin and that it is not there", got, err)
	}
	if os.Geteuid() != 0 {
		return
	}
	put(t, dir+"/lib/gpurig/planted", alice, 0o755)
	if got, err := besideOf(dir+"/bin/gpurig", "planted"); !errors.Is(err, ErrUntrusted) {
		t.Errorf("besideOf(planted) = %q, %v; want ErrUntrusted", got, err)
	}
}

// A43: programs that lie beside ours are as trusted as ours.
func TestBesideOf(t *testing.T) {
	needRoot(t)
	for _, tc := range []struct {
		name          string
		ours, it      int
		ourMode, mode os.FileMode
		bad           string
		missing       bool
	}{
		{name: "root's", ourMode: 0o755, mode: 0o755},
		{name: "a user's build, run by root", ours: alice, it: alice, ourMode: 0o755, mode: 0o755},
		{name: "the same, written with a umask of 002", ours: alice, it: alice, ourMode: 0o775, mode: 0o775},
		{name: "another's beside root's", it: alice, ourMode: 0o755, mode: 0o755, bad: "belongs to user 4242"},
		{name: "another's beside a user's", ours: bob, it: alice, ourMode: 0o755, mode: 0o755, bad: "belongs to user 4242"},
		{name: "open to all", ourMode: 0o755, mode: 0o757, bad: "can be written by others"},
		{name: "not there", ourMode: 0o755, missing: true, bad: "no such file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir+"/gpurig", tc.ours, tc.ourMode)
			if !tc.missing {
				put(t, dir+"/other", tc.it, tc.mode)
			}
			got, err := besideOf(dir+"/gpurig", "other")
			if tc.bad == "" && (err != nil || got != dir+"/other") || tc.bad != "" && (err == nil || !strings.Contains(err.Error(), tc.bad)) {
				t.Errorf("besideOf() = %q, %v; want %q", got, err, tc.bad)
			}
		})
	}
}
