package hook_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/hook"
)

func TestTwiceIsOnceAndCleanTakesAllBack(t *testing.T) { // F17, F18
	s := newStand(t)
	before := s.tree()
	full(s)
	s.run(hook.Prepare, hook.Apply)
	once := s.tree()
	for range 20 {
		s.run(hook.Prepare, hook.Apply)
	}
	if twice := s.tree(); twice != once {
		t.Errorf("run again, the root changed:\n%s\nto:\n%s", once, twice)
	}
	for _, want := range []string{"libcuda.so.1 120777", "ld.so.conf.d/00-cdi-hook.conf", "etc/ld.so.cache"} {
		if !strings.Contains(once, want) {
			t.Errorf("%q is not in the root:\n%s", want, once)
		}
	}
	s.run(hook.Clean)
	if after := s.tree(); after != before {
		t.Errorf("cleaned, the root is:\n%s\nwant:\n%s", after, before)
	}
	if _, err := os.Stat(s.file + ".made"); err == nil {
		t.Error("the journal is still there")
	}
}

func TestADeviceLessTakesItsThingsAway(t *testing.T) { // F18, leftover-empty-files
	s := newStand(t)
	full(s)
	s.run(hook.Prepare, hook.Apply)
	s.spec.MountPoints = s.spec.MountPoints[1:]
	s.spec.Links, s.spec.LibraryDirs = nil, nil
	s.run(hook.Prepare, hook.Apply)
	got := s.tree()
	for _, gone := range []string{"libcuda.so.1 ", "run/nvidia", "00-cdi-hook"} {
		if strings.Contains(got, gone) {
			t.Errorf("%q is still there:\n%s", gone, got)
		}
	}
	s.run(hook.Finish)
	if got := s.tree(); strings.Contains(got, "libcuda.so.550.1") {
		t.Errorf("stopped, an empty mount point is left:\n%s", got)
	}
}

func TestADriverUpgradeReplacesLinks(t *testing.T) { // F19, stale-version-link
	s := newStand(t)
	full(s)
	s.run(hook.Prepare, hook.Apply)
	s.spec.MountPoints[1].Path = "/usr/lib/gpu/libcuda.so.560.2"
	s.spec.Links[0].Target = "libcuda.so.560.2"
	s.run(hook.Prepare, hook.Apply)
	got := s.tree()
	if !strings.Contains(got, "-> libcuda.so.560.2") || strings.Contains(got, "550.1") {
		t.Errorf("after the upgrade:\n%s", got)
	}
}

