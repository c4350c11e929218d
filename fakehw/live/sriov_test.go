package live_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

const uuid = "aa618089-8b16-4d01-a136-25a0f3c73123"

// Virtual functions come and go with a number (drivers/pci/iov.c).
func TestNumVFs(t *testing.T) {
	const pf = "0000:e8:00.0"
	r := start(t, "vgpu-a40")
	first := r.Tree().Clone()
	for _, tc := range []struct {
		data string
		want syscall.Errno
	}{
		{"many", syscall.EINVAL}, {"-1", syscall.EINVAL}, {"65536", syscall.EINVAL}, {"33\n", syscall.ERANGE},
		{"0\n", 0}, {"0x20\n", 0}, {"32", 0}, {"16", syscall.EBUSY}, {"33", syscall.ERANGE},
	} {
		r.echo(tc.data, pf+"/sriov_numvfs", tc.want)
	}
	r.consistent()
	dir := "/sys/bus/pci/devices/"
	r.wants(dir+pf+"/virtfn31", "!"+dir+pf+"/virtfn32", dir+"0000:e8:00.4/physfn", dir+"0000:e8:04.3/driver", "!"+dir+"0000:e8:04.4")
	if link, err := r.Tree().Readlink(r.path(pf) + "/virtfn4"); err != nil || !strings.HasSuffix(link, "0000:e8:01.0") {
		t.Errorf("virtfn4 is %q, %v", link, err)
	}
	r.echo("0", pf+"/sriov_numvfs", 0)
	if diff := unlike(first, r.Tree()); diff != "" {
		t.Errorf("not what it was:\n%s", diff)
	}

	r.echo("maybe", pf+"/sriov_drivers_autoprobe", syscall.EINVAL)
	r.echo("off\n", pf+"/sriov_drivers_autoprobe", 0)
	r.echo("2", pf+"/sriov_numvfs", 0)
	r.wants("!" + dir + "0000:e8:00.4/driver")
	r.echo("0000:e8:00.4", "nvidia/bind", syscall.ENODEV) // pci_device_can_probe
	r.echo("Y", pf+"/sriov_drivers_autoprobe", 0)
	r.echo("0000:e8:00.4", "nvidia/bind", 0)
	r.echo("vfio-pci", "0000:e8:00.5/driver_override", 0)
	r.echo("0000:e8:00.5", "/sys/bus/pci/drivers_probe", 0)
	r.wants(dir + "../drivers/vfio-pci/0000:e8:00.5")
	r.consistent()

	// The driver takes them along, and without one there are none.
	r.echo("vfio-pci", pf+"/driver_override", 0)
	r.echo("1", "0000:e8:00.4/remove", 0)
	r.consistent()
	r.echo("1", "/sys/bus/pci/rescan", 0)
	r.wants("!" + dir + "0000:e8:00.4")
	r.echo(pf, "nvidia/unbind", 0)
	r.wants("!" + dir + "0000:e8:00.5")
	r.echo("1", pf+"/sriov_numvfs", syscall.ENOENT)
	r.echo(pf, "vfio-pci/bind", 0)
	r.echo("1", pf+"/sriov_numvfs", syscall.ENOENT)
	r.consistent()
}

