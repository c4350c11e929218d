package packaging

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const packagesEnv = "GPURIG_PACKAGES"

// released is the version that the test's packages have.
const released = "1.2.3"

// TestPackages makes what a release has, twice, in two folders, and uses it.
func TestPackages(t *testing.T) {
	if os.Getenv(packagesEnv) == "" {
		t.Skipf("make test-packages runs it (%s=1)", packagesEnv)
	}
	archs := []string{"amd64"}
	if _, err := exec.LookPath("aarch64-linux-gnu-gcc"); err == nil {
		archs = append(archs, "arm64")
	} else {
		t.Log("arm64 is not built: there is no aarch64-linux-gnu-gcc")
	}
	src, another := copied(t, "a"), copied(t, "another/folder")
	first := dist(t, src, archs)
	t.Run("equal bytes from another folder", func(t *testing.T) {
		second := dist(t, another, archs[:1])
		all := read(t, first+"/SHA256SUMS")
		for line := range strings.Lines(read(t, second+"/SHA256SUMS")) {
			if !strings.Contains(all, line) {
				t.Errorf("the digest is another: %s\nof the first:\n%s", line, all)
			}
		}
		if strings.Count(all, "\n") != 4*len(archs) {
			t.Errorf("not all is there:\n%s", all)
		}
	})
	tree := t.TempDir()
	for _, arch := range archs {
		output(t, exec.Command("tar", "-xzf", filepath.Join(first, "gpurig-"+released+"-linux-"+arch+".tar.gz"), "-C", tree))
	}
	amd64 := filepath.Join(tree, "gpurig-"+released+"-linux-amd64")
	t.Run("nothing newer than the libc that the package depends on", func(t *testing.T) { oldest(t, amd64) })
	t.Run("no compiler", func(t *testing.T) { compilerless(t, amd64) })
	t.Run("bill of materials", func(t *testing.T) { billed(t, amd64) })
	if len(archs) == 2 {
		t.Run("arm64", func(t *testing.T) { emulated(t, filepath.Join(tree, "gpurig-"+released+"-linux-arm64")) })
	}
	t.Run("kit", func(t *testing.T) { tried(t, src) })
	t.Run("image", func(t *testing.T) { contained(t, filepath.Join(first, "gpurig-"+released+"-linux-amd64.oci.tar")) })
	t.Run("snap", func(t *testing.T) { snapped(t, filepath.Join(first, "gpurig_"+released+"_amd64.snap")) })
	t.Run("deb", func(t *testing.T) { installed(t, filepath.Join(first, "gpurig_"+released+"_amd64.deb")) })
}

// copied has the files of this checkout, committed or not, in a folder of that name.
func copied(t *testing.T, name string) string {
	t.Helper()
	src := filepath.Join(t.TempDir(), name)
	for file := range strings.Lines(output(t, exec.Command("git", "-C", "..", "ls-files", "-co", "--exclude-standard"))) {
		file = strings.TrimSpace(file)
		info, err := os.Stat(filepath.Join("..", file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed and not committed
		}
		data, rerr := os.ReadFile(filepath.Join("..", file))
		to := filepath.Join(src, file)
		if err := errors.Join(err, rerr, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, info.Mode())); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(src, "VERSION"), []byte(released+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return src
}

// dist makes the archives and packages of a source, and returns where they are.
func dist(t *testing.T, src string, archs []string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(src, "packaging/dist.sh"), append([]string{filepath.Join(src, "out/dist")}, archs...)...)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000", "DEBFULLNAME=A Tester", "DEBEMAIL=tester@example.org")
	output(t, cmd)
	return filepath.Join(src, "out/dist")
}

// oldest: every program and library starts with the C library that the control file names.
func oldest(t *testing.T, tree string) {
	seen := 0
	err := filepath.WalkDir(tree, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := elf.Open(p)
		if err != nil {
			return nil
		}
		defer f.Close()
		seen++
		symbols, _ := f.ImportedSymbols() // none, of a static program
		for _, s := range symbols {
			if v, ok := strings.CutPrefix(s.Version, "GLIBC_2."); ok && len(v) >= 2 && v > "34" && v[1] != '.' {
				t.Errorf("%s needs %s@%s; the package says libc6 (>= 2.34)", p, s.Name, s.Version)
			}
		}
		return nil
	})
	if err != nil || seen != 10 {
		t.Errorf("%d programs and libraries were seen, %v; want 10", seen, err)
	}
}

