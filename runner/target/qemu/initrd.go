package qemu

import (
	"bytes"
	"fmt"
	"os"
)

// initrd returns the guest's first file system: its first process and the console that
// the kernel opens for it (the kernel's Documentation/driver-api/early-userspace/buffer-format.rst).
func initrd(probe string) ([]byte, error) {
	program, err := os.ReadFile(probe)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	pad := func() {
		for b.Len()%4 != 0 {
			b.WriteByte(0)
		}
	}
	const dir, char, regular = 0o040755, 0o020600, 0o100755
	for i, e := range []struct {
		name         string
		mode         int
		major, minor int
		data         []byte
	}{
		{name: "dev", mode: dir}, {name: "sys", mode: dir},
		{name: "dev/console", mode: char, major: 5, minor: 1},
		{name: "init", mode: regular, data: program},
		{name: "TRAILER!!!"},
	} {
		b.WriteString("070701")
		for _, n := range []int{i + 1, e.mode, 0, 0, 1, 0, len(e.data), 0, 0, e.major, e.minor, len(e.name) + 1, 0} {
			fmt.Fprintf(&b, "%08x", n)
		}
		b.WriteString(e.name + "\x00")
		pad()
		b.Write(e.data)
		pad()
	}
	return b.Bytes(), nil
}
