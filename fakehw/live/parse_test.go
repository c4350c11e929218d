package live

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Numbers as lib/kstrtox.c takes them.
func TestKstrtoul(t *testing.T) {
	for _, tc := range []struct {
		in    string
		limit uint64
		want  uint64
		bad   error // strconv.ErrSyntax, errRange
	}{
		{in: "1", limit: 1, want: 1},
		{in: "1\n", limit: 1, want: 1},
		{in: "+1\n", limit: 1, want: 1},
		{in: "0x1F", limit: 31, want: 31},
		{in: "010", limit: 8, want: 8},
		{in: "0", want: 0},
		{in: "65536", limit: 65535, bad: errRange},
		{in: "99999999999999999999", limit: 1<<64 - 1, bad: errRange},
		{in: "", bad: strconv.ErrSyntax},
		{in: "\n", bad: strconv.ErrSyntax},
		{in: "1\n\n", bad: strconv.ErrSyntax},
		{in: "-1", bad: strconv.ErrSyntax},
		{in: "++1", bad: strconv.ErrSyntax},
		{in: " 1", bad: strconv.ErrSyntax},
		{in: "1 ", bad: strconv.ErrSyntax},
		{in: "0x", bad: strconv.ErrSyntax},
		{in: "09", bad: strconv.ErrSyntax},
		{in: "1_000", bad: strconv.ErrSyntax},
		{in: "on", bad: strconv.ErrSyntax},
	} {
		got, err := kstrtoul(tc.in, tc.limit)
		if !errors.Is(err, tc.bad) || got != tc.want {
			t.Errorf("kstrtoul(%q, %d) = %d, %v; want %d, %v", tc.in, tc.limit, got, err, tc.want, tc.bad)
		}
	}
}

func TestKstrtobool(t *testing.T) {
	for in, want := range map[string][2]bool{
		"1": {true, true}, "y\n": {true, true}, "Yes": {true, true}, "on": {true, true}, "ON\n": {true, true},
		"0": {false, true}, "n": {false, true}, "off\n": {false, true},
		"": {false, false}, "o": {false, false}, "2": {false, false}, " 1": {false, false}, "\n": {false, false},
	} {
		if value, ok := kstrtobool(in); value != want[0] || ok != want[1] {
			t.Errorf("kstrtobool(%q) = %v, %v; want %v", in, value, ok, want)
		}
	}
}

func TestScanHex(t *testing.T) {
	for in, want := range map[string][]uint64{
		"10de 20b0":      {0x10de, 0x20b0},
		"0x10de\t20B0\n": {0x10de, 0x20b0},
		" 10de":          {0x10de},
		"10de:20b0":      {0x10de},
		"10de 0x":        {0x10de, 0},
		"-1 2":           nil,
		"":               nil,
		"1 2 3 4":        {1, 2, 3},
	} {
		if diff := cmp.Diff(want, scanHex(in, 3)); diff != "" {
			t.Errorf("scanHex(%q):\n%s", in, diff)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"1\n", "0x10", "010", "+7", "-1", "", "10de 0x20b0\t1", "on", "aa618089-8b16-4d01-a136-25a0f3c73123"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := kstrtoul(s, 1<<16-1)
		if err != nil && n != 0 || n > 1<<16-1 {
			t.Errorf("kstrtoul(%q) = %d, %v", s, n, err)
		}
		if again, err2 := kstrtoul(strconv.FormatUint(n, 10)+"\n", 1<<16-1); err == nil && (err2 != nil || again != n) {
			t.Errorf("%q is %d, which is %d, %v", s, n, again, err2)
		}
		if n, err := kstrtoint(s); err != nil && n != 0 && !errors.Is(err, strconv.ErrRange) {
			t.Errorf("kstrtoint(%q) = %d, %v", s, n, err)
		}
		if value, ok := kstrtobool(s); value && !ok {
			t.Errorf("kstrtobool(%q) = true, false", s)
		}
		if len(scanHex(s, 7)) > 7 {
			t.Errorf("scanHex(%q): more than seven", s)
		}
		if isUUID(s) && strings.Count(s, "-") != 4 {
			t.Errorf("isUUID(%q)", s)
		}
		if x := text([]byte(s)); strings.ContainsRune(x, 0) || !strings.HasPrefix(s, x) {
			t.Errorf("text(%q) = %q", s, x)
		}
	})
}
