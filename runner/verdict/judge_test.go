package verdict_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"gpurig/core/cdi"
	"gpurig/core/device"
	"gpurig/core/pci"
	"gpurig/core/plan"
	"gpurig/core/refuse"
	"gpurig/reports"
	"gpurig/runner/observe"
	"gpurig/runner/verdict"
	"gpurig/scenarios"

	specs "tags.cncf.io/container-device-interface/specs-go"
)

const lib = "/usr/lib/x86_64-linux-gnu"

// sound is a container with one GPU in which everything is right.
func sound() verdict.Evidence {
	num := device.Num{Major: 195, Minor: 0}
	return verdict.Evidence{
		Container: "c1", Step: "1: start c1",
		Devices: []string{"nvidia.com/gpu=0", "nvidia.com/gpu=1"},
		Edits: []cdi.Edits{{Device: "nvidia.com/gpu=0", Edits: &specs.ContainerEdits{
			DeviceNodes: []*specs.DeviceNode{{Path: "/dev/nvidia0", Major: 195, Minor: 0}},
			Mounts:      []*specs.Mount{{HostPath: lib + "/libcuda.so.550.1", ContainerPath: lib + "/libcuda.so.550.1"}},
			Hooks:       []*specs.Hook{{Args: []string{"x", "create-symlinks", "--link", "libcuda.so.550.1::" + lib + "/libcuda.so.1"}}},
			Env:         []string{"NVIDIA_VISIBLE_DEVICES=void"},
		}}},
		Plan: &plan.Plan{
			Devices: []string{"nvidia.com/gpu=0"},
			Nodes:   []plan.Node{{Path: "/dev/nvidia0", Type: device.Char, Num: num, Mode: 0o666, Permissions: "rw", Owners: plan.Owners{"gpu0"}}},
			Mounts: []plan.Mount{{Source: lib + "/libcuda.so.550.1", Target: lib + "/libcuda.so.550.1",
				Options: []string{"ro", "nosuid"}, Owners: plan.Owners{"gpu0"}}},
			Links:       []plan.Link{{Path: lib + "/libcuda.so.1", Target: "libcuda.so.550.1", Owners: plan.Owners{"gpu0"}}},
			LibraryDirs: []string{lib},
			Env:         []plan.Var{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "void"}},
			Notes:       []plan.Note{{Reason: "needs-image-libraries"}},
			Groups:      []uint32{44},
		},
		Configuration: "lxc.cgroup2.devices.allow = c 195:0 rw\nlxc.mount.entry = /dev/nvidia0 dev/nvidia0 none bind 0 0\n" +
			"lxc.mount.entry = x usr/lib/x86_64-linux-gnu/libcuda.so.550.1 none bind,ro 0 0",
		Running: true,
		Seen: &observe.Observation{
			Nodes: []observe.Node{{Path: "/dev/nvidia0", Type: device.Char, Num: num, Mode: 0o666, Open: observe.Allowed}},
			Mounts: []observe.Mount{{Target: "/dev/nvidia0", Type: "char", Options: []string{"rw"}},
				{Target: lib + "/libcuda.so.550.1", Type: "file", Options: []string{"nosuid", "ro"}}},
			Links:    []observe.Link{{Path: lib + "/libcuda.so.1", Target: "libcuda.so.550.1", Final: lib + "/libcuda.so.550.1"}},
			Files:    []observe.File{{Path: "/etc/x", Type: "file"}},
			Contents: []observe.Content{{Path: "/etc/y", Text: "text\n"}},
			Libraries: []observe.Library{{SONAME: "libcuda.so.1", Path: lib + "/libcuda.so.1", Final: lib + "/libcuda.so.550.1", Via: "ld.so.cache", Origin: "/opt/driver/libcuda.so.550.1"},
				{SONAME: "libnone.so.1"}},
			Env:    []string{"NVIDIA_VISIBLE_DEVICES=void"},
			Groups: []uint32{44},
		},
		Host: standing(), Before: standing(),
	}
}

