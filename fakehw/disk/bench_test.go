package disk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gpurig/fakehw/disk"
	"gpurig/fakehw/tree"
)

// big returns a tree of about n files, sixteen to a directory.
func big(tb testing.TB, n int) *tree.Tree {
	tb.Helper()
	t := tree.New()
	for i := range n {
		if err := t.WriteFile(fmt.Sprintf("/sys/devices/%d/attr%d", i/16, i), []byte("0x10de\n"), 0o444); err != nil {
			tb.Fatal(err)
		}
	}
	return t
}

// The size of a host with eight GPUs. GPURIG_BENCH_DIR names a directory on
// tmpfs; else it is the temporary one, whatever that lies on.
func BenchmarkWrite1000Files(b *testing.B) {
	t := big(b, 1000)
	top, err := os.MkdirTemp(os.Getenv("GPURIG_BENCH_DIR"), "disk")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(top)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		dir := filepath.Join(top, fmt.Sprint(i))
		if _, err := disk.Write(b.Context(), t, dir, disk.Options{}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := os.RemoveAll(dir); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
