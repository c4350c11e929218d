package guest_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"gpurig/core/pci"
	"gpurig/fakehw/tree"
	"gpurig/runner/observe"
	"gpurig/runner/observe/guest"
)

// machine is the sysfs of a machine with a GPU below the root port of slot 37, and
// another that is lost, beside functions that are below no port.
func machine(t *testing.T) *tree.Tree {
	t.Helper()
	r := tree.New()
	port := make([]byte, 256)
	port[0x0e], port[0x34] = 1, 0x40
	copy(port[0x40:], []byte{0x01, 0x48})
	copy(port[0x48:], []byte{0x10, 0, 0x42, 0})
	port[0x48+0x16], port[0x48+0x17] = 37<<3&0xff, 37>>5
	add := func(dir, name, config string, resource string) {
		at := "/sys/devices/pci0000:00/" + dir + name
		for file, text := range map[string]string{"config": config, "vendor": "0x10de\n", "device": "0x20b9\n", "subsystem_vendor": "0x10de\n",
			"subsystem_device": "0x1532\n", "class": "0x030200\n", "revision": "0xa1\n", "resource": resource} {
			if err := r.WriteFile(at+"/"+file, []byte(text), 0o444); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Symlink("/sys/bus/pci/devices/"+name, at); err != nil {
			t.Fatal(err)
		}
	}
	add("", "0000:00:01.0", string(port), "")
	add("", "0000:00:1f.0", strings.Repeat("\x00", 256), "")
	add("0000:00:01.0/", "0000:01:00.0", "\xde\x10\xb9\x20", "0xfd000000 0xfdffffff 0x40200\n0xe000000000 0xe7ffffffff 0x14220c\n0x0 0x0 0x0\n0x0 0x1ffffff 0x2014220c\n")
	add("0000:00:01.0/", "0000:01:00.1", "\xff\xff\xff\xff", "")
	return r
}

func TestLook(t *testing.T) {
	got, err := observe.LookGuest(machine(t))
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v; want two functions below the port", got, err)
	}
	const want = "01:00.0 [0302]: [10de:20b9] (rev a1)\n\tRegion 0: Memory at fd000000 (32-bit, non-prefetchable) [size=16M]\n" +
		"\tRegion 1: Memory at e000000000 (64-bit, prefetchable) [size=32G]\n\tRegion 3: Memory at <unassigned> (64-bit, prefetchable) [size=32M]"
	if f := got[0]; f.Port != 37 || f.Lost || f.String() != want || f.ID != (pci.ID{Vendor: 0x10de, Device: 0x20b9, SubVendor: 0x10de, SubDevice: 0x1532}) {
		t.Errorf("%+v\n%s\nwant\n%s", f, f, want)
	}
	if !got[1].Lost {
		t.Errorf("%+v is not lost", got[1])
	}
	diffs, entered := observe.Compare(observe.Observation{Functions: got}, observe.Observation{Functions: got[:1]})
	if entered != 2 || len(diffs) != 1 || diffs[0].What != "port 37.1" {
		t.Errorf("%d entries, %v", entered, diffs)
	}
}

func TestServe(t *testing.T) {
	var out strings.Builder
	err := guest.Serve(machine(t), strings.NewReader("look\nshut down\n"), &out)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v; want that its end is unexpected", err)
	}
	var all []guest.Answer
	for line := range strings.Lines(out.String()) {
		var a guest.Answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	if len(all) != 3 || all[0].Functions != nil || len(all[1].Functions) != 2 || all[2].Error != `unknown request "shut down"` {
		t.Errorf("%+v", all)
	}
	if err := guest.Init(); err == nil || !strings.Contains(err.Error(), "first process") {
		t.Errorf("Init = %v", err)
	}
}