// standing is a host with one GPU, a virtual function with a vGPU, and a mediated device.
func standing() *observe.Host {
	pf := pci.BDF{Bus: 0x41}
	return &observe.Host{
		Functions: []observe.Function{
			{BDF: pf, Driver: "nvidia", Group: 12, VFs: 1},
			{BDF: pci.BDF{Bus: 0x41, Function: 4}, Driver: "vfio-pci", Override: "vfio-pci", Group: 13, VGPU: 557},
		},
		MDevs: []observe.MDev{{UUID: "83c1", Parent: pf, Type: "nvidia-468"}},
		Left:  []observe.Left{{Parent: pf, Type: "nvidia-468", N: 3}},
		Nodes: []device.Node{{Path: "/dev/nvidia0", Type: device.Char, Num: device.Num{Major: 195}, Mode: 0o666}},
	}
}

func n(i int) *int { return &i }

func yes() *bool          { b := true; return &b }
func id(n uint32) *uint32 { return &n }

// everything is an expectation of each kind, all met by sound.
func everything() scenarios.Expect {
	return scenarios.Expect{
		Spec:      scenarios.SpecExpect{Devices: []string{"nvidia.com/gpu=0"}, NoDevices: []string{"nvidia.com/mig=*"}},
		Noted:     []string{"needs-image-libraries"},
		Nodes:     map[string]scenarios.NodeExpect{"/dev/nvidia0": {Number: "195:0", Type: "c", Mode: "0666", UID: id(0), GID: id(0), Open: "allowed"}},
		OnlyNodes: []string{"/dev/nvidia[0-9]"},
		Absent:    []string{"/dev/nvidia1", "/dev/dri/*"},
		Links:     map[string]string{lib + "/libcuda.so.1": "libcuda.so.550.1"},
		Resolves:  map[string]string{lib + "/libcuda.so.1": lib + "/libcuda.so.550.1"},
		Mounts:    map[string]string{lib + "/libcuda.so.550.1": "ro,nosuid", "/dev/nvidia0": ""},
		Library:   map[string]string{"libcuda.so.1": "550.1", "libnone.so.1": "none"},
		Host: scenarios.HostExpect{
			Unchanged: true,
			Functions: map[string]scenarios.FunctionExpect{
				"0000:41:00.0": {Driver: "nvidia", Override: "none", Group: n(12), VFs: n(1)},
				"0000:41:00.4": {Driver: "vfio-pci", Override: "vfio-pci", VGPU: n(557)},
				"0000:42:00.0": {Driver: "absent"},
			},
			MDevs: map[string]scenarios.MDevExpect{"nvidia-468": {Made: n(1), Left: n(3)}},
		},
		Files:    map[string]string{"/etc/x": "empty"},
		Contents: map[string]string{"/etc/y": "text\n"},
		Nowhere:  []string{"canary-1"},
		Env:      map[string]string{"NVIDIA_VISIBLE_DEVICES": "void"},
		Groups:   []uint32{44},
		Running:  yes(),
		Plan: scenarios.PlanExpect{
			Devices: []string{"nvidia.com/gpu=0"}, Folders: []string{lib},
			Links:    map[string]string{lib + "/libcuda.so.1": "libcuda.so.550.1"},
			Mounts:   map[string]string{lib + "/libcuda.so.550.1": ""},
			NoMounts: []string{"/proc/*"},
			Lines:    []string{"lxc.cgroup2.devices.allow = c 195:0 rw"},
			NoLines:  []string{"*195:1*"},
		},
	}
}

func TestASoundContainerHasNoFindings(t *testing.T) {
	if got := verdict.Judge(everything(), sound()); len(got) > 0 {
		t.Errorf("findings: %+v", got)
	}
}

