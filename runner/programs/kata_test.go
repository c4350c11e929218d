package programs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A script's output, by the names in its lines "# -- NAME".
func script(t *testing.T, name, file string) map[string]string {
	t.Helper()
	for program, pkg := range map[string]string{"lspci": "pciutils", "uuidgen": "uuid-runtime", "bash": "bash"} {
		requireProgram(t, program, pkg)
	}
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^# -- (\w+)$`).ReplaceAllString(string(text), `printf '%s %s\n' '# --' '$1'`)
	at := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(at, []byte("exec 2>&1\n"+commands), 0o644); err != nil {
		t.Fatal(err)
	}
	// Where the kernel has no modules, lspci says so, in a machine as outside of one.
	noModules := regexp.MustCompile(`(?m)^lspci: Unable to load libkmod resources.*\n`)
	out := map[string]string{}
	for i, part := range strings.Split(says(t, name, "bash", at), "# -- ") {
		if title, body, _ := strings.Cut(part, "\n"); i > 0 {
			out[title] = noModules.ReplaceAllString(body, "")
		}
	}
	return out
}

// like compares what was printed with what a guide prints, a pattern for each line.
// Dates, and who owns a node, differ from machine to machine.
func like(t *testing.T, what, got string, want ...string) {
	t.Helper()
	pattern := regexp.MustCompile(`^` + strings.Join(want, `\n`) + `\n*$`)
	if !pattern.MatchString(got) {
		t.Errorf("%s: printed\n%s\nwant\n%s", what, got, strings.Join(want, "\n"))
	}
}

const (
	owned = ` 1 \S+ \S+ +`
	date  = ` +\w+ +\d+ +[\d:]+ `
)

// The passthrough part of Kata's guide. Its lspci knew no name for the board.
func TestKatasGuidePassesAGPUThrough(t *testing.T) {
	said := script(t, "vgpu-a100", "kata-passthrough.sh")
	like(t, "find", said["find"],
		`0000:41:00.0 3D controller \[0302\]: NVIDIA Corporation .* \[10de:20b5\] \(rev a1\)`,
		`0000:d0:00.0 3D controller \[0302\]: NVIDIA Corporation .* \[10de:20b9\] \(rev a1\)`)
	like(t, "regions", said["regions"],
		`\tRegion 0: Memory at [0-9a-f]+ \(32-bit, non-prefetchable\) \[size=16M\]`,
		`\tRegion 1: Memory at [0-9a-f]+ \(64-bit, prefetchable\) \[size=32G\]`,
		`\tRegion 3: Memory at [0-9a-f]+ \(64-bit, prefetchable\) \[size=32M\]`)
	like(t, "group", said["group"], `/sys/kernel/iommu_groups/192`)
	like(t, "bind", said["bind"])
	like(t, "nodes", said["nodes"], `total 0`,
		`crw-------`+owned+`243, +0`+date+`192`,
		`crw-rw-rw-`+owned+`10, 196`+date+`vfio`)
	like(t, "driver", said["driver"], `vfio-pci`, `nvidia0`, `GPU 0: NVIDIA A100 80GB PCIe \(UUID: GPU-[0-9a-f-]+\)`)
	like(t, "return", said["return"], `.*preferred_driver: Permission denied`, `vfio-pci`, `vfio`, `nvidia`, `nvidia0`, `nvidia1`)
}

// rows are the lines of a table of vGPU types that have a function in them.
func rows(table string) []string {
	return regexp.MustCompile(`(?m)^\| 0000:.*$`).FindAllString(table, -1)
}

// guided are the rows that the guide prints for the first virtual function.
var guided = []string{
	"| 0000:41:00.4 |         1 |  GRID A100D-4C | nvidia-692 |",
	"| 0000:41:00.4 |         1 |  GRID A100D-8C | nvidia-693 |",
	"| 0000:41:00.4 |         1 | GRID A100D-10C | nvidia-694 |",
	"| 0000:41:00.4 |         1 | GRID A100D-16C | nvidia-695 |",
	"| 0000:41:00.4 |         1 | GRID A100D-20C | nvidia-696 |",
	"| 0000:41:00.4 |         1 | GRID A100D-40C | nvidia-697 |",
	"| 0000:41:00.4 |         1 | GRID A100D-80C | nvidia-698 |",
}

