package suggest_test

import (
	"slices"
	"strings"
	"testing"

	"gpurig/core/suggest"
)

func TestNearest(t *testing.T) {
	known := []string{"no-uvm", "no-nvml", "off-bus", "nvidia.com/gpu=all"}
	for _, tc := range []struct {
		word string
		n    int
		want []string
	}{
		{"no-umv", 1, []string{"no-uvm"}},             // two letters swapped are one step
		{"no-nvmm", 2, []string{"no-nvml", "no-uvm"}}, // nearest first
		{"NO-UVM", 1, []string{"no-uvm"}},             // case does not count
		{"NVIDIA.com/gpu=al", 1, []string{"nvidia.com/gpu=all"}},
		{"x", 3, nil},
		{"", 3, nil},
		{strings.Repeat("a", 1<<20), 3, nil}, // bounded
	} {
		if got := suggest.Nearest(tc.word, known, tc.n); !slices.Equal(got, tc.want) {
			t.Errorf("Nearest(%.20q, %d) = %q, want %q", tc.word, tc.n, got, tc.want)
		}
	}
}

func TestList(t *testing.T) {
	for _, tc := range []struct {
		all  []string
		want string
	}{
		{nil, "none"},
		{[]string{"a", "b"}, "a, b"},
		{strings.Split("abcdefghijk", ""), "a, b, c, d, e, f, g, h, i, j, …"},
	} {
		if got := suggest.List(tc.all); got != tc.want {
			t.Errorf("List(%q) = %q, want %q", tc.all, got, tc.want)
		}
	}
}