func TestAFileOfTheContainerAtALinkIsAnError(t *testing.T) { // stale-version-link, B35
	s := newStand(t, "dir usr/lib/gpu")
	full(s)
	own := filepath.Join(s.root, "usr/lib/gpu/libcuda.so.1")
	if err := os.WriteFile(own, []byte("own"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.write()
	_, err := s.try(hook.Apply)
	if err == nil || !strings.Contains(err.Error(), "/usr/lib/gpu/libcuda.so.1") {
		t.Errorf("Run = %v; want an error that names the path", err)
	}
	if data, _ := os.ReadFile(own); string(data) != "own" {
		t.Errorf("the container's file is now %q", data)
	}
}

func TestMuslGetsItsPathFileAndItsOwnBack(t *testing.T) { // bug: musl
	for _, own := range []string{"", "/opt/lib:/lib\n"} {
		s := newStand(t, "dir lib")
		if err := os.WriteFile(filepath.Join(s.root, "lib/ld-musl-x86_64.so.1"), nil, 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(s.root, "etc/ld-musl-x86_64.path")
		if own != "" {
			if err := os.WriteFile(file, []byte(own), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		before := s.tree()
		full(s)
		s.run(hook.Prepare, hook.Apply, hook.Prepare, hook.Apply)
		data, err := os.ReadFile(file)
		want := "/lib\n/usr/local/lib\n/usr/lib\n/usr/lib/gpu\n"
		if own != "" {
			want = "/opt/lib\n/lib\n/usr/lib/gpu\n"
		}
		if err != nil || string(data) != want {
			t.Errorf("path file %q, %v; want %q", data, err, want)
		}
		if strings.Contains(s.tree(), "ld.so.cache") {
			t.Error("a musl root got a glibc cache")
		}
		s.run(hook.Clean)
		if after := s.tree(); after != before {
			t.Errorf("cleaned:\n%s\nwant:\n%s", after, before)
		}
	}
}

func TestTheHookFileMustBeTrusted(t *testing.T) { // A33
	s := newStand(t)
	full(s)
	files := filepath.Join(filepath.Dir(s.file), "above", "files")
	if err := os.MkdirAll(files, 0o755); err != nil {
		t.Fatal(err)
	}
	s.file = filepath.Join(files, "c1.json")
	for _, tc := range []struct {
		name string
		do   func()
	}{
		{"writable by others", func() { os.Chmod(s.file, 0o666) }},
		{"a link", func() { os.Rename(s.file, s.file+".x"); os.Symlink(s.file+".x", s.file) }},
		{"a field more", func() {
			os.WriteFile(s.file, []byte(`{"version":1,"container":"c1","exec":"/bin/sh","owner":{}}`), 0o644)
		}},
		{"a relative path", func() {
			os.WriteFile(s.file, []byte(`{"version":1,"container":"c1","owner":{},"links":[{"path":"../x","target":"y"}]}`), 0o644)
		}},
		{"an absolute target", func() {
			os.WriteFile(s.file, []byte(`{"version":1,"container":"c1","owner":{},"links":[{"path":"/x","target":"/y"}]}`), 0o644)
		}},
		{"another version (F27)", func() { os.WriteFile(s.file, []byte(`{"version":2}`), 0o644) }},
		{"cut", func() { os.WriteFile(s.file, []byte(`{"version":1`), 0o644) }},
		{"a directory that others can write to", func() { os.Chmod(files, 0o777) }},
		{"a directory above that others can write to", func() { os.Chmod(filepath.Dir(files), 0o777) }},
		{"a directory that another group can write to", func() { os.Chown(files, -1, 12345); os.Chmod(files, 0o775) }},
		{"a directory of another user", func() { os.Chown(files, 12345, -1) }},
		{"a file of another user", func() { os.Chown(s.file, 12345, -1) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if strings.Contains(tc.name, "another ") && os.Geteuid() != 0 && !strings.Contains(tc.name, "version") {
				skip(t, "needs root: a file of somebody else's")
			}
			os.Remove(s.file)
			s.write()
			defer os.Remove(s.file)
			defer func() {
				for _, dir := range []string{files, filepath.Dir(files)} {
					os.Chmod(dir, 0o755)
					os.Chown(dir, os.Geteuid(), os.Getegid())
				}
			}()
			tc.do()
			before := s.tree()
			var out, errOut bytes.Buffer
			code := runHook(t, &out, &errOut, "--stage", "apply", "--root", s.root, s.file)
			if code == hook.ExitOK || strings.Count(errOut.String(), "\n") != 1 || out.Len() > 0 {
				t.Errorf("exit %d, %q", code, errOut.String())
			}
			if after := s.tree(); after != before {
				t.Error("the root changed")
			}
		})
	}
}

func TestWrongCalls(t *testing.T) { // A15, B48
	s := newStand(t)
	full(s)
	s.write()
	for name, args := range map[string][]string{
		"no file":             {},
		"no hook type":        {s.file},
		"unknown stage":       {"--stage", "x", "--root", s.root, s.file},
		"the host's root":     {"--stage", "apply", "--root", "/", s.file},
		"a relative root":     {"--stage", "apply", "--root", "root", s.file},
		"an unclean root":     {"--stage", "apply", "--root", s.root + "/../root", s.file},
		"root and process":    {"--stage", "apply", "--root", s.root, "--pid", "1", s.file},
		"a relative file":     {"--stage", "apply", "--root", s.root, "c1.json"},
		"more after the file": {"--stage", "apply", "--root", s.root, s.file, "x"},
		"an unknown option":   {"--exec", "x", s.file},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			if code := runHook(t, &out, &errOut, args...); code != hook.ExitUsage {
				t.Errorf("exit %d: %s", code, errOut.String())
			}
		})
	}
}

// A journal that this program did not write stops a run before it changes
// anything: what is ours in the root is not known.
func TestF27AJournalOfSomebodyElse(t *testing.T) { // A33
	for name, tc := range map[string]struct {
		text string
		mode os.FileMode
		said string
	}{
		"another version":    {`{"version":1,"links":{"/a":"b"}}`, 0o644, "has version 1, this cdi-hook reads version 2"},
		"cut":                {`{"version":2,"li`, 0o644, "not JSON"},
		"writable by others": {`{"version":2}`, 0o666, "can be written by others"},
		"other types":        {`{"version":2,"links":[1]}`, 0o644, "journal"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			full(s)
			s.write()
			before := s.tree()
			if err := os.WriteFile(s.file+".made", []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(s.file+".made", tc.mode); err != nil {
				t.Fatal(err)
			}
			for _, stage := range []hook.Stage{hook.Prepare, hook.Apply, hook.Finish, hook.Clean} {
				if _, err := s.try(stage); err == nil || !strings.Contains(err.Error(), tc.said) {
					t.Errorf("%s: %v; want %q", stage, err, tc.said)
				}
			}
			if s.tree() != before {
				t.Error("the root changed")
			}
			s.canary()
		})
	}
}