// The commands of the guides for mediated devices.
func TestMediatedDevices(t *testing.T) {
	r := start(t, "vgpu-a40")
	r.echo("32", "0000:e8:00.0/sriov_numvfs", 0)
	const vf = "0000:e8:00.4"
	types := vf + "/mdev_supported_types/"
	left := func(f, kind, want string) {
		t.Helper()
		if got := r.cat(f + "/mdev_supported_types/" + kind + "/available_instances"); got != want+"\n" {
			t.Errorf("%s of %s: %q left; want %s", kind, f, got, want)
		}
	}
	left(vf, "nvidia-558", "1")
	for _, bad := range []string{"uuid", uuid[:35], uuid + "\n\n", strings.Replace(uuid, "-", "_", 1), strings.Replace(uuid, "a", "g", 1), "{" + uuid[1:]} {
		r.echo(bad, types+"nvidia-558/create", syscall.EINVAL)
	}
	r.echo(strings.ToUpper(uuid)+"\n", types+"nvidia-558/create", 0)
	dev := r.path(vf) + "/" + uuid
	r.wants("/sys/bus/mdev/devices/"+uuid, dev+"/mdev_type", dev+"/iommu_group", "/sys/bus/mdev/drivers/vfio_mdev/"+uuid)
	group := "/dev/vfio/" + lastPart(t, r, dev+"/iommu_group")
	r.wants(group)
	r.consistent()
	left(vf, "nvidia-558", "0")
	left(vf, "nvidia-557", "0")
	left("0000:e8:00.5", "nvidia-558", "1")
	left("0000:e8:00.5", "nvidia-557", "0") // a board's vGPUs are of one size
	r.echo(uuid, "0000:e8:00.5/mdev_supported_types/nvidia-558/create", syscall.EEXIST)
	other := strings.Replace(uuid, "aa", "bb", 1)
	r.echo(other, types+"nvidia-558/create", syscall.ENOSPC)
	r.echo(other, "0000:e8:00.5/mdev_supported_types/nvidia-557/create", syscall.ENOSPC)

	const bus = "/sys/bus/mdev/drivers/vfio_mdev/"
	r.echo(uuid, bus+"bind", syscall.EBUSY)
	r.echo(uuid+"\n", bus+"unbind", 0)
	r.wants("!"+group, "!"+dev+"/driver")
	r.consistent()
	r.echo(uuid, bus+"unbind", syscall.ENODEV)
	r.echo(other, bus+"bind", syscall.ENODEV)
	r.echo(uuid, bus+"bind", 0)
	r.wants(group)

	r.echo("x", dev+"/remove", syscall.EINVAL)
	r.echo("0\n", dev+"/remove", 0)
	r.Open(group)
	r.echo("1\n", dev+"/remove", syscall.EBUSY)
	r.Close(group)
	r.echo("1\n", dev+"/remove", 0)
	r.wants("!/sys/bus/mdev/devices/"+uuid, "!"+dev, "!"+group)
	left(vf, "nvidia-557", "1")
	r.echo("1\n", dev+"/remove", syscall.ENODEV)
	r.consistent()

	// One each, until the board is full.
	for i := range 24 {
		f := fmt.Sprintf("0000:e8:%02x.%d", (i+4)/8, (i+4)%8)
		r.echo(fmt.Sprintf("%s%02x\n", uuid[:34], i), f+"/mdev_supported_types/nvidia-558/create", 0)
	}
	left("0000:e8:03.5", "nvidia-558", "0")
	left("0000:e8:04.0", "nvidia-557", "0")
	r.consistent()
	r.echo("0", "0000:e8:00.0/sriov_numvfs", 0)
	if m := r.Model(); len(m.MDevs) != 0 {
		t.Errorf("%d mediated devices without parents", len(m.MDevs))
	}
	r.consistent()
}

func lastPart(t *testing.T, r *rig, link string) string {
	t.Helper()
	target, err := r.Tree().Readlink(link)
	if err != nil {
		t.Fatal(err)
	}
	return target[strings.LastIndex(target, "/")+1:]
}

