package programs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/runner/lxdapi"
)

// listed has an LXD daemon list the GPUs of a fake machine. setup is a script that
// runs there before.
func listed(t *testing.T, name, setup string) (lxdapi.Cards, int) {
	t.Helper()
	lxd, unshare := requireProgram(t, "lxd", "lxd"), requireProgram(t, "unshare", "util-linux")
	requireMachine(t)
	dir, err := os.MkdirTemp("", "gpurig-lxd-") // short: a socket's path has 107 characters
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	script := "export LXD_DIR=" + dir + "\n" + setup + "\nexec " + unshare + " --net " + lxd + " --logfile " + dir + "/log\n"
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "host", "enter", name, "--", "sh", "-euc", script)
	cmd.Args[0] = asCLI
	said, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // killed below, or what it said tells
		close(ended)
	}()
	defer func() {
		_ = cmd.Process.Kill() // the machine and all in it end with it
		<-ended
	}()
	for {
		api, err := lxdapi.Dial(ctx, dir+"/unix.socket")
		if err == nil {
			defer api.Close()
			cards, total, err := api.Cards(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return cards, total
		}
		select {
		case <-ended:
			text, rerr := os.ReadFile(said.Name())
			t.Fatalf("LXD on %s ended: %s (%v)", name, text, errors.Join(err, rerr))
		case <-ctx.Done():
			t.Fatalf("LXD on %s: %v", name, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// cardOf is what LXD should say of a GPU with a PCI address. Its names are of the
// machine's list of PCI ids, and not told here.
func cardOf(t *testing.T, m host.Model, g host.GPU) lxdapi.Card {
	t.Helper()
	c := lxdapi.Card{
		PCIAddress: g.PCI.BDF.String(), Driver: g.PCI.Driver, NUMANode: max(g.PCI.NUMANode, 0),
		VendorID: fmt.Sprintf("%04x", g.PCI.ID.Vendor), ProductID: fmt.Sprintf("%04x", g.PCI.ID.Device),
	}
	if g.PCI.Driver == "nvidia" {
		c.DriverVersion = m.Driver.Version
		brand, _, _ := strings.Cut(g.Name, " ") // LXD's own way, where nvidia-container-cli is missing
		c.NVIDIA = &lxdapi.NVIDIA{
			Brand: brand, Model: g.Name, CardName: fmt.Sprintf("nvidia%d", g.Minor), CardDevice: fmt.Sprintf("195:%d", g.Minor),
		}
	} else {
		c.DriverVersion = m.Kernel // of a module that has no version of its own
	}
	if node := fmt.Sprintf("/dev/dri/card%d", g.Card); hasNode(m, node) {
		c.DRM = &lxdapi.DRM{
			ID: g.Card, CardName: fmt.Sprintf("card%d", g.Card), CardDevice: fmt.Sprintf("226:%d", g.Card),
		}
		if g.Render >= 0 { // a controller that only has a screen cannot render
			c.DRM.RenderName, c.DRM.RenderDevice = fmt.Sprintf("renderD%d", g.Render), fmt.Sprintf("226:%d", g.Render)
		}
	}
	if s := g.PCI.SRIOV; s != nil {
		c.SRIOV = &lxdapi.SRIOV{MaximumVFs: s.Total, CurrentVFs: s.Num}
	}
	return c
}

func hasNode(m host.Model, path string) bool {
	return slices.ContainsFunc(m.Nodes, func(n device.Node) bool { return n.Path == path })
}

// platform is what LXD says of a GPU of the SoC: it has no PCI address, and no
// section of NVIDIA's, whatever drives it.
func platform(m host.Model, driver string, id int) lxdapi.Card {
	return lxdapi.Card{Driver: driver, DriverVersion: m.Kernel, DRM: &lxdapi.DRM{
		ID: id, CardName: fmt.Sprintf("card%d", id), CardDevice: fmt.Sprintf("226:%d", id),
		RenderName: fmt.Sprintf("renderD%d", 128+id), RenderDevice: fmt.Sprintf("226:%d", 128+id),
	}}
}

// The resource list of the LXD daemon has each GPU of the machine, its ids,
// driver, nodes and what NVIDIA's driver tells, and no other.
func TestLXDListsTheGPUs(t *testing.T) {
	orin := func(m host.Model) lxdapi.Cards {
		return lxdapi.Cards{"card0": platform(m, "tegra-host1x", 0), "card1": platform(m, "tegra-display", 1)}
	}
	for name, c := range map[string]struct {
		vendor, product string // of the GPU at this address
		at              string
		besides         func(m host.Model) lxdapi.Cards // what is no GPU with a PCI address
	}{
		"dgx-a100":        {"NVIDIA Corporation", "GA100 [A100 SXM4 40GB]", "0000:07:00.0", nil},
		"a100-mig-2g-3g":  {"NVIDIA Corporation", "GA100 [A100 PCIe 40GB]", "0000:65:00.0", nil},
		"jetson-agx-orin": {besides: orin},
		"igx-orin":        {"NVIDIA Corporation", "GA102GL [RTX A6000]", "0005:09:00.0", orin},
		"vgpu-a40":        {"NVIDIA Corporation", "GA102GL [A40]", "0000:3b:00.0", nil},
		"workstation":     {"Advanced Micro Devices, Inc. [AMD/ATI]", "Navi 31 [Radeon RX 7900 XT/7900 XTX]", "0000:03:00.0", nil},
		"no-gpu":          {},
	} {
		t.Run(name, func(t *testing.T) {
			got, total := listed(t, name, "")
			if g := got[c.at]; g.Vendor != c.vendor || g.Product != c.product {
				t.Errorf("%s is %q %q, want %q %q", c.at, g.Vendor, g.Product, c.vendor, c.product)
			}
			want, m := lxdapi.Cards{}, model(t, name)
			if c.besides != nil {
				want = c.besides(m)
			}
			for _, g := range m.GPUs {
				if g.PCI != nil {
					want[g.PCI.BDF.String()] = cardOf(t, m, g)
				}
			}
			if total != len(want) {
				t.Errorf("LXD counts %d GPUs, want %d", total, len(want))
			}
			if d := diff.Diff(want, unnamed(got)); d != "" {
				t.Errorf("the host (-) and what LXD lists (+):\n%s", d)
			}
		})
	}
}

// unnamed takes away the names, which are of the machine's list of PCI ids.
func unnamed(cards lxdapi.Cards) lxdapi.Cards {
	out := lxdapi.Cards{}
	for at, c := range cards {
		c.Vendor, c.Product = "", ""
		out[at] = c
	}
	return out
}

// containerCLI stands in for NVIDIA's nvidia-container-cli, which Debian lacks: of
// its commands LXD runs this one alone, and the machine's own nvidia-smi and the
// driver's files have what it prints. The bus is written in small letters, and a
// brand that it does not know is "Unknown".
//
// Reference: https://github.com/NVIDIA/libnvidia-container/blob/main/src/cli/info.c
// and src/driver.c beside it
const containerCLI = `
mkdir -p "$LXD_DIR"/bin
cat > "$LXD_DIR"/bin/nvidia-container-cli <<'SCRIPT'
#!/bin/sh
[ "$*" = "info --csv" ] || { echo "only info --csv is known here" >&2; exit 1; }
echo "NVRM version,CUDA version"
echo "$(cat /sys/module/nvidia/version),$(nvidia-smi -q | awk '/^CUDA Version/ {print $NF}')"
echo
echo "Device Index,Device Minor,Model,Brand,GPU UUID,Bus Location,Architecture"
nvidia-smi --query-gpu=index,name,uuid,pci.bus_id,compute_cap --format=csv,noheader | tr A-Z a-z | while IFS=, read -r index _ _ bus cap; do
	minor=$(awk '/^Device Minor/ {print $NF}' "/proc/driver/nvidia/gpus/${bus# 0000}/information")
	said=$(nvidia-smi -i "$index" --query-gpu=name,uuid --format=csv,noheader)
	brand=$(nvidia-smi -q -i "$index" | awk '/Product Brand/ {print $NF}')
	case $brand in Quadro|Tesla|NVS|GRID|GeForce) ;; *) brand=Unknown ;; esac
	echo "$index,$minor,${said%%, *},$brand,${said##*, },${bus# },${cap# }"
done
SCRIPT
chmod 755 "$LXD_DIR"/bin/nvidia-container-cli
command -v nvidia-smi >/dev/null || { echo "the machine has no nvidia-smi: is there a C compiler?" >&2; exit 1; }
PATH="$LXD_DIR"/bin:$PATH`

// Where nvidia-container-cli answers, the list also has UUID, compute capability
// and versions, each GPU its own. A T4's brand in NVML is NVIDIA, as that of an A100.
func TestLXDListsWhatNvidiaContainerCLISays(t *testing.T) {
	for name, brand := range map[string]string{"dgx-a100": "Unknown", "t4-server": "Unknown", "workstation": "GeForce"} {
		t.Run(name, func(t *testing.T) {
			requireProgram(t, "cc", "gcc libc6-dev")
			got, _ := listed(t, name, containerCLI)
			m := model(t, name)
			want, said := map[string]*lxdapi.NVIDIA{}, map[string]*lxdapi.NVIDIA{}
			for _, g := range m.NVIDIAGPUs() {
				want[g.PCI.BDF.String()] = &lxdapi.NVIDIA{
					NVRMVersion: m.Driver.Version, CUDAVersion: m.Driver.CUDA, Brand: brand, Model: g.Name, UUID: g.UUID,
					Architecture: g.ComputeCap, CardName: fmt.Sprintf("nvidia%d", g.Minor), CardDevice: fmt.Sprintf("195:%d", g.Minor),
				}
			}
			for at, c := range got {
				if c.NVIDIA != nil {
					said[at] = c.NVIDIA
				}
			}
			if d := diff.Diff(want, said); d != "" {
				t.Errorf("the host (-) and what LXD lists (+):\n%s", d)
			}
		})
	}
}

// Virtual functions are counted and listed below their GPU, each with the types of
// mediated devices that it can still be, and the device that it is.
func TestLXDListsVirtualFunctionsAndTheirTypes(t *testing.T) {
	const uuid = "83c5c2e9-6b0c-4f0a-9a3c-1c5a0f2d7e11"
	got, total := listed(t, "vgpu-a40", `
		cd /sys/bus/pci/devices/0000:3b:00.0
		echo 4 > sriov_numvfs
		echo `+uuid+` > virtfn0/mdev_supported_types/nvidia-558/create`)
	m := model(t, "vgpu-a40")
	pf := got[m.GPUs[0].PCI.BDF.String()]
	if pf.SRIOV == nil || pf.SRIOV.CurrentVFs != 4 || pf.SRIOV.MaximumVFs != m.GPUs[0].PCI.SRIOV.Total || len(pf.SRIOV.VFs) != 4 {
		t.Fatalf("SR-IOV of the first GPU: %+v", pf.SRIOV)
	}
	if total != 6 {
		t.Errorf("LXD counts %d GPUs, want 2 and 4 virtual functions", total)
	}
	for i, vf := range pf.SRIOV.VFs {
		typ, ok := vf.MDev["nvidia-558"]
		if !ok || typ.Name != "NVIDIA A40-2Q" || typ.API != "vfio-pci" || !strings.Contains(typ.Description, "framebuffer=2048M") {
			t.Errorf("virtual function %d: type nvidia-558 is %+v", i, typ)
		}
		first := vf.PCIAddress == "0000:3b:00.4"
		if first != slices.Equal(typ.Devices, []string{uuid}) || first != (typ.Available == 0) {
			t.Errorf("%s: %d more of nvidia-558 can be made, and there are %q", vf.PCIAddress, typ.Available, typ.Devices)
		}
	}
}
