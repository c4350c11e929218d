package nvmllib_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/fakehw/nvmllib"
)

// A container that was given some of a host's nodes has what they lead to, under
// numbers of its own.
func TestThereIsOnlyWhatMayBeOpened(t *testing.T) {
	lib := library(t)
	for _, tc := range []struct {
		name, host, nodes string // of /dev
		init              nvml.Return
		want              string // GPUs of the host and, in brackets, profiles of MIG devices, in order
	}{
		{name: "all of a host", host: "t4-server", nodes: "nvidiactl nvidia0 nvidia1", want: "0 1"},
		{name: "the second GPU alone", host: "t4-server", nodes: "nvidiactl nvidia1", want: "1"},
		{name: "no GPU", host: "t4-server", nodes: "nvidiactl", want: ""},
		{name: "no control node", host: "t4-server", nodes: "nvidia0 nvidia1", init: nvml.ERROR_DRIVER_NOT_LOADED},
		{name: "one MIG device of two", host: "a100-mig-2g-3g", nodes: "nvidiactl nvidia0 nvidia-caps/nvidia-cap21 nvidia-caps/nvidia-cap22", want: "0 [3g.20gb]"},
		{name: "a GPU instance without its compute instance", host: "a100-mig-2g-3g", nodes: "nvidiactl nvidia0 nvidia-caps/nvidia-cap21", want: "0"},
		{name: "who may monitor sees all", host: "a100-mig-2g-3g", nodes: "nvidiactl nvidia0 nvidia-caps/nvidia-cap2", want: "0 [2g.10gb] [3g.20gb]"},
		{name: "an integrated GPU has other nodes", host: "jetson-agx-orin", want: "0"},
		{name: "beside a card that may not be opened", host: "igx-orin", nodes: "nvidiactl", want: "0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := profile(t, tc.host)
			onHost(t, nvmllib.State(m))
			root := t.TempDir()
			for _, n := range strings.Fields(tc.nodes) {
				path := filepath.Join(root, "dev", n)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv(nvmllib.RootEnv, root)
			l := nvml.New(nvml.WithLibraryPath(lib))
			if r := l.Init(); r != tc.init {
				t.Fatalf("Init() = %d, want %d", r, tc.init)
			} else if r != nvml.SUCCESS {
				return
			}
			defer l.Shutdown()
			var got []string
			n, _ := l.DeviceGetCount()
			for i := range n {
				d, r := l.DeviceGetHandleByIndex(i)
				uuid, _ := d.GetUUID()
				if index, _ := d.GetIndex(); r != nvml.SUCCESS || index != i {
					t.Errorf("GPU %d has index %d, %d", i, index, r)
				}
				for _, g := range m.NVIDIAGPUs() {
					if g.UUID == uuid {
						got = append(got, fmt.Sprint(g.Index))
					}
				}
				for j := range 8 {
					if d, r := d.GetMigDeviceHandleByIndex(j); r == nvml.SUCCESS {
						name, _ := d.GetName()
						_, p, _ := strings.Cut(name, " MIG ")
						got = append(got, "["+p+"]")
						if index, _ := d.GetIndex(); index != j {
							t.Errorf("MIG device %d has index %d", j, index)
						}
					}
				}
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("there are %q, want %q", s, tc.want)
			}
		})
	}
}
