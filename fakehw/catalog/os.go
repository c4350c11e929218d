package catalog

import "fmt"

// An OS is a distribution as GPU hosts run it: names, group ids of device
// nodes, and where its packages put NVIDIA's libraries.
type OS struct {
	ID        string // /etc/os-release ID
	Name      string // NAME
	MergedUsr bool   // /lib is a link to usr/lib
	Video     uint32 // gid of group video
	Render    uint32 // gid of group render; varies between installations
	GCC       string // version text that /proc/driver/nvidia/version shows
}

// OSes are the known distributions.
var OSes = []OS{
	{ID: "debian", Name: "Debian GNU/Linux", MergedUsr: true, Video: 44, Render: 105, GCC: "gcc version 12.2.0 (Debian 12.2.0-14) "},
	{ID: "nixos", Name: "NixOS", MergedUsr: false, Video: 26, Render: 303, GCC: "gcc version 13.3.0 (GCC) "},
	{ID: "rhel", Name: "Red Hat Enterprise Linux", MergedUsr: true, Video: 39, Render: 105, GCC: "gcc version 11.5.0 20240719 (Red Hat 11.5.0-5) (GCC) "},
	{ID: "ubuntu", Name: "Ubuntu", MergedUsr: true, Video: 44, Render: 992, GCC: "gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04) "},
	{ID: "ubuntu-core", Name: "Ubuntu Core", MergedUsr: true, Video: 44, Render: 993, GCC: "gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04) "},
}

// FindOS returns the distribution with this os-release ID. The error is an
// *UnknownError.
func FindOS(id string) (OS, error) {
	var known []string
	for _, o := range OSes {
		if o.ID == id {
			return o, nil
		}
		known = append(known, o.ID)
	}
	return OS{}, &UnknownError{Kind: "os", Name: id, Known: known}
}

// LibDir returns where the distribution's packages put NVIDIA's libraries for
// a machine of this architecture (uname -m).
func (o OS) LibDir(arch string) string {
	switch o.ID {
	case "rhel":
		return "/usr/lib64"
	case "nixos":
		return "/run/opengl-driver/lib"
	}
	return fmt.Sprintf("/usr/lib/%s-linux-gnu", arch)
}
