package capture

import (
	"bytes"
	"testing"

	"gpurig/fixtures/hosts"
)

// Whatever the reader lets through is replayed or refused, never a panic, and a
// machine that can be described can be compared with itself.
func FuzzReplay(f *testing.F) {
	text, err := hosts.Text("a100-mig-2g-3g")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	head := "gpurig recorded host, format 1\nmachine: m\nkernel: k\n-- listing --\n"
	f.Add([]byte(head + "symlink /a b\nsymlink /b a\nfile /proc/sys/kernel/osrelease 0444 0 0 \"6\\n\"\nfile /proc/sys/kernel/arch 0444 0 0 \"x86_64\\n\"\n"))
	f.Add([]byte(head + "ldcache /etc/ld.so.cache 0644 0 0 \"# x\\n\"\nlibrary /x.so.1 0755 0 0 1 x\nbytes /y 0644 0 0 3\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := hosts.Parse("fuzz", data)
		if err != nil {
			return
		}
		m, err := Replay(file)
		if err != nil {
			return
		}
		if diffs, err := Compare(m, m); err == nil && len(diffs) > 0 {
			t.Fatalf("differs from itself: %v", diffs)
		}
	})
}

// The text of a loader cache says all that the cache does.
func FuzzCacheText(f *testing.F) {
	f.Add([]byte("# ldconfig\nlibcuda.so.1 0x303 /usr/lib/libcuda.so.1\nlibc.so.6 0x303 /lib/v3/libc.so.6 0x0 0x4000000000000000 x86-64-v3 3\n"))
	f.Add([]byte("# \n"))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		cache, err := parseCache(text)
		if err != nil {
			return
		}
		again, err := parseCache(cacheText(cache))
		if err != nil || !bytes.Equal(cacheText(again), cacheText(cache)) {
			t.Fatalf("%q reads as %q, %v", cacheText(cache), cacheText(again), err)
		}
	})
}
