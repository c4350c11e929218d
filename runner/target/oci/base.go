package oci

import (
	rspec "github.com/opencontainers/runtime-spec/specs-go"

	"gpurig/runner/observe"
)

// capabilities are those that Docker and Podman give by default, as far as every
// machine that runs tests has them.
var capabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD", "CAP_NET_BIND_SERVICE",
	"CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
}

// base is the configuration of a container without devices, as an engine writes
// it: fresh namespaces, a tmpfs on /dev, no device but those that the runtime
// brings. It sets no resource limit, which takes CAP_SYS_RESOURCE, and hides
// nothing of /proc.
func (c *Container) base() *rspec.Spec {
	s := &rspec.Spec{
		Version:  "1.0.2",
		Hostname: c.Config.Name,
		Root:     &rspec.Root{Path: c.Root()},
		Process: &rspec.Process{
			Cwd:  "/",
			Args: []string{observe.OwnDir + "/probe", "init", observe.OwnDir},
			Env:  []string{"container=oci", "PATH=/sbin:/usr/sbin:/bin:/usr/bin"},
			Capabilities: &rspec.LinuxCapabilities{
				Bounding: capabilities, Effective: capabilities, Permitted: capabilities,
			},
		},
		Mounts: []rspec.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
			{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
			{Destination: observe.OwnDir, Type: "bind", Source: c.Inside("own"), Options: []string{"bind", "ro"}},
		},
		Linux: &rspec.Linux{
			CgroupsPath: "/" + c.Sandbox.Prefix() + "/" + c.Name,
			Resources:   &rspec.LinuxResources{Devices: []rspec.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}},
		},
	}
	for _, n := range []rspec.LinuxNamespaceType{rspec.MountNamespace, rspec.PIDNamespace, rspec.IPCNamespace, rspec.UTSNamespace, rspec.NetworkNamespace} {
		s.Linux.Namespaces = append(s.Linux.Namespaces, rspec.LinuxNamespace{Type: n})
	}
	if len(c.Config.IDMap) > 0 {
		s.Linux.Namespaces = append(s.Linux.Namespaces, rspec.LinuxNamespace{Type: rspec.UserNamespace})
		for _, m := range c.Config.IDMap {
			id := rspec.LinuxIDMapping{ContainerID: m.Container, HostID: m.Host, Size: m.Count}
			s.Linux.UIDMappings = append(s.Linux.UIDMappings, id)
			s.Linux.GIDMappings = append(s.Linux.GIDMappings, id)
		}
	}
	return s
}
