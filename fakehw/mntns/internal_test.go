package mntns

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"gpurig/core/device"
	"gpurig/fakehw/tree"
)

func TestA41PrivatePropagationIsProven(t *testing.T) {
	const ok = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
	for _, tc := range []struct{ name, table, want string }{
		{name: "no optional field", table: ok},
		{name: "unbindable is private too", table: ok + "30 22 0:20 / /mnt rw unbindable - tmpfs none rw\n"},
		{name: "shared", table: ok + "30 22 0:20 / /mnt rw shared:7 - tmpfs none rw\n", want: "/mnt is still shared:7"},
		{name: "slave", table: ok + "30 22 0:20 / /mnt rw unbindable master:3 - tmpfs none rw\n", want: "/mnt is still master:3"},
		{name: "shared in a later word only", table: ok + "30 22 0:20 / /shared:1 rw - tmpfs shared:1 rw\n"},
		{name: "cut", table: ok + "30 22 0:20 /", want: "is not understood"},
		{name: "empty", table: "", want: "the mount table is empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := private(tc.table)
			if tc.want == "" && err != nil {
				t.Fatalf("private(%q) = %v", tc.table, err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("private(%q) = %v; want %q", tc.table, err, tc.want)
			}
		})
	}
}

// In the parent's own namespace nothing may be mounted, not even privately.
func TestA41RefusesANamespaceThatIsNotItsOwn(t *testing.T) {
	for _, parent := range []string{"", "mnt:", own(t)} {
		if err := prove(parent); err == nil || !strings.Contains(err.Error(), "is not private") {
			t.Errorf("prove(%q) = %v; want a refusal", parent, err)
		}
	}
}

func TestDeviceDirs(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes []string
		want  []string
	}{
		{name: "none"},
		{name: "one directory for all below it", nodes: []string{"/dev/nvidia0", "/dev/dri/card0"}, want: []string{"/dev"}},
		{name: "a driver root with its own", nodes: []string{"/dev/nvidia0", "/run/nvidia/driver/dev/nvidia0"}, want: []string{"/dev", "/run/nvidia/driver/dev"}},
		{name: "outside of any dev", nodes: []string{"/opt/node", "/opt/more/node"}, want: []string{"/opt"}},
		{name: "a name that only begins so", nodes: []string{"/devices/a"}, want: []string{"/devices"}},
		{name: "in the root directory itself", nodes: []string{"/node"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake := tree.New()
			for _, p := range tc.nodes {
				if err := fake.Mknod(device.Node{Path: p, Type: device.Char, Num: device.Num{Major: 195}}); err != nil {
					t.Fatal(err)
				}
			}
			if got := deviceDirs(fake); !slices.Equal(got, tc.want) {
				t.Errorf("deviceDirs(%v) = %v; want %v", tc.nodes, got, tc.want)
			}
		})
	}
}

func FuzzFrame(f *testing.F) {
	var seed bytes.Buffer
	if err := writeFrame(&seed, frame{status: statusError, word: "hint", body: []byte("text")}); err != nil {
		f.Fatal(err)
	}
	for i := range seed.Len() + 1 {
		f.Add(seed.Bytes()[:i])
	}
	f.Add([]byte("\x00\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := readFrame(bytes.NewReader(in))
		if err != nil {
			if got.word != "" || got.body != nil {
				t.Fatalf("readFrame(%q) returned %v along with %v", in, got, err)
			}
			if errors.Is(err, io.EOF) && len(in) > 0 {
				t.Fatalf("readFrame(%q): a cut message reads as the end of all", in)
			}
			return
		}
		var again bytes.Buffer
		if err := writeFrame(&again, got); err != nil || !bytes.HasPrefix(in, again.Bytes()) {
			t.Fatalf("%q read as %v, which is written as %q, %v", in, got, again.Bytes(), err)
		}
	})
}

func TestFrameLimits(t *testing.T) {
	err := writeFrame(io.Discard, frame{word: strings.Repeat("x", maxWord+1)})
	if err == nil || !strings.Contains(err.Error(), "the limits are 4096 and") {
		t.Errorf("a word of %d bytes: %v", maxWord+1, err)
	}
}

func TestRegisterRefusesMistakes(t *testing.T) {
	full := Handler{
		Build: func([]byte) (*tree.Tree, error) { return nil, nil },
		Run:   nil,
	}
	for _, tc := range []struct {
		name, kind string
		h          Handler
	}{{"half empty", "x", full}, {"no name", "", Handler{}}} {
		t.Run(tc.name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			Register(tc.kind, tc.h)
		})
	}
}

func own(t *testing.T) string {
	t.Helper()
	ns, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	return ns
}
