package ctlsocket

import "testing"

func TestOutside(t *testing.T) {
	for _, tc := range []struct {
		name, uidMap string
		uid, want    uint64
	}{
		{"all users", "         0          0 4294967295\n", 1000, 1000},
		{"root of a namespace of one's own", "         0       1000          1\n", 0, 1000},
		{"a second range", "0 100000 1000\n1000 1000 1\n", 1000, 1000},
		{"within a range", "0 100000 65536\n", 33, 100033},
		{"no range has it", "0 1000 1\n", 7, 7},
		{"no file", "", 7, 7},
		{"no numbers", "a b c\n", 7, 7},
	} {
		if got := outside(tc.uid, tc.uidMap); got != tc.want {
			t.Errorf("%s: outside(%d, %q) = %d; want %d", tc.name, tc.uid, tc.uidMap, got, tc.want)
		}
	}
}