// compilerless: who has no compiler enters a fake host with working libraries; libraries
// of other sources are not taken.
func compilerless(t *testing.T, tree string) {
	home := t.TempDir()
	gpurig := func(args ...string) (string, string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(tree, "bin/gpurig"), args...)
		cmd.Env = []string{"PATH=" + home, "HOME=" + home}
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		return out.String(), errs.String(), err
	}
	if out, errs, err := gpurig("--version"); err != nil || out != "gpurig "+released+"\n" {
		t.Errorf("--version: %q %q, %v", out, errs, err)
	}
	if out, errs, err := gpurig("run", "mig/one-of-two"); err != nil || !strings.Contains(out, "4 passed") {
		t.Errorf("run: %s%s, %v", out, errs, err)
	}
	if out, _, _ := gpurig("doctor"); !strings.Contains(out, "machine          yes") {
		t.Skip("this machine cannot have a fake machine entered")
	}
	for _, program := range [][]string{{"/usr/bin/nvidia-smi", "-L"}, {filepath.Join(tree, "bin/gpurig-smoke")}} {
		out, errs, err := gpurig(append([]string{"host", "enter", "t4-server", "--"}, program...)...)
		if err != nil || errs != "" || !strings.Contains(out, "T4") {
			t.Errorf("%s: %s%s, %v; want both cards and nothing on standard error", program, out, errs, err)
		}
	}
	if made, err := filepath.Glob(home + "/.cache/gpurig/*/*/*libnvidia-ml*"); err != nil || len(made) > 0 {
		t.Errorf("a library was put into the cache: %v, %v", made, err)
	}
	libs, err := filepath.Glob(filepath.Join(tree, "lib/gpurig/*/libnvidia-ml.so.1"))
	if err != nil || len(libs) != 1 {
		t.Fatalf("libraries %v, %v; want one", libs, err)
	}
	if err := os.Rename(filepath.Dir(libs[0]), filepath.Join(tree, "lib/gpurig/0123456789abcdef01234567")); err != nil {
		t.Fatal(err)
	}
	if _, errs, _ := gpurig("host", "enter", "t4-server", "--", "/usr/bin/nvidia-smi", "-L"); !strings.Contains(errs, "no C compiler") {
		t.Errorf("with a library of other sources: %q; want that there is no C compiler", errs)
	}
}

// billed: the bill of materials has each module of each program.
func billed(t *testing.T, tree string) {
	var bill struct {
		Packages []struct {
			Name    string `json:"name"`
			Version string `json:"versionInfo"`
		} `json:"packages"`
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(tree, "share/doc/gpurig/sbom.spdx.json"))), &bill); err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, p := range bill.Packages {
		listed[p.Name+" "+p.Version] = true
	}
	licenses := read(t, filepath.Join(tree, "share/doc/gpurig/third-party-licenses.txt"))
	deps := 0
	for _, program := range []string{"bin/gpurig", "lib/gpurig/gpurig-docker", "lib/gpurig/nvidia-container-cli", "lib/gpurig/cdi-hook"} {
		for line := range strings.Lines(output(t, exec.Command("go", "version", "-m", filepath.Join(tree, program)))) {
			f := strings.Fields(line)
			if len(f) < 3 || f[0] != "dep" {
				continue
			}
			deps++
			if name := f[1] + " " + f[2]; !listed[name] || !strings.Contains(licenses, "==== "+name+": ") {
				t.Errorf("%s has %s, which the bill of materials or the licenses lack", program, name)
			}
		}
	}
	if deps < 40 || !listed["gpurig "+released] {
		t.Errorf("%d modules were looked at; the test looked in the wrong place", deps)
	}
}

// emulated: what is built for arm64 runs, as far as an emulator of user programs goes.
func emulated(t *testing.T, tree string) {
	for _, p := range []string{"bin/gpurig", "lib/gpurig/cdi-hook", "lib/gpurig/gpurig-probe"} {
		f, err := elf.Open(filepath.Join(tree, p))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if f.Machine != elf.EM_AARCH64 {
			t.Errorf("%s is for %s", p, f.Machine)
		}
	}
	const emulator = "qemu-aarch64-static"
	if _, err := exec.LookPath(emulator); err != nil {
		t.Skipf("there is no %s to run it: apt-get install qemu-user-static", emulator)
	}
	run := func(args ...string) string {
		return output(t, exec.Command(emulator, append([]string{"-L", "/usr/aarch64-linux-gnu", filepath.Join(tree, "bin/gpurig")}, args...)...))
	}
	if got := run("--version"); got != "gpurig "+released+"\n" {
		t.Errorf("--version = %q", got)
	}
	if got := run("run", "tegra/links-of-the-csv", "mig/one-of-two"); !strings.Contains(got, " 0 failed, 0 broken") {
		t.Errorf("run: %s", got)
	}
}

