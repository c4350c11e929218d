package cdi

import (
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/device"
	"gpurig/core/strictdoc"
)

// The functions below are the CDI schema: for each object its fields, which of
// them are required, and how each is read.

func (d *decoder) spec(n *strictdoc.Node) *specs.Spec {
	s := &specs.Spec{}
	d.object(n, "",
		field{"cdiVersion", true, d.text(&s.Version)},
		field{"kind", true, d.text(&s.Kind)},
		field{"annotations", false, d.annotations(&s.Annotations)},
		field{"devices", true, d.list(func(n *strictdoc.Node, path string) {
			s.Devices = append(s.Devices, d.device(n, path))
		})},
		field{"containerEdits", false, d.edits(&s.ContainerEdits)},
	)
	return s
}

func (d *decoder) device(n *strictdoc.Node, path string) specs.Device {
	var dev specs.Device
	d.object(n, path,
		field{"name", true, d.text(&dev.Name)},
		field{"annotations", false, d.annotations(&dev.Annotations)},
		field{"containerEdits", true, d.edits(&dev.ContainerEdits)},
	)
	return dev
}

func (d *decoder) edits(e *specs.ContainerEdits) func(*strictdoc.Node, string) {
	return func(n *strictdoc.Node, path string) {
		d.object(n, path,
			field{"env", false, d.texts(&e.Env)},
			field{"deviceNodes", false, pointers(d, &e.DeviceNodes, decodeNode)},
			field{"netDevices", false, pointers(d, &e.NetDevices, decodeNet)},
			field{"hooks", false, pointers(d, &e.Hooks, decodeHook)},
			field{"mounts", false, pointers(d, &e.Mounts, decodeMount)},
			field{"intelRdt", false, func(n *strictdoc.Node, path string) {
				e.IntelRdt = &specs.IntelRdt{}
				decodeRDT(d, e.IntelRdt, n, path)
			}},
			field{"additionalGids", false, d.gids(&e.AdditionalGIDs)},
		)
	}
}

func decodeNode(d *decoder, v *specs.DeviceNode, n *strictdoc.Node, path string) {
	d.object(n, path,
		field{"path", true, d.text(&v.Path)},
		field{"hostPath", false, d.text(&v.HostPath)},
		field{"type", false, d.text(&v.Type)},
		field{"major", false, d.int64(&v.Major, device.MaxMajor)},
		field{"minor", false, d.int64(&v.Minor, device.MaxMinor)},
		field{"fileMode", false, d.mode(&v.FileMode)},
		field{"permissions", false, d.text(&v.Permissions)},
		field{"uid", false, d.uint32(&v.UID)},
		field{"gid", false, d.uint32(&v.GID)},
	)
}

func decodeMount(d *decoder, v *specs.Mount, n *strictdoc.Node, path string) {
	d.object(n, path,
		field{"hostPath", true, d.text(&v.HostPath)},
		field{"containerPath", true, d.text(&v.ContainerPath)},
		field{"options", false, d.texts(&v.Options)},
		field{"type", false, d.text(&v.Type)},
	)
}

func decodeHook(d *decoder, v *specs.Hook, n *strictdoc.Node, path string) {
	d.object(n, path,
		field{"hookName", true, d.text(&v.HookName)},
		field{"path", true, d.text(&v.Path)},
		field{"args", false, d.texts(&v.Args)},
		field{"env", false, d.texts(&v.Env)},
		field{"timeout", false, func(n *strictdoc.Node, path string) {
			if sec, ok := d.number(n, path, 0, 1<<31-1); ok {
				t := int(sec)
				v.Timeout = &t
			}
		}},
	)
}

func decodeRDT(d *decoder, v *specs.IntelRdt, n *strictdoc.Node, path string) {
	d.object(n, path,
		field{"closID", false, d.text(&v.ClosID)},
		field{"l3CacheSchema", false, d.text(&v.L3CacheSchema)},
		field{"memBwSchema", false, d.text(&v.MemBwSchema)},
		field{"schemata", false, d.texts(&v.Schemata)},
		field{"enableMonitoring", false, d.boolean(&v.EnableMonitoring)},
	)
}

func decodeNet(d *decoder, v *specs.LinuxNetDevice, n *strictdoc.Node, path string) {
	d.object(n, path,
		field{"hostInterfaceName", true, d.text(&v.HostInterfaceName)},
		field{"name", true, d.text(&v.Name)},
	)
}
