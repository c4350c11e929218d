package hook_test

import (
	"archive/tar"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

// A14: an image's archive, in each form that archives have, ends with the root
// directory once more, as a link to the host. Whatever the program that unpacks it
// makes of that, the hook works in a directory of the image's or refuses a root
// that is none, in every stage.
func TestA14ArchivesThatEndWithTheRootAsALink(t *testing.T) {
	program, err := exec.LookPath("tar")
	if err != nil {
		skip(t, "tar is not installed: it unpacks the images")
	}
	for name, format := range map[string]tar.Format{"gnu": tar.FormatGNU, "ustar": tar.FormatUSTAR, "pax": tar.FormatPAX} {
		t.Run(name, func(t *testing.T) {
			links := 0
			for _, options := range []string{"", "--overwrite", "--unlink-first --recursive-unlink", "--keep-directory-symlink", "--absolute-names"} {
				s := newStand(t)
				if err := os.RemoveAll(s.root); err != nil {
					t.Fatal(err)
				}
				base := filepath.Dir(s.root)
				archive := filepath.Join(t.TempDir(), "image.tar")
				pack(t, archive, format, s.host)
				s.photo()
				args := append([]string{"-x", "-f", archive, "-C", base}, strings.Fields(options)...)
				out, err := exec.Command(program, args...).CombinedOutput()
				said := fmt.Sprintf("tar %s: %v, %s", options, err, out)
				s.canary()
				info, err := os.Lstat(s.root)
				if err != nil {
					t.Fatalf("%s: %v", said, err)
				}
				s.spec.Links = []hookspec.Link{{Path: "/usr/lib/gpu/l", Target: "x"}}
				s.spec.LibraryDirs = []string{"/usr/lib/gpu"}
				s.spec.MountPoints = []hookspec.MountPoint{{Path: "/run/point", Dir: true}}
				s.write()
				link := info.Mode()&os.ModeSymlink != 0
				for _, stage := range []hook.Stage{hook.Prepare, hook.Apply, hook.Finish, hook.Clean} {
					_, err := s.try(stage)
					s.canary()
					switch {
					case link && (err == nil || !strings.Contains(err.Error(), "not a directory")):
						t.Errorf("%s; %s: %v; want a root that is not a directory", said, stage, err)
					case !link && err != nil:
						t.Errorf("%s; %s: %v", said, stage, err)
					}
				}
				if link {
					links++
				}
			}
			if links == 0 {
				t.Error("no way to unpack it made the root a link: the test shows nothing")
			}
		})
	}
}

// pack writes root/, root/etc/hostname and at last root as a link to host.
func pack(t *testing.T, file string, format tar.Format, host string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "root/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "root/etc/", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: "root/etc/hostname", Mode: 0o644},
		{Typeflag: tar.TypeSymlink, Name: "root", Linkname: host, Mode: 0o777},
	} {
		h.Format = format
		if format == tar.FormatPAX {
			h.PAXRecords = map[string]string{"GPURIG.test": "1"} // else the writer chooses ustar
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
