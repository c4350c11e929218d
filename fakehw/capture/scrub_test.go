package capture

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"gpurig/core/host"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/tree"
)

// randomUUID returns a UUID such as drivers make.
func randomUUID(r *rand.Rand) string {
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", r.Uint32(), r.Uint32()>>16, r.Uint32()>>16, r.Uint32()>>16, r.Uint64()>>16)
}

// renamed gives every GPU and MIG device of a host another UUID, and returns
// them all.
func renamed(m host.Model, r *rand.Rand) (host.Model, []string) {
	m = m.Clone()
	var all []string
	next := func(prefix string) string {
		u := randomUUID(r)
		all = append(all, u)
		return prefix + u
	}
	for i := range m.GPUs {
		g := &m.GPUs[i]
		switch {
		case strings.HasPrefix(g.UUID, "GPU-"):
			g.UUID = next("GPU-")
		case g.UUID != "": // an Orin's has no prefix
			g.UUID = next("")
		}
		if g.MIG == nil {
			continue
		}
		for _, gi := range g.MIG.Instances {
			for j := range gi.Compute {
				gi.Compute[j].UUID = next("MIG-")
			}
		}
	}
	return m, all
}

// spread puts a name in every place where people and programs write such.
func spread(t *testing.T, fake *tree.Tree, uuid string) {
	t.Helper()
	bare := strings.ReplaceAll(uuid, "-", "")
	for p, text := range map[string]string{
		"/etc/cdi/vendor.yaml":                                     "name: GPU-" + uuid + "\nother: " + strings.ToUpper(uuid) + "\nbare: " + bare + "\n",
		"/var/run/cdi/" + "x.json":                                 `{"name": "` + bare + `"}`,
		"/etc/nvidia-container-runtime/config.toml":                "visible = \"" + uuid + "," + uuid + "\"\n",
		"/etc/modprobe.d/nvidia.conf":                              "options nvidia NVreg_GpuBlacklist=" + uuid + "\n# of dbserver-17, 0a:1b:2c:3d:4e:5f\n",
		"/proc/driver/nvidia/registry":                             "Binary: " + uuid + "\n",
		"/proc/cmdline":                                            "root=UUID=" + uuid + " ro nvidia.NVreg_AssignGpus=" + uuid + " ip=10.1.2.3::gw:dbserver-17 rd.luks.uuid=" + uuid + " root=/dev/mapper/dbserver--17 -- --secret hunter2\n",
		"/proc/sys/kernel/hostname":                                "dbserver-17\n",
		"/sys/bus/pci/devices/0000:ff:00.0/vendor":                 "0x10de\n",
		"/sys/bus/pci/devices/0000:ff:00.0/class":                  "0x030000\n",
		"/sys/bus/pci/devices/0000:ff:00.0/unique_id":              bare[:16] + "\n",
		"/sys/bus/pci/devices/0000:ff:00.0/serial_number":          "1320123456789\n",
		"/sys/bus/pci/devices/0000:ff:00.0/config":                 strings.Repeat("x", 256) + "1320123456789",
		"/sys/firmware/devicetree/base/serial-number":              "1320123456789\x00",
		"/sys/devices/virtual/kfd/kfd/topology/nodes/9/properties": "unique_id 1320123456789\ndomain 0\n",
	} {
		if err := fake.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for p, target := range map[string]string{
		"/sys/bus/mdev/devices/" + uuid: "../../../devices/pci0000:00/" + uuid,
		"/sys/class/kfd/kfd":            "../../devices/virtual/kfd/kfd",
	} {
		if err := fake.Symlink(p, target); err != nil {
			t.Fatal(err)
		}
	}
}

// What names one machine among all never gets into a recording, wherever it
// stands and however it is spelled, of every profile and of hosts with names at
// random.
func TestNothingNamesTheMachine(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range profiles.Names() {
		m, uuids := renamed(profile(t, name), r)
		fake := built(t, m)
		planted := randomUUID(r)
		spread(t, fake, planted)
		_, text := again(t, record(t, fake, nvmlOf(m)))
		low := strings.ToLower(string(text))
		secrets := []string{"1320123456789", "dbserver", "0a:1b:2c:3d:4e:5f", "hunter2", "10.1.2.3"}
		for _, u := range append(uuids, planted) {
			secrets = append(secrets, u, strings.ReplaceAll(u, "-", ""), strings.ReplaceAll(u, "-", "")[:16])
		}
		for _, s := range secrets {
			if at := strings.Index(low, s); at >= 0 {
				t.Errorf("%s: %s is in the recording: …%s…", name, s, low[max(0, at-60):min(len(low), at+60)])
			}
		}
		if !strings.Contains(string(text), "root=UUID=0000") {
			t.Errorf("%s: the command line has lost what is harmless", name)
		}
	}
}

// Two machines of equal structure have equal recordings, and one name is
// replaced by one stand-in everywhere.
func TestEqualMachinesHaveEqualRecordings(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, name := range []string{"dgx-a100", "a100-mig-mixed", "jetson-agx-orin"} {
		var texts [2]string
		for i := range texts {
			m, uuids := renamed(profile(t, name), r)
			fake := built(t, m)
			if err := fake.WriteFile("/etc/cdi/vendor.yaml", []byte("last: "+strings.ToUpper(uuids[len(uuids)-1])+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			_, text := again(t, record(t, fake, nvmlOf(m)))
			texts[i] = string(text)
			last := fmt.Sprintf("%08x-0000-4000-8000-000000000000", len(uuids))
			if n := len(regexp.MustCompile(last).FindAllString(texts[i], -1)); n < 2 {
				t.Errorf("%s: %s stands %d times", name, last, n)
			}
		}
		if texts[0] != texts[1] {
			t.Errorf("%s: recordings of two machines of one kind differ", name)
		}
	}
}

func TestNamesThatNameNothing(t *testing.T) {
	for host, want := range map[string]string{
		"":         "x nvidia-smi of nvidia",
		"nvidia":   "x nvidia-smi of nvidia",
		"x":        "x nvidia-smi of nvidia",
		"smi":      "x nvidia-host of nvidia",
		"of":       "x nvidia-smi of nvidia",
		"NVIDIA-S": "x nvidia-smi of nvidia", // a part of a word
	} {
		if got := newScrubber(host).name("x nvidia-smi of nvidia"); got != want {
			t.Errorf("of a machine called %q: %q; want %q", host, got, want)
		}
	}
}
