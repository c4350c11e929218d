package ldcache

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpurig/fakehw/elfgen"
)

// tree is a root in a folder of this machine. Links in directories are followed by
// resolve before they get here.
type tree string

func (r tree) Lstat(p string) (Info, error)       { return machine{}.Lstat(string(r) + p) }
func (r tree) Readlink(p string) (string, error)  { return os.Readlink(string(r) + p) }
func (r tree) ReadFile(p string) ([]byte, error)  { return os.ReadFile(string(r) + p) }
func (r tree) ReadDir(p string) ([]string, error) { return machine{}.ReadDir(string(r) + p) }
func (r tree) Open(p string) (Reader, error)      { return machine{}.Open(string(r) + p) }
func (r tree) put(t *testing.T, p, content string) {
	t.Helper()
	file := string(r) + p
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if target, ok := strings.CutPrefix(content, "-> "); ok {
		err = errors.Join(err, os.Symlink(target, file))
	} else {
		err = errors.Join(err, os.WriteFile(file, []byte(content), 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// list has the loader of a root list what a library needs.
func (r tree) list(t *testing.T, ld Loader, env, library string) string {
	t.Helper()
	cmd := exec.Command(ld.Path, "--list", library)
	if ld.Musl != "" { // its loader lists by the name that it is called by
		cmd.Args = []string{"ldd", library}
	}
	cmd.Dir, cmd.Env = "/", []string{"LC_ALL=C", "LD_LIBRARY_PATH=" + env}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: string(r)}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Skipf("no program can be run in a root of its own here: %v", err)
	}
	return string(out)
}

// level is the x86-64 level that a loader of this machine says it has.
func level(t *testing.T, ld Loader) int {
	t.Helper()
	out, err := exec.Command(ld.Path, "--help").Output()
	if err != nil {
		t.Skipf("%s does not say which glibc-hwcaps it searches: %v", ld.Path, err)
	}
	for n, name := range []string{"x86-64-v2", "x86-64-v3", "x86-64-v4"} {
		if !strings.Contains(string(out), name+" (supported") {
			return n + 1
		}
	}
	return 4
}

// answer is what a loader's list says of libt.so.1, as Found.found does, without
// the rule.
func answer(list string) string {
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if _, problem, ok := strings.Cut(line, soname+": "); ok && !strings.Contains(line, "No such file") && !strings.Contains(line, "cannot be preloaded") {
			return "problem " + problem
		}
		if p, ok := strings.CutPrefix(line, soname+" => "); ok {
			p, _, _ = strings.Cut(p, " (0x")
			return strings.Replace(p, "not found", "none", 1)
		}
	}
	return "none"
}

// A48, A58: TestFindIsWhatTheRealLoaderDoes builds every root of the table, puts this machine's
// loader into it, and holds its answer against ours.
func TestFindIsWhatTheRealLoaderDoes(t *testing.T) {
	needs, err := elfgen.Library(elfgen.Object{Arch: "x86_64", Name: "main.so", Needed: soname})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range lookups(t) {
		t.Run(tc.name, func(t *testing.T) {
			files, ld := tc.root("")
			real, err := os.ReadFile(ld.Path)
			if errors.Is(err, fs.ErrNotExist) {
				t.Skipf("this machine has no %s to compare with", ld.Path)
			} else if err != nil {
				t.Fatal(err)
			}
			root := tree(t.TempDir())
			for p, content := range files {
				if p != ld.Path && strings.HasPrefix(content, "-> ") {
					root.put(t, p, content)
				}
			}
			for p, content := range files {
				if p != ld.Path && !strings.HasPrefix(content, "-> ") {
					root.put(t, p, content)
				}
			}
			root.put(t, ld.Path, string(real))
			root.put(t, "/main.so", string(needs))
			if ld.Musl == "" {
				tc.opts.Level = level(t, ld)
			}
			r, err := NewResolver(root, ld, tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			found, err := r.Find(soname)
			if err != nil {
				t.Fatal(err)
			}
			list := root.list(t, ld, tc.opts.LibraryPath, "/main.so")
			got, want := answer(list), found.Path
			switch {
			case found.By == ByPreload:
				for _, p := range ld.platforms { // whichever this machine's is
					list = strings.ReplaceAll(list, "/"+p+"/", "/"+tc.opts.Platform+"/")
				}
				if ok := strings.Contains(list, found.Path+" (0x"); !ok || got != "none" && got != found.Path {
					t.Errorf("%s is not preloaded, or %s is loaded beside it:\n%s", found.Path, got, list)
				}
				return
			case found.Problem != "":
				want = "problem " + found.Problem
				if strings.HasPrefix(got, "problem ") {
					got = want // its words are of its version
				}
			case want == "":
				want = "none"
				if strings.HasPrefix(got, "problem cannot open") || ld.Musl != "" && strings.HasPrefix(got, "problem ") { // the last error
					got = want
				}
			}
			if got != want {
				t.Errorf("the loader takes %s, we say %s of %+v:\n%s", got, want, found, list)
			}
		})
	}
}