// The driver's own attributes, on kernels without mediated devices.
func TestVendorVGPUs(t *testing.T) {
	r := start(t, "vgpu-l40s")
	r.wants("!/sys/class/mdev_bus", "!/sys/bus/mdev", "!/sys/bus/pci/devices/0000:61:00.0/nvidia")
	r.echo("32", "0000:61:00.0/sriov_numvfs", 0)
	const vf, other = "0000:61:00.4/nvidia/", "0000:61:00.5/nvidia/"
	want := func(p, text string) {
		t.Helper()
		if got := r.cat(p); got != text {
			t.Errorf("%s: %q; want %q", p, got, text)
		}
	}
	want(vf+"current_vgpu_type", "0\n")
	if table := r.cat(vf + "creatable_vgpu_types"); !strings.HasPrefix(table, "ID    : vGPU Name\n1145  : NVIDIA L40S-1B\n") {
		t.Errorf("creatable_vgpu_types %q", table)
	}
	r.echo("L40S-2Q", vf+"current_vgpu_type", syscall.EINVAL)
	r.echo("558", vf+"current_vgpu_type", syscall.EINVAL) // an A40's
	r.echo("frame_rate_limiter=0", vf+"vgpu_params", syscall.EINVAL)
	r.echo("1148\n", vf+"current_vgpu_type", 0)
	want(vf+"current_vgpu_type", "1148\n")
	want(vf+"creatable_vgpu_types", "ID    : vGPU Name\n")
	want(other+"creatable_vgpu_types", "ID    : vGPU Name\n1146  : NVIDIA L40S-2B\n1148  : NVIDIA L40S-2Q\n1158  : NVIDIA L40S-2A\n")
	group := "/dev/vfio/" + lastPart(t, r, r.path("0000:61:00.4")+"/iommu_group")
	r.wants(group, "/dev/vfio/devices/vfio0", r.path("0000:61:00.4")+"/vfio-dev/vfio0", "!/dev/vfio/devices/vfio1")
	r.echo("frame_rate_limiter=0\n", vf+"vgpu_params", 0)
	want(vf+"vgpu_params", "frame_rate_limiter=0\n")
	r.consistent()
	r.echo("1147", vf+"current_vgpu_type", syscall.EBUSY)
	r.echo("1156", other+"current_vgpu_type", syscall.ENOSPC)
	r.echo("1", vf+"placement_id", syscall.EINVAL)
	r.echo("0", vf+"gpu_instance_id", 0)
	for _, node := range []string{group, "/dev/vfio/devices/vfio0"} {
		r.Open(node)
		r.echo("0\n", vf+"current_vgpu_type", syscall.EBUSY)
		r.echo("a=b", vf+"vgpu_params", syscall.EBUSY)
		r.Close(node)
	}
	r.echo("0\n", vf+"current_vgpu_type", 0)
	r.wants("!"+group, "!/dev/vfio/devices/vfio0")
	want(vf+"vgpu_params", "\n")
	r.consistent()
	r.echo("1148", vf+"current_vgpu_type", 0)
	r.echo("0000:61:00.4", "nvidia/unbind", 0) // the vGPU goes with its driver
	r.wants("!"+group, "!"+r.path("0000:61:00.4")+"/nvidia")
	r.consistent()
}

// iommufd has a node for each device, the group has its own besides.
func TestVFIODevicesWithIOMMUFD(t *testing.T) {
	r := start(t, "vgpu-l40s")
	for i, f := range []string{"0000:61:00.0", "0000:c1:00.0"} {
		r.echo("vfio-pci", f+"/driver_override", 0)
		r.echo(f, "nvidia/unbind", 0)
		r.echo(f, "/sys/bus/pci/drivers_probe", 0)
		r.wants(fmt.Sprintf("/dev/vfio/devices/vfio%d", i), fmt.Sprintf("%s/vfio-dev/vfio%d/dev", r.path(f), i))
	}
	r.wants("/dev/vfio/35", "/dev/vfio/80", "/dev/iommu")
	r.consistent()
	r.echo("0000:61:00.0", "vfio-pci/unbind", 0)
	r.wants("!/dev/vfio/devices/vfio0", "/dev/vfio/devices/vfio1", "!/dev/vfio/35")
	r.consistent()
}

// Who makes virtual functions moves nobody's windows, interrupts and files.
func TestVirtualFunctionsLeaveOtherFunctionsAlone(t *testing.T) {
	r := start(t, "vgpu-a40")
	files := func() string {
		return r.cat("/sys/bus/pci/devices/0000:e8:00.0/resource") + r.cat("/sys/bus/pci/devices/0000:e8:00.0/irq") +
			r.cat("/sys/bus/pci/devices/0000:e8:00.0/config") + r.cat("/proc/driver/nvidia/gpus/0000:e8:00.0/information")
	}
	before := files()
	r.echo("4", "0000:3b:00.0/sriov_numvfs", 0)
	if files() != before {
		t.Error("the other GPU changed")
	}
	r.echo("2", "0000:e8:00.0/sriov_numvfs", 0)
	vf := r.cat("/sys/bus/pci/devices/0000:e8:00.5/resource")
	r.echo("0", "0000:3b:00.0/sriov_numvfs", 0)
	if r.cat("/sys/bus/pci/devices/0000:e8:00.5/resource") != vf {
		t.Error("its virtual function moved")
	}
}
