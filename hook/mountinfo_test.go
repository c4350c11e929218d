package hook

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAnswers(t *testing.T) { // F24
	const table = `24 1 8:1 / / rw - ext4 /dev/vda rw
25 24 0:30 / /mnt/nfs rw - nfs4 server:/x rw
26 24 0:31 / /mnt/nfs2\040b rw - fuse.sshfs x rw
27 24 0:32 / /c/good rw - overlay overlay rw,lowerdir=/l1:/l2,upperdir=/u,workdir=/w
28 24 0:33 / /c/bad rw - overlay overlay rw,lowerdir=/l1:/mnt/nfs/l,upperdir=/u,workdir=/w
29 24 0:34 / /c/odd rw - overlay overlay rw,lowerdir=rel,upperdir=/u
30 24 0:35 / /auto rw - autofs systemd-1 rw
31 24 0:36 / /c/twice rw - overlay overlay rw,lowerdir=/c/good/x,upperdir=/u
32 24 0:37 / /over rw - nfs4 server:/x rw
33 32 0:38 / /over rw - tmpfs none rw
`
	mounts, err := parseMounts(table)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]bool{
		"/": true, "/var/lib": true, "/mnt/nfs": false, "/mnt/nfs/a": false, "/mnt/nfsx": true, "/mnt/nfs2 b/x": false, "/mnt/nfs2": true,
		"/c/good/x": true, "/c/bad": false, "/c/odd": false, "/auto/x": false, "/c/twice": true, "/over/x": true,
	} {
		if got := responds(mounts, mounts, p); got != want {
			t.Errorf("answers(%s) = %v", p, got)
		}
	}
	for _, bad := range []string{"x\n", "24 1 8:1 / / rw ext4 /dev/vda rw\n", "24 1 8:1 / / rw - ext4\n"} {
		if got, err := parseMounts(bad); err == nil {
			t.Errorf("parseMounts(%q) = %v", bad, got)
		}
	}
}

// A link may lead to a file system that does not answer; nothing there is asked.
func TestLeadsFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"abs": "/mnt/nfs/x", "rel": "abs/y", "loop": "loop", "good": "dir"} {
		if err := os.Symlink(text, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	mounts, err := parseMounts("24 1 8:1 / / rw - ext4 /dev/vda rw\n25 24 0:30 / /mnt/nfs rw - nfs4 server:/x rw\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"abs": false, "rel/z": false, "loop": false, "good/x": true, "none": true} {
		if at, ok := leads(mounts, filepath.Join(dir, name)); ok != want {
			t.Errorf("leads(%s) = %s, %v", name, at, ok)
		}
	}
}

func TestReadsInput(t *testing.T) {
	for arg, want := range map[string]bool{"--oci": true, "-oci": true, "--oci=1": true, "-oci=true": true, "--root": false, "/x/oci": false, "--ocix": false} {
		if readsInput([]string{"/f", arg}) != want {
			t.Errorf("readsInput(%s) = %v", arg, !want)
		}
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add("24 1 8:1 / / rw - ext4 /dev/vda rw\n27 24 0:32 / /c rw - overlay o rw,lowerdir=/c:/l2\n")
	f.Add("28 24 0:33 / /a\\040b rw shared:1 - fuse.x y rw\n")
	f.Fuzz(func(t *testing.T, text string) {
		mounts, err := parseMounts(text)
		if err != nil {
			return
		}
		for _, p := range []string{"/", "/c/x"} {
			responds(mounts, mounts, p) // ends
		}
	})
}