// installed: the package is installed on this machine as far as the test's own processes
// see, used, and removed without a trace.
func installed(t *testing.T, deb string) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("there is no dpkg")
	}
	if lint, err := exec.LookPath("lintian"); err == nil {
		if out := output(t, exec.Command(lint, "--allow-root", "--fail-on", "none", deb)); strings.TrimSpace(out) != "" {
			t.Errorf("lintian:\n%s", out)
		}
	} else {
		t.Log("lintian is not installed")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can install a package")
	}
	dir := t.TempDir()
	script := `set -e
mount -t tmpfs none "$1" && mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/work" none "$1/root"
for d in dev proc sys; do mount --rbind /$d "$1/root/$d"; done
mount -t tmpfs none "$1/root/tmp"
cp "$2" "$1/root/tmp/gpurig.deb"
exec chroot "$1/root" sh -ec '
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp
dpkg -i /tmp/gpurig.deb >/dev/null
gpurig run mig/one-of-two
test "$(command -v gpurig)" = /usr/bin/gpurig
gpurig translate --host workstation --to lxc --id nvidia.com/gpu=0 | grep /usr/lib/gpurig/cdi-hook
man -w gpurig-host-enter
test -z "$(dpkg --verify gpurig)"
dpkg --purge gpurig >/dev/null
! ls -d /usr/bin/gpurig* /usr/lib/gpurig /usr/share/doc/gpurig /usr/share/man/man1/gpurig* 2>/dev/null
'`
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", dir, deb)
	out := output(t, cmd)
	t.Logf("installed, used and removed in %s:\n%s", time.Since(began).Round(time.Millisecond), out)
}