// One thing is broken; the first finding names it and the first station where
// it shows.
func TestTheFirstStationThatDiffers(t *testing.T) {
	for _, tc := range []struct {
		name    string
		break_  func(*verdict.Evidence)
		station verdict.Station
		what    string
		got     string // part of Got
	}{
		{"the Spec lacks a device", func(ev *verdict.Evidence) { ev.Devices = ev.Devices[1:] }, verdict.Spec, "nvidia.com/gpu=0", "nvidia.com/gpu=1"},
		{"the Spec offers too much", func(ev *verdict.Evidence) { ev.Devices = append(ev.Devices, "nvidia.com/mig=0:1") }, verdict.Spec, "nvidia.com/mig=0:1", "offered"},
		{"the Spec lacks a node", func(ev *verdict.Evidence) {
			ev.Edits, ev.Plan.Nodes, ev.Seen.Nodes = nil, nil, nil
			ev.Seen.Mounts = ev.Seen.Mounts[1:]
		}, verdict.Spec, "/dev/nvidia0", "nothing"},
		{"the plan lacks a node", func(ev *verdict.Evidence) {
			ev.Plan.Nodes, ev.Seen.Nodes, ev.Seen.Mounts = nil, nil, ev.Seen.Mounts[1:]
		}, verdict.Plan, "/dev/nvidia0", "nothing"},
		{"the configuration lacks a node", func(ev *verdict.Evidence) {
			ev.Configuration, ev.Seen.Nodes, ev.Seen.Mounts = "lxc.cgroup2.devices.allow = c 195:0 rw", nil, ev.Seen.Mounts[1:]
		}, verdict.Configuration, "/dev/nvidia0", "nothing"},
		{"a node was not mounted", func(ev *verdict.Evidence) {
			ev.Seen.Nodes, ev.Seen.Mounts = nil, ev.Seen.Mounts[1:]
		}, verdict.Mounts, "/dev/nvidia0", "nothing"},
		{"a node is not seen inside", func(ev *verdict.Evidence) { ev.Seen.Nodes = nil }, verdict.Inside, "/dev/nvidia0", "mounted char"},
		{"the Spec has a wrong number", func(ev *verdict.Evidence) {
			ev.Edits[0].Edits.DeviceNodes[0].Minor = 7
			ev.Plan.Nodes[0].Num.Minor, ev.Seen.Nodes[0].Num.Minor = 7, 7
		}, verdict.Spec, "/dev/nvidia0", "number 195:7"},
		{"the plan has a wrong mode", func(ev *verdict.Evidence) { ev.Plan.Nodes[0].Mode, ev.Seen.Nodes[0].Mode = 0o600, 0o600 }, verdict.Plan, "/dev/nvidia0", "mode 0600"},
		{"the owner is wrong inside", func(ev *verdict.Evidence) { ev.Seen.Nodes[0].UID = 65534 }, verdict.Inside, "/dev/nvidia0", "owner 65534"},
		{"the group is wrong inside", func(ev *verdict.Evidence) { ev.Seen.Nodes[0].GID = 44 }, verdict.Inside, "/dev/nvidia0", "group 44"},
		{"the type is wrong", func(ev *verdict.Evidence) { ev.Seen.Nodes[0].Type = device.Block }, verdict.Inside, "/dev/nvidia0", "type b"},
		{"the device rule is missing", func(ev *verdict.Evidence) {
			ev.Configuration = strings.ReplaceAll(ev.Configuration, "195:0", "195:9")
			ev.Seen.Nodes[0].Open = observe.Denied
		}, verdict.Configuration, "/dev/nvidia0", "open is denied"},
		{"the plan permits nothing", func(ev *verdict.Evidence) {
			ev.Plan.Nodes[0].Permissions, ev.Seen.Nodes[0].Open = "", observe.Denied
		}, verdict.Plan, "/dev/nvidia0", "open is denied"},
		{"a node that nobody planned", func(ev *verdict.Evidence) {
			ev.Seen.Nodes = append(ev.Seen.Nodes, observe.Node{Path: "/dev/nvidia1", Num: device.Num{Major: 195, Minor: 1}})
		}, verdict.Inside, "/dev/nvidia1", "195:1"},
		{"a neighbour's node, all the way", func(ev *verdict.Evidence) {
			ev.Edits[0].Edits.DeviceNodes = append(ev.Edits[0].Edits.DeviceNodes, &specs.DeviceNode{Path: "/dev/dri/card1"})
			ev.Plan.Nodes = append(ev.Plan.Nodes, plan.Node{Path: "/dev/dri/card1", Type: device.Char, Num: device.Num{Major: 226, Minor: 1}, Mode: 0o660})
			ev.Seen.Nodes = append(ev.Seen.Nodes, observe.Node{Path: "/dev/dri/card1", Type: device.Char, Num: device.Num{Major: 226, Minor: 1}, Open: observe.Denied})
		}, verdict.Spec, "/dev/dri/card1", "226:1"},
		{"an absolute link", func(ev *verdict.Evidence) { ev.Plan.Links[0].Target = lib + "/libcuda.so.550.1" }, verdict.Plan, lib + "/libcuda.so.1", lib},
		{"a link to itself", func(ev *verdict.Evidence) { ev.Plan.Links[0].Target = "libcuda.so.1" }, verdict.Plan, lib + "/libcuda.so.1", "libcuda.so.1"},
		{"a stale link", func(ev *verdict.Evidence) { ev.Seen.Links[0].Target = "libcuda.so.470.1" }, verdict.Inside, lib + "/libcuda.so.1", "libcuda.so.470.1"},
		{"a dangling link", func(ev *verdict.Evidence) { ev.Seen.Links[0].Final = "" }, verdict.Inside, lib + "/libcuda.so.1", "dangling"},
		{"a mount without ro", func(ev *verdict.Evidence) {
			ev.Plan.Mounts[0].Options, ev.Seen.Mounts[1].Options = []string{"nosuid"}, []string{"nosuid"}
		}, verdict.Plan, lib + "/libcuda.so.550.1", "mounted with nosuid"},
		{"a mount that lost ro", func(ev *verdict.Evidence) { ev.Seen.Mounts[1].Options = []string{"nosuid"} }, verdict.Mounts, lib + "/libcuda.so.550.1", "mounted with nosuid"},
		{"a mount twice", func(ev *verdict.Evidence) { ev.Seen.Mounts = append(ev.Seen.Mounts, ev.Seen.Mounts[1]) }, verdict.Mounts, lib + "/libcuda.so.550.1", "twice"},
		{"a mount planned twice", func(ev *verdict.Evidence) { ev.Plan.Mounts = append(ev.Plan.Mounts, ev.Plan.Mounts[0]) }, verdict.Plan, lib + "/libcuda.so.550.1", "twice"},
		{"a mount that nobody owns", func(ev *verdict.Evidence) { ev.Plan.Mounts[0].Owners = nil }, verdict.Plan, lib + "/libcuda.so.550.1", "no owner"},
		{"a node with major 0", func(ev *verdict.Evidence) { ev.Plan.Nodes[0].Num, ev.Seen.Nodes[0].Num = device.Num{}, device.Num{} }, verdict.Plan, "/dev/nvidia0", "0"},
		{"an old library", func(ev *verdict.Evidence) { ev.Seen.Libraries[0].Final = lib + "/libcuda.so.535.1" }, verdict.Inside, "libcuda.so.1", "535.1"},
		{"a library of the image with the right name", func(ev *verdict.Evidence) { ev.Seen.Libraries[0].Origin = observe.Image }, verdict.Inside, "libcuda.so.1", "a file of the image"},
		{"a library that cannot be loaded", func(ev *verdict.Evidence) { ev.Seen.Libraries[0].Problem = "file too short" }, verdict.Inside, "libcuda.so.1", "file too short"},
		{"a library of somebody else", func(ev *verdict.Evidence) { ev.Seen.Libraries[1].Path, ev.Seen.Libraries[1].Final = "/x", "/x" }, verdict.Inside, "libnone.so.1", "/x"},
		{"a file that is not empty", func(ev *verdict.Evidence) { ev.Seen.Files[0].Size = 1 }, verdict.Inside, "/etc/x", "file"},
		{"a file has another text", func(ev *verdict.Evidence) { ev.Seen.Contents[0].Text = "text" }, verdict.Inside, "/etc/y", `"text"`},
		{"a file is gone", func(ev *verdict.Evidence) {
			ev.Seen.Contents[0] = observe.Content{Path: "/etc/y", Problem: "no such file"}
		}, verdict.Inside, "/etc/y", "no such file"},
		{"a file was not read", func(ev *verdict.Evidence) { ev.Seen.Contents = nil }, verdict.Inside, "/etc/y", "the request lacks it"},
		{"a secret is in a file", func(ev *verdict.Evidence) { ev.Seen.Found = []observe.Found{{Text: "canary-1", Path: "/etc/z"}} }, verdict.Inside, "/etc/z", "it is there"},
		{"a secret is in a warning", func(ev *verdict.Evidence) {
			ev.Warnings = []verdict.Warning{{Reason: "x", Text: "not a folder: canary-1"}}
		}, verdict.Plan, "message", "one that has it"},
		{"a variable is not set", func(ev *verdict.Evidence) { ev.Seen.Env = nil }, verdict.Inside, "NVIDIA_VISIBLE_DEVICES", "not set"},
		{"a variable was not planned", func(ev *verdict.Evidence) { ev.Seen.Env, ev.Plan.Env = nil, nil }, verdict.Plan, "NVIDIA_VISIBLE_DEVICES", "not set"},
		{"a group is missing", func(ev *verdict.Evidence) { ev.Seen.Groups, ev.Plan.Groups = nil, nil }, verdict.Plan, "additional groups", "[]"},
		{"a note is missing", func(ev *verdict.Evidence) { ev.Plan.Notes = nil }, verdict.Plan, "note", "none"},
		{"other devices are planned", func(ev *verdict.Evidence) { ev.Plan.Devices = []string{"nvidia.com/gpu=1"} }, verdict.Plan, "devices", "gpu=1"},
		{"other folders are planned", func(ev *verdict.Evidence) { ev.Plan.LibraryDirs = nil }, verdict.Plan, "library folders", "none"},
		{"a line is missing", func(ev *verdict.Evidence) { ev.Configuration = "lxc.cgroup2.devices.allow = c 1:1 r" }, verdict.Configuration, "lxc.cgroup2.devices.allow = c 195:0 rw", "c 1:1 r"},
		{"a line too many", func(ev *verdict.Evidence) { ev.Configuration += "\nx 195:1 y" }, verdict.Configuration, "*195:1*", "x 195:1 y"},
		{"it does not run", func(ev *verdict.Evidence) { ev.Running = false }, verdict.Inside, "container", "not running"},
		{"a function has no driver", func(ev *verdict.Evidence) { ev.Host.Functions[0].Driver = "" }, verdict.Host, "0000:41:00.0", "driver none"},
		{"an override is left", func(ev *verdict.Evidence) { ev.Host.Functions[0].Override = "vfio-pci" }, verdict.Host, "0000:41:00.0", "override vfio-pci"},
		{"another group", func(ev *verdict.Evidence) { ev.Host.Functions[0].Group = -1 }, verdict.Host, "0000:41:00.0", "IOMMU group -1"},
		{"a vGPU is gone", func(ev *verdict.Evidence) { ev.Host.Functions[1].VGPU = 0 }, verdict.Host, "0000:41:00.4", "vGPU type 0"},
		{"virtual functions are gone", func(ev *verdict.Evidence) {
			ev.Host.Functions[0].VFs, ev.Host.Functions = 0, ev.Host.Functions[:1]
		}, verdict.Host, "0000:41:00.4", "nothing"},
		{"a mediated device is left", func(ev *verdict.Evidence) { ev.Host.MDevs = append(ev.Host.MDevs, ev.Host.MDevs[0]) }, verdict.Host, "nvidia-468", "2 made"},
		{"instances are used up", func(ev *verdict.Evidence) { ev.Host.Left[0].N = 0 }, verdict.Host, "nvidia-468", "0 left"},
		{"no parent has the type", func(ev *verdict.Evidence) { ev.Host.MDevs, ev.Host.Left = nil, nil }, verdict.Host, "nvidia-468", "no function can have one"},
		{"a node of the host is gone", func(ev *verdict.Evidence) { ev.Host.Nodes = nil }, verdict.Host, "host nodes /dev/nvidia0", "nothing"},
		{"nobody looked at the host", func(ev *verdict.Evidence) { ev.Host = nil }, verdict.Host, "host", "it was not"},
		{"nobody looked at the host before", func(ev *verdict.Evidence) { ev.Before = nil }, verdict.Host, "host", "it was not"},
		{"a refusal that nobody expects", func(ev *verdict.Evidence) {
			ev.Err, ev.At = refuse.New("not-found", "gpu0", "no such device").WithHint("Write 0."), verdict.Spec
		}, verdict.Spec, "refusal", "no such device (hint: Write 0.)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ev := sound()
			tc.break_(&ev)
			got := verdict.Judge(everything(), ev)
			if len(got) == 0 {
				t.Fatal("no finding")
			}
			f := got[0]
			named := slices.ContainsFunc(got, func(f reports.Finding) bool {
				return f.Station == string(tc.station) && f.What == tc.what && strings.Contains(f.Got, tc.got)
			})
			if f.Station != string(tc.station) || !named {
				t.Errorf("findings: %+v\nwant station %s first, what %q, got with %q", got, tc.station, tc.what, tc.got)
			}
			if f.Container != "c1" || f.Step != "1: start c1" || f.Want == "" {
				t.Errorf("finding lacks container, step or want: %+v", f)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	two := errors.Join(refuse.New("not-found", "gpu0", "no such device"), refuse.New("bad-mode", "gpu1", "mode 9"))
	for _, tc := range []struct {
		name string
		want scenarios.Expect
		err  error
		bad  string // part of the finding's Got; empty: none
	}{
		{"the reason that was expected", scenarios.Expect{Refused: "not-found"}, two, ""},
		{"the second reason", scenarios.Expect{Refused: "bad-mode", Says: []string{"mode 9"}}, two, ""},
		{"another reason", scenarios.Expect{Refused: "mig-all"}, two, "not-found, bad-mode: "},
		{"no refusal at all", scenarios.Expect{Refused: "mig-all"}, nil, "it was carried out"},
		{"an error that is no refusal", scenarios.Expect{Refused: "mig-all"}, errors.New("disk full"), "disk full"},
		{"other words", scenarios.Expect{Refused: "not-found", Says: []string{"nvidia.com/gpu=15"}}, two, "no such device"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := verdict.Judge(tc.want, verdict.Evidence{Container: "c1", Err: tc.err})
			switch {
			case tc.bad == "" && len(got) > 0:
				t.Errorf("findings: %+v", got)
			case tc.bad != "" && (len(got) == 0 || !strings.Contains(got[0].Got, tc.bad)):
				t.Errorf("findings %+v; want one with %q", got, tc.bad)
			}
		})
	}
}

func TestSameAs(t *testing.T) {
	ev, other := sound(), sound()
	ev.Others = map[string]verdict.Evidence{"c2": other}
	want := scenarios.Expect{SameAs: "c2"}
	if got := verdict.Judge(want, ev); len(got) > 0 {
		t.Errorf("findings between equals: %+v", got)
	}
	other.Seen.Env = []string{"A=b"}
	if got := verdict.Judge(want, ev); len(got) == 0 || got[0].Want == "" || !strings.Contains(got[0].What, "env") {
		t.Errorf("findings %+v; want one about env", got)
	}
	ev.Others = nil
	if got := verdict.Judge(want, ev); len(got) != 1 {
		t.Errorf("findings %+v; want one about the missing container", got)
	}
}

func TestMatchLine(t *testing.T) {
	for _, tc := range []struct {
		pattern, line string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"*b*", "abc", true}, {"*b", "abc", false},
		{"lxc.mount.entry = */dev/nvidia1 *", "lxc.mount.entry = /x/dev/nvidia1 none", true},
		{"*a*a*", "a", false}, {"", "", true},
	} {
		if got := verdict.MatchLine(tc.pattern, tc.line); got != tc.want {
			t.Errorf("MatchLine(%q, %q) = %v", tc.pattern, tc.line, got)
		}
	}
}

func TestRequestAsksForAllThatIsJudged(t *testing.T) {
	r := verdict.Request(everything(), sound().Plan)
	for _, tc := range []struct {
		list []string
		item string
	}{{r.Dirs, lib}, {r.Dirs, "/dev/dri"}, {r.Paths, "/etc/x"}, {r.Paths, lib + "/libcuda.so.1"}, {r.Paths, "/dev/nvidia1"}, {r.SONAMEs, "libcuda.so.1"}, {r.Contents, "/etc/y"}, {r.Texts, "canary-1"}} {
		if !slices.Contains(tc.list, tc.item) {
			t.Errorf("Request lacks %s: %+v", tc.item, r)
		}
	}
}
