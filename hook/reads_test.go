package hook_test

import (
	"encoding/base64"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

// secret is in files that only the host's root can read, and must be nowhere else.
const secret = "SECRETCANARY"

// A readFile is a file of the image that the hook reads, and a text that it would
// pass on.
type readFile struct {
	name, path, text string
	image            []string
}

func readFiles(t testing.TB) []readFile {
	const conf = "file etc/ld.so.conf include /etc/ld.so.conf.d/*.conf"
	return []readFile{
		{"musl's path file", "etc/ld-musl-x86_64.path", "/" + secret + "\n", []string{"file lib/ld-musl-x86_64.so.1 x"}},
		{"ld.so.conf", "etc/ld.so.conf", "/" + secret + "\n" + secret + "\n", nil},
		{"an include", "etc/ld.so.conf.d/x.conf", "/" + secret + "\n" + secret + "\n", []string{conf}},
		{"an include by name", "etc/own", "/" + secret + "\n" + secret + "\n", []string{"file etc/ld.so.conf include /etc/own"}},
		{"the cache", "etc/ld.so.cache", "glibc-ld.so.cache1.1" + secret, nil},
		{"the preload file", "etc/ld.so.preload", "/" + secret + ".so " + secret + "\n", []string{"file etc/ld.so.conf /opt\n"}},
		{"a preloaded library", "usr/lib/libx.so.1", string(library(t, "lib"+secret+".so.1")), []string{"file etc/ld.so.preload /usr/lib/libx.so.1\n"}},
		{"a library", "usr/lib/libx.so.1", string(library(t, "lib"+secret+".so.1")), []string{conf}},
		{"a library of our folder", "usr/lib/gpu/libx.so.1", string(library(t, "lib"+secret+".so.1")), []string{"dir usr/lib/gpu"}},
	}
}

// ways are how such a file comes to be the host's. They may be made in the image
// only when it has its owner.
var ways = map[string]func(t *testing.T, s *stand, f readFile){
	"a link onto a mount": func(t *testing.T, s *stand, f readFile) {
		s.plant(s.root, "link "+f.path+" /mnt/share/secret")
		s.share(t, f.text)
	},
	"a relative link onto a mount": func(t *testing.T, s *stand, f readFile) {
		s.plant(s.root, "link "+f.path+" "+strings.Repeat("../", strings.Count(f.path, "/"))+"mnt/share/secret")
		s.share(t, f.text)
	},
	"a link into a closed folder on a mount": func(t *testing.T, s *stand, f readFile) {
		s.plant(s.root, "link "+f.path+" /mnt/share/closed/secret")
		s.share(t, f.text)
	},
	"a link in a closed folder on a mount": func(t *testing.T, s *stand, f readFile) {
		s.plant(s.root, "link "+f.path+" /mnt/share/closed/link")
		s.share(t, f.text)
	},
	"a file of the host is mounted": func(t *testing.T, s *stand, f readFile) {
		s.share(t, f.text)
		s.plant(s.root, "file "+f.path+" ")
		mountFile(t, s.path("mnt/share/secret"), s.path(f.path))
	},
	"its folder is a folder of the host": func(t *testing.T, s *stand, f readFile) {
		s.share(t, f.text)
		copyAs(t, f.text, filepath.Join(s.host, "as", filepath.Base(f.path)))
		mount(t, filepath.Join(s.host, "as"), filepath.Dir(s.path(f.path)), "", unix.MS_BIND, "")
	},
}

// owned are ways that only matter to a container with an id map: in its own tree,
// the root of any other may read.
var owned = map[string]func(t *testing.T, s *stand, f readFile){
	"a file of the host's root": func(t *testing.T, s *stand, f readFile) { copyAs(t, f.text, s.path(f.path)) },
	"a second name of one": func(t *testing.T, s *stand, f readFile) {
		own := filepath.Join(filepath.Dir(s.host), "own")
		copyAs(t, f.text, own)
		if err := os.MkdirAll(filepath.Dir(s.path(f.path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(own, s.path(f.path)); err != nil {
			t.Fatal(err)
		}
	},
	"a link to one": func(t *testing.T, s *stand, f readFile) {
		copyAs(t, f.text, s.path("srv/secret"))
		s.plant(s.root, "link "+f.path+" /srv/secret")
	},
	"a file in a closed folder of the host's root": func(t *testing.T, s *stand, f readFile) {
		copyAs(t, f.text, s.path("srv/closed/secret"))
		if err := errJoin(os.Chmod(s.path("srv/closed/secret"), 0o644), os.Chmod(s.path("srv/closed"), 0o700)); err != nil {
			t.Fatal(err)
		}
		s.plant(s.root, "link "+f.path+" /srv/closed/secret")
	},
	"a link in a closed folder of the host's root": func(t *testing.T, s *stand, f readFile) {
		if err := errJoin(os.MkdirAll(s.path("srv/closed"), 0o700), os.Symlink(secret, s.path("srv/closed/link"))); err != nil {
			t.Fatal(err)
		}
		s.plant(s.root, "link "+f.path+" /srv/closed/link")
	},
	"a file for a group of the starter's": func(t *testing.T, s *stand, f readFile) {
		copyAs(t, f.text, s.path(f.path))
		if err := errJoin(os.Chown(s.path(f.path), 0, starterGroup), os.Chmod(s.path(f.path), 0o640)); err != nil {
			t.Fatal(err)
		}
	},
}

// starterGroup is a group that whoever starts the hook is in.
const starterGroup = 4

func errJoin(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// share is a folder of the host that an administrator mounts into the container.
func (s *stand) share(t *testing.T, text string) {
	share := filepath.Join(s.host, "share")
	copyAs(t, text, filepath.Join(share, "secret"))
	copyAs(t, text, filepath.Join(share, "closed/secret"))
	if err := errJoin(os.Symlink(secret, filepath.Join(share, "closed/link")), os.Chmod(filepath.Join(share, "closed"), 0o700)); err != nil {
		t.Fatal(err)
	}
	mount(t, share, s.path("mnt/share"), "", unix.MS_BIND, "")
}

// copyAs makes a file that only the host's root can read.
func copyAs(t *testing.T, text, at string) {
	t.Helper()
	if err := errJoin(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func mountFile(t *testing.T, source, at string) {
	t.Helper()
	if err := unix.Mount(source, at, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
}

// TestA45NothingIsReadThroughMounts and links that lead through them, at every
// stage, by privileged and by mapped containers, with what only the host's root
// can read behind them.
func TestA45NothingIsReadThroughMounts(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	roots(t, func(t *testing.T, mapped bool) { s := secrets{ways, mapped}; s.run(t) })
}

// TestA46NothingIsReadWithTheHostsRights: in the image's own tree is what the
// container's root may not read.
func TestA46NothingIsReadWithTheHostsRights(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "needs root: files of two users")
	}
	if !inMountNamespace(t) {
		return
	}
	s := secrets{owned, true}
	s.run(t)
}

type secrets struct {
	ways   map[string]func(t *testing.T, s *stand, f readFile)
	mapped bool
}

func (c secrets) run(t *testing.T) {
	for i, f := range readFiles(t) {
		for j, way := range slices.Sorted(maps.Keys(c.ways)) {
			t.Run(f.name+", "+way, func(t *testing.T) {
				s := newStand(t, append([]string{"dir lib"}, f.image...)...)
				full(s)
				s.spec.Links = append(s.spec.Links, hookspec.Link{Path: "/" + f.path + ".l", Target: "x"})
				s.walk = (i+j)%2 == 0 != c.mapped
				if c.mapped {
					s.spec.Owner = hookspec.Owner{UID: 100000, GID: 100000}
					s.chown()
				}
				c.ways[way](t, s, f)
				s.write()
				s.photo()
				said := s.stages(false, applies[(3*j+i/2)%len(applies)]) // each of them for each file
				s.canary()
				s.nowhere(said)
			})
		}
	}
}

// decoded is a journal, and the contents of files in it, which are base64.
func decoded(journal []byte) string {
	out := string(journal)
	for word := range strings.SplitSeq(string(journal), `"`) {
		text, _ := base64.StdEncoding.DecodeString(word)
		out += string(text)
	}
	return out
}

// nowhere fails if the secret is in what was said, or in anything of the root but
// the files that only the host's root can read.
func (s *stand) nowhere(said string) {
	s.t.Helper()
	if strings.Contains(said, secret) {
		i := strings.Index(said, secret)
		s.t.Errorf("the secret was said: %q", said[max(0, i-200):min(len(said), i+200)])
	}
	err := filepath.WalkDir(s.root, func(p string, d fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err = errJoin(err, unix.Lstat(p, &st)); err != nil {
			return err
		}
		if st.Uid == 0 && st.Mode&0o007 == 0 {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		text, _ := os.Readlink(p)
		text += d.Name()
		if d.Type().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text = string(data)
		}
		if strings.Contains(text, secret) {
			s.t.Errorf("%s has the secret: %q", p, text)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// A directory of the container's root is its own to change, also with a mode of
// 0555; one of somebody else's only where no ids are mapped.
func TestDirectoriesThatAreNotWritable(t *testing.T) { // A46
	if os.Geteuid() != 0 {
		skip(t, "needs root: directories of other users")
	}
	for _, tc := range []struct {
		name         string
		owner, owned uint32 // the container's root, and whose the directory is
		mode         os.FileMode
		fails        bool
	}{
		{"its own", 0, 0, 0o555, false},
		{"its own, mapped", 100000, 100000, 0o555, false},
		{"of another user", 0, 33, 0o755, false},
		{"of another user, mapped", 100000, 100033, 0o755, true},
		{"of the host's root, mapped", 100000, 0, 0o755, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			each(t, func(t *testing.T, walk bool) {
				s := newStand(t, "dir usr/lib/gpu")
				s.walk = walk
				full(s)
				if s.spec.Owner = (hookspec.Owner{UID: tc.owner, GID: tc.owner}); tc.owner != 0 {
					s.chown()
				}
				for _, p := range []string{"usr/lib/gpu", "etc"} {
					if err := errJoin(os.Chown(s.path(p), int(tc.owned), int(tc.owned)), os.Chmod(s.path(p), tc.mode)); err != nil {
						t.Fatal(err)
					}
				}
				s.write()
				before := s.tree()
				for _, stage := range []hook.Stage{hook.Prepare, hook.Apply, hook.Finish, hook.Clean} {
					out, err := hookCommand(t, s.args(stage)...).CombinedOutput()
					if stage != hook.Finish && stage != hook.Clean && (err != nil) != tc.fails || err != nil && !strings.Contains(string(out), "permission denied") {
						t.Errorf("%s: %v, %s", stage, err, out)
					}
				}
				if after := s.tree(); after != before {
					t.Errorf("taken back:\n%s", differing(before, after))
				}
				s.canary()
			})
		})
	}
}