// snapped: where snapd would mount it, gpurig works; and LXD, itself a snap, whose root is
// another and which has the machine's at /var/lib/snapd/hostfs, can start the hook by the
// path that docs/install.md names.
func snapped(t *testing.T, snap string) {
	if _, err := exec.LookPath("unsquashfs"); err != nil {
		t.Skip("there is no unsquashfs: apt-get install squashfs-tools")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can mount it")
	}
	const hook = "/var/lib/snapd/hostfs/snap/gpurig/current/lib/gpurig/cdi-hook"
	if !strings.Contains(read(t, "../docs/install.md"), "--hook-path "+hook) {
		t.Errorf("docs/install.md does not name %s", hook)
	}
	if s, err := exec.LookPath("snap"); err == nil {
		dir := t.TempDir() + "/skeleton"
		output(t, exec.Command("unsquashfs", "-q", "-n", "-d", dir, snap))
		output(t, exec.Command(s, "pack", "--check-skeleton", dir))
	} else {
		t.Log("there is no snap to check it")
	}
	script := `set -e
mount -t tmpfs none "$1" && mkdir "$1/upper" "$1/work" "$1/root" "$1/lxd"
mount -t overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/work" none "$1/root"
for d in dev proc sys; do mount --rbind /$d "$1/root/$d"; done
mount -t tmpfs none "$1/root/tmp"
mkdir -p "$1/root/snap/gpurig" "$1/root/snap/bin"
unsquashfs -q -n -d "$1/root/snap/gpurig/x1" "$2"
ln -s x1 "$1/root/snap/gpurig/current"
mount --bind "$1/root/snap/gpurig/x1" "$1/root/snap/gpurig/x1"
mount -o remount,bind,ro "$1/root/snap/gpurig/x1"
chroot "$1/root" sh -ec '
export HOME=/tmp
for app in $(sed -n "s/^    command: //p" /snap/gpurig/current/meta/snap.yaml); do test -x /snap/gpurig/current/$app; done
/snap/gpurig/current/bin/gpurig run mig/one-of-two
/snap/gpurig/current/bin/gpurig doctor | grep "^cdi-hook  *yes"
/snap/gpurig/current/bin/gpurig translate --host snap-t4 --to lxd --id nvidia.com/gpu=0 --hook-path "$1"
' sh "$3" >"$1/out"
grep -q "lxc.hook.mount.*$3\|$3" "$1/out"
mkdir -p "$1/lxd/var/lib/snapd/hostfs"
mount --rbind "$1/root" "$1/lxd/var/lib/snapd/hostfs"
chroot "$1/lxd" "$3" --help
`
	t.Logf("%s", output(t, exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", t.TempDir(), snap, hook)))
}

// tried: the kit for a machine with GPUs does what it says on a fake one.
func tried(t *testing.T, src string) {
	dir := t.TempDir()
	cmd := exec.Command(filepath.Join(src, "packaging/kit.sh"), "amd64", dir+"/kit.tar.gz")
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	output(t, cmd)
	info, err := os.Stat(dir + "/kit.tar.gz")
	if err != nil || info.Size() > 60<<20 {
		t.Fatalf("%v, %v; want at most 60 MiB", info, err)
	}
	output(t, exec.Command("tar", "-xzf", dir+"/kit.tar.gz", "-C", dir))
	kit := filepath.Join(dir, "gpurig-kit-"+released+"-amd64")
	if out := output(t, exec.Command(kit+"/bin/gpurig", "doctor")); !strings.Contains(out, "machine          yes") {
		t.Skip("this machine cannot have a fake machine entered")
	}
	enter := exec.CommandContext(t.Context(), kit+"/bin/gpurig", "host", "enter", "t4-server", "--", kit+"/run", dir+"/lab")
	enter.Env = append(os.Environ(), "HOME="+t.TempDir())
	said, err := enter.CombinedOutput() // its exit code says whether all was done, which depends on this machine
	t.Logf("%v\n%s", err, said)
	summary := read(t, dir+"/lab/summary.txt")
	for _, want := range []string{"capture    done", "nearest    t4-server, ", "nvidia-smi done", "smoke      done", "simulated  done"} {
		if !strings.Contains(summary, want) {
			t.Errorf("the summary lacks %q", want)
		}
	}
	packed := output(t, exec.Command("tar", "-tzf", dir+"/lab.tar.gz"))
	for _, want := range []string{"host.txtar", "doctor-json.txt", "smoke.txt", "simulated.json", "nearest.txt"} {
		if !strings.Contains(packed, "lab/"+want) {
			t.Errorf("the result lacks %s", want)
		}
	}
}

// contained: the image is what its layout says, and runs in a container.
func contained(t *testing.T, image string) {
	layout := t.TempDir()
	output(t, exec.Command("tar", "-xf", image, "-C", layout))
	blobs, err := os.ReadDir(layout + "/blobs/sha256")
	if err != nil || len(blobs) != 3 {
		t.Fatalf("%d blobs, %v; want manifest, configuration and one layer", len(blobs), err)
	}
	var described strings.Builder
	described.WriteString(read(t, layout+"/index.json"))
	for _, b := range blobs {
		data := read(t, layout+"/blobs/sha256/"+b.Name())
		if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(data))); sum != b.Name() {
			t.Errorf("the blob %s has the digest %s", b.Name(), sum)
		}
		if json.Valid([]byte(data)) {
			described.WriteString(data)
		}
	}
	for _, b := range blobs {
		info, err := b.Info()
		if err != nil {
			t.Fatal(err)
		}
		if d := fmt.Sprintf(`"digest":"sha256:%s","size":%d`, b.Name(), info.Size()); !strings.Contains(described.String(), d) {
			t.Errorf("nothing describes the blob %s", d)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root has a private podman here")
	}
	for _, p := range []string{"podman", "runc"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("there is no %s to run it", p)
		}
	}
	podman := func(args ...string) string {
		private := []string{"--root", layout + "/root", "--runroot", layout + "/run", "--storage-driver", "vfs", "--runtime", "runc"}
		return output(t, exec.Command("podman", append(private, args...)...))
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-R", layout+"/root").Run() }) // podman mounts its storage on itself
	podman("load", "-qi", image)
	run := []string{"run", "--rm", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"}
	if out := podman(append(run, "gpurig:"+released, "run", "mig/one-of-two")...); !strings.Contains(out, "4 passed") {
		t.Errorf("run: %s", out)
	}
	if out := podman(append(run, "--privileged", "gpurig:"+released, "host", "enter", "t4-server", "--", "/usr/bin/nvidia-smi", "-L")...); strings.Count(out, "Tesla T4") != 2 {
		t.Errorf("host enter: %s", out)
	}
}

// output runs a command and returns what it says on standard output.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, errs.String())
	}
	return string(out)
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