// The vGPU part of Kata's guide.
func TestKatasGuideMakesVGPUs(t *testing.T) {
	said := script(t, "vgpu-a100", "kata-vgpu.sh")
	like(t, "enable", said["enable"], `Enabling VFs on 0000:41:00.0`)
	if links := regexp.MustCompile(`(?m)^lrwxrwxrwx .* virtfn\d+ -> \.\./0000:41:0[0-2]\.[0-7]$`).FindAllString(said["virtfn"], -1); len(links) != 20 {
		t.Errorf("%d links to virtual functions:\n%s", len(links), said["virtfn"])
	}
	head := "| BDF          | INSTANCES | NAME           | DIR        |\n+--------------+-----------+----------------+------------+\n"
	if want := head + strings.Join(guided, "\n\n"+head) + "\n\n"; !strings.HasPrefix(said["types"], want) {
		t.Errorf("types: printed\n%.1200s\nwant\n%s", said["types"], want)
	}
	like(t, "create", said["create"], `total .*`, `lrwxrwxrwx .* [0-9a-f-]{36} -> \.\./\.\./\.\./devices/pci0000:[0-9a-f]+/.*0000:41:00\.4/[0-9a-f-]{36}`)
	for _, entry := range []string{"/bus/mdev/drivers/vfio_mdev", "iommu_group -> ", "mdev_type -> ../mdev_supported_types/nvidia-692", "remove", "/bus/mdev\n"} {
		if !strings.Contains(said["device"], entry) {
			t.Errorf("the mediated device has no %q:\n%s", entry, said["device"])
		}
	}
	like(t, "nodes", said["nodes"], `total 0`, `crw-------`+owned+`243, +\d+`+date+`\d+`, `crw-rw-rw-`+owned+`10, 196`+date+`vfio`)
	// One board holds vGPUs of one size, a virtual function one of them.
	for _, row := range rows(said["rest"]) {
		if !strings.Contains(row, "nvidia-692") || strings.Contains(row, "0000:41:00.4") {
			t.Errorf("beside a vGPU of 4 GiB on the first function there is still %s", row)
		}
	}
	if n := len(rows(said["rest"])); n != 19 {
		t.Errorf("beside one vGPU of 4 GiB there is room on %d functions, want 19", n)
	}
	if !strings.Contains(said["mig"], "Enabled MIG Mode for GPU 00000000:41:00.0") || !strings.Contains(said["mig"], "was successfully reset") {
		t.Errorf("mig: %s", said["mig"])
	}
	like(t, "none", said["none"]) // in MIG mode nothing is shared in time
	for _, row := range []string{`\|   0  MIG 1g.10gb +19     7/7        9.50       No     14     0     0   \|`, `\|   0  MIG 2g.20gb +14     3/3        19.50      No     28     1     0   \|`} {
		if !regexp.MustCompile(row).MatchString(said["lgip"]) {
			t.Errorf("nvidia-smi mig -lgip has no %s:\n%s", row, said["lgip"])
		}
	}
	like(t, "cgi", said["cgi"], `Successfully created GPU instance ID +\d+ on GPU +0 using profile MIG 1g.10gb \(ID 19\)`)
	if !regexp.MustCompile(`(?m)^\|   0  MIG 1g.10gb +19 +9 +\d:1 +\|$`).MatchString(said["lgi"]) {
		t.Errorf("nvidia-smi mig -lgi has no instance 9:\n%s", said["lgi"])
	}
	like(t, "cci", said["cci"], `Successfully created compute instance ID +0 on GPU +0 GPU instance ID +9 using profile MIG 1g.10gb \(ID +0\)`)
	if row := `(?m)^\| +0 +9 +0 +0 +\| +0MiB / +9728MiB +\| 14 +0 \| +1 +0 +0 +0 +0 +\|$`; !regexp.MustCompile(row).MatchString(said["smi"]) {
		t.Errorf("nvidia-smi has no row %s:\n%s", row, said["smi"])
	}
	// An eighth of the board's window. The guide prints 4095MiB, as of a window of 32 GiB,
	// which no A100 80GB shows elsewhere: public nvidia-smi of a PCIe one (300 W, 515.86.01,
	// mig-parted's all-1g.10gb) has 16383MiB here, 32767 at 2g.20gb and 65535 at 3g.40gb,
	// and lspci of an SXM one says size=128G.
	if row := `(?m)^\| +\| +0MiB / +16383MiB +\| +\| +\|$`; !regexp.MustCompile(row).MatchString(said["smi"]) {
		t.Errorf("nvidia-smi has no row %s:\n%s", row, said["smi"])
	}
	backed := rows(said["backed"])
	for _, want := range []string{
		"| 0000:41:00.4 |         1 |GRID A100D-1-10C | nvidia-699 |",
		"| 0000:41:00.5 |         1 |GRID A100D-1-10C | nvidia-699 |",
		"| 0000:41:01.6 |         1 |GRID A100D-1-10C | nvidia-699 |",
	} {
		if !strings.Contains(strings.Join(backed, "\n"), want) {
			t.Errorf("no row %s among\n%s", want, strings.Join(backed, "\n"))
		}
	}
	like(t, "uuid", said["uuid"], `0`, `1`) // taken here, free on the next function
}
