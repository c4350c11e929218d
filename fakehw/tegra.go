package fakehw

import (
	"fmt"

	"gpurig/core/host"
	"gpurig/fakehw/catalog"
)

// nvgpuFamily is the order in which nvgpu registers its nodes, once with the
// names of old ("as" is /dev/nvhost-as-gpu, "channel" is /dev/nvhost-gpu) and
// once below /dev/nvgpu/igpu0; minors count on (nvgpu's ioctl.c). "power"
// stands in a region of its own.
var nvgpuFamily = []string{"as", "channel", "ctrl", "ctxsw", "dbg", "prof", "prof-ctx", "prof-dev", "sched", "nvsched", "tsg"}

// addTegraNodes adds the nodes of a Jetson, as Jetson Linux R36 (Orin) and R38
// (Thor) make them. Its udev rules give them to group video. Numbers of nvmap,
// nvsciipc, host1x-fence and of the v4l2 nodes are unverified.
func addTegraNodes(m *host.Model, majors map[string]uint32) {
	video, _ := groups(m)
	node := func(p string, major, minor uint32) { setNode(m, char(p, major, minor, 0o660, video)) }
	board, _ := catalog.BoardByModel(m.Tegra.Model)

	node(nodePath(0), majorNVIDIA, 0)
	addMajor(m, "misc", majorMisc)
	node("/dev/nvmap", majorMisc, 120)
	node("/dev/nvsciipc", majorMisc, 119)
	node("/dev/host1x-fence", addMajor(m, "host1x-fence", majors["host1x-fence"]), 0)

	if hasPlatformGPU(m) {
		addNvgpuNodes(m, board.Platform, majors)
		nvhost := addMajor(m, "nvhost", majors["nvhost"])
		for i := range board.DLA {
			node(fmt.Sprintf("/dev/nvhost-ctrl-nvdla%d", i), nvhost, uint32(54+4*i))
		}
		if board.DLA > 0 {
			node("/dev/nvhost-ctrl-pva0", nvhost, 70)
		}
		addMajor(m, "mem", 1)
		for _, name := range []string{"/dev/v4l2-nvdec", "/dev/v4l2-nvenc"} {
			setNode(m, char(name, 1, 3, 0o666, 0)) // stand-ins with the number of /dev/null
		}
		addDisplayNodes(m, 0, 128, 2)
		return
	}
	node(nodePath(1), majorNVIDIA, 1)
	node("/dev/nvhost-ctrl-pva0", addMajor(m, "nvhost", majors["nvhost"]), 70)
	addDisplayNodes(m, 2, 129, 2)
}

// addNvgpuNodes adds both families of an integrated GPU's nodes.
func addNvgpuNodes(m *host.Model, platform string, majors map[string]uint32) {
	video, _ := groups(m)
	// Both regions carry the device's name; the second stands for "power".
	main := addMajor(m, platform, majors[platform])
	power := majors[platform+"/power"]
	if power == 0 {
		power = main - 1
		for taken(m, power) {
			power--
		}
	}
	m.Majors = append(m.Majors, host.Major{Major: power, Name: platform, Type: "c"})
	minor := uint32(0)
	for _, name := range nvgpuFamily {
		p := "/dev/nvhost-" + name + "-gpu"
		if name == "channel" {
			p = "/dev/nvhost-gpu"
		}
		setNode(m, char(p, main, minor, 0o660, video))
		minor++
	}
	for _, name := range nvgpuFamily {
		setNode(m, char("/dev/nvgpu/igpu0/"+name, main, minor, 0o660, video))
		minor++
	}
	setNode(m, char("/dev/nvhost-power-gpu", power, 0, 0o660, video))
	setNode(m, char("/dev/nvgpu/igpu0/power", power, 1, 0o660, video))
}

func taken(m *host.Model, major uint32) bool {
	for _, x := range m.Majors {
		if x.Major == major {
			return true
		}
	}
	return false
}

// addDisplayNodes adds the DRM nodes of the SoC's own display and host1x
// devices, which belong to no GPU.
func addDisplayNodes(m *host.Model, firstCard, firstRender, count int) {
	video, render := groups(m)
	addMajor(m, "drm", majorDRM)
	for i := range count {
		card := uint32(firstCard + i)
		rend := uint32(firstRender + i)
		setNode(m, char(fmt.Sprintf("/dev/dri/card%d", card), majorDRM, card, 0o660, video))
		setNode(m, char(fmt.Sprintf("/dev/dri/renderD%d", rend), majorDRM, rend, 0o660, render))
	}
}
