package osroot_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"gpurig/core/ldcache"
)

// B40: the owner of a root shortens a file while it is read. What is read is a
// copy, whole or cut, so that parsing it ends in entries or an error: a mapped
// file would end the process with a signal that nothing can catch.
func TestB40AFileShrinksWhileItIsRead(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "ld.so.cache")
	var entries []ldcache.Entry
	for range 2000 {
		entries = append(entries, ldcache.Entry{SONAME: "libcuda.so.1", Path: "/usr/lib/x86_64-linux-gnu/libcuda.so.1", Flags: 0x0303})
	}
	whole := ldcache.Cache{Entries: entries}.Marshal()
	r := open(t, dir)
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := os.WriteFile(file, whole, 0o644); err != nil {
				done <- err
				return
			}
			if err := os.Truncate(file, int64(len(whole)/2)); err != nil {
				done <- err
				return
			}
			if err := os.Truncate(file, 0); err != nil {
				done <- err
				return
			}
		}
	}()
	seen := map[string]int{}
	for n := 0; n < 1000 || seen["refused"] == 0 && n < 1_000_000; n++ {
		data, err := r.ReadFile("/ld.so.cache")
		if err != nil {
			seen["not there yet"]++
			continue
		}
		c, err := ldcache.Parse(data)
		switch {
		case err != nil && len(c.Entries) > 0:
			t.Fatalf("%d entries along with %v", len(c.Entries), err)
		case err != nil:
			seen["refused"]++
		case !bytes.Equal(data, whole) && len(c.Entries) == len(entries):
			t.Fatalf("%d of %d bytes parse as whole", len(data), len(whole))
		default:
			seen["read"]++
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if seen["refused"] == 0 {
		t.Errorf("no read was cut short: %v; the test does not test", seen)
	}
}
