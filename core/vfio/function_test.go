package vfio

import (
	"testing"

	"gpurig/core/host"
)

// The port of a GPU has room for its own prefetchable windows, and not for those of
// its virtual functions (large-bar).
func TestWindowOfAPort(t *testing.T) {
	const mib, gib, prefetchable64, plain = 1 << 20, 1 << 30, 0x14220c, 0x40200
	for _, tc := range []struct {
		name string
		bars []host.BAR
		want uint64
	}{
		{"an A100", []host.BAR{{Index: 0, Size: 16 * mib, Flags: plain}, {Index: 1, Size: 64 * gib, Flags: prefetchable64}, {Index: 3, Size: 32 * mib, Flags: prefetchable64}}, 128 * gib},
		{"with virtual functions", []host.BAR{{Index: 1, Size: gib, Flags: prefetchable64}, {Index: 8, Size: 64 * gib, Flags: prefetchable64}}, gib},
		{"nothing prefetchable", []host.BAR{{Index: 0, Size: 16 * mib, Flags: plain}}, 0},
		{"a power of two", []host.BAR{{Index: 0, Size: gib, Flags: prefetchable64}, {Index: 2, Size: gib, Flags: prefetchable64}}, 2 * gib},
		{"none", nil, 0},
	} {
		if got := ceil(prefetchable(tc.bars)); got != tc.want {
			t.Errorf("%s: %d bytes; want %d", tc.name, got, tc.want)
		}
	}
}

func TestInUnits(t *testing.T) {
	for n, want := range map[uint64]string{1: "1", 1 << 10: "1K", 1 << 37: "128G", 1 << 40: "1T", 1 << 50: "1024T", 3 << 20: "3M"} {
		if got := inUnits(n); got != want {
			t.Errorf("inUnits(%d) = %s; want %s", n, got, want)
		}
	}
}
