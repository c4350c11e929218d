package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/hookspec"
	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/disk"
	"gpurig/fakehw/tree"
	"gpurig/runner/image"
	"gpurig/runner/peers"
	"gpurig/runner/specgen"
)

// A rootfs is a container's root file system with the driver's files in it, as
// they are when the hooks run. Every copy is the same.
type rootfs struct {
	tree *tree.Tree
	spec *specs.Spec
}

// newRootfs is the image with glibc, on a host.
func newRootfs(tb testing.TB, m host.Model) rootfs {
	tb.Helper()
	g := specgen.New(specgen.Options{Children: 1})
	defer g.Close()
	made, err := g.Generate(tb.Context(), specgen.Request{Model: m})
	if err != nil {
		tb.Skipf("no Spec here: %v", err)
	}
	img, err := image.NewSet(nil).Image("glibc")
	if err != nil {
		tb.Fatal(err)
	}
	files, err := fakehw.Build(m)
	if err != nil {
		tb.Fatal(err)
	}
	r := rootfs{img.Tree.Clone(), made.Spec}
	for _, mount := range r.spec.ContainerEdits.Mounts {
		data, err := files.ReadFile(mount.HostPath)
		if err != nil {
			continue // a socket, a folder: nothing that a hook looks at
		}
		if err := r.tree.WriteFile(mount.ContainerPath, data, 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	return r
}

// write makes a copy below dir and returns it. It is a mount, as a container's
// root is.
func (r rootfs) write(tb testing.TB, dir, name string) string {
	tb.Helper()
	at := filepath.Join(dir, name)
	if err := unix.Unmount(at, unix.MNT_DETACH); err != nil && err != unix.EINVAL && err != unix.ENOENT {
		tb.Fatal(err)
	}
	if err := os.RemoveAll(at); err != nil {
		tb.Fatal(err)
	}
	if _, err := disk.Write(tb.Context(), r.tree, at, disk.Options{Mknod: true}); err != nil {
		tb.Fatal(err)
	}
	if err := unix.Mount(at, at, "", unix.MS_BIND, ""); err != nil {
		tb.Skipf("cannot make a root a mount: %v", err)
	}
	tb.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) }) // before the folder goes; nothing to do when it is gone
	return at
}

// peerHooks are the two processes of the Spec's hooks that cdi-hook stands in
// for, with the root's OCI state on standard input. A Spec may ask for
// create-symlinks more than once; here it is one process with all the links.
func (r rootfs) peerHooks(tb testing.TB, program, root string) []*exec.Cmd {
	tb.Helper()
	args := map[string][]string{}
	for _, h := range r.spec.ContainerEdits.Hooks {
		name := h.Args[1]
		if name != "create-symlinks" && name != "update-ldcache" {
			continue
		}
		if args[name] == nil {
			args[name] = []string{name}
		}
		args[name] = append(args[name], h.Args[2:]...)
	}
	state := fmt.Sprintf(`{"ociVersion":"1.0.2","id":"bench","status":"creating","pid":%d,"bundle":%q,"root":%q}`, os.Getpid(), root, root)
	var out []*exec.Cmd
	for _, name := range []string{"create-symlinks", "update-ldcache"} {
		if args[name] == nil {
			tb.Fatalf("the Spec has no hook %s", name)
		}
		cmd := exec.Command(program, args[name]...)
		cmd.Stdin = strings.NewReader(state)
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
		out = append(out, cmd)
	}
	return out
}

// BenchmarkHookProcess is cdi-hook against the two processes of nvidia-cdi-hook
// that it replaces, each on a fresh copy of one root. "apply" does what they do;
// "both" has the stage before it too, which makes mount points.
func BenchmarkHookProcess(b *testing.B) {
	needRoot(b)
	program, hook := peers.Path(b, "nvidia-cdi-hook"), ours(b, "cdi-hook")
	r, dir := newRootfs(b, profile(b, "dgx-a100")), memoryDir(b)
	file := newHookFile(b, dir, r.write(b, dir, "ours"))
	for _, stages := range [][]string{{"apply"}, {"prepare", "apply"}} {
		b.Run(strings.Join(stages, "+"), func(b *testing.B) {
			ours := func() func() {
				file.renew(b)
				root := r.write(b, dir, "ours")
				return func() {
					for _, s := range stages {
						output(b, exec.Command(hook, "--stage", s, "--root", root, file.path))
					}
				}
			}
			theirs := func() func() {
				root := r.write(b, dir, "theirs")
				cmds := r.peerHooks(b, program, root)
				return func() {
					for _, cmd := range cmds {
						output(b, cmd)
					}
				}
			}
			alternate(b, ours, theirs)
			done(b, filepath.Join(dir, "ours"))
			done(b, filepath.Join(dir, "theirs"))
		})
	}
}

// A hookFile is what gpurig leaves for cdi-hook. It lies where the roots are: on
// a disk, cdi-hook also waits for what it notes beside it to be there for good,
// which its peers, who note nothing, do not.
type hookFile struct {
	path string
	text []byte
}

// Nothing is mounted on the root: what is there is its own source, and what is not
// there is no mount point.
func newHookFile(tb testing.TB, dir, root string) hookFile {
	tb.Helper()
	f := hookFile{path: filepath.Join(dir, "hook", "cdi-hook.json")}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
		tb.Fatal(err)
	}
	output(tb, exec.Command(ours(tb, "gpurig"), "translate", "--host", "dgx-a100", "--id", "nvidia.com/gpu=0", "--name", "c1", "--hook-file", f.path, "--write-hook"))
	var err error
	if f.text, err = os.ReadFile(f.path); err != nil {
		tb.Fatal(err)
	}
	made, err := hookspec.Parse(f.text)
	if err != nil {
		tb.Fatal(err)
	}
	made.MountPoints = slices.DeleteFunc(made.MountPoints, func(m hookspec.MountPoint) bool {
		_, err := os.Stat(root + m.Path)
		return err != nil
	})
	for i := range made.MountPoints {
		made.MountPoints[i].Source = root + made.MountPoints[i].Path
	}
	if f.text, err = made.Marshal(); err != nil {
		tb.Fatal(err)
	}
	return f
}

// renew takes away what the hook noted beside its file: a new root has no
// history.
func (f hookFile) renew(tb testing.TB) {
	tb.Helper()
	err := os.RemoveAll(filepath.Dir(f.path))
	if err == nil {
		err = os.Mkdir(filepath.Dir(f.path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(f.path, f.text, 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// done makes sure that the work was done: a cache that knows libcuda.
func done(tb testing.TB, root string) {
	tb.Helper()
	cache, err := os.ReadFile(filepath.Join(root, "etc/ld.so.cache"))
	if err != nil || !bytes.Contains(cache, []byte("libcuda.so.1\x00")) {
		tb.Fatalf("%s: /etc/ld.so.cache does not know libcuda.so.1: %v", root, err)
	}
	if _, err := os.Lstat(filepath.Join(root, "usr/lib/x86_64-linux-gnu/libcuda.so")); err != nil {
		tb.Fatal(err)
	}
}
