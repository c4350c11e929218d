package device_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"gpurig/core/device"
)

func TestParseNum(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     device.Num
		bad      string // a part of the error
	}{
		{name: "an NVIDIA GPU", in: "195:0", want: device.Num{Major: 195}},
		{name: "a MIG capability", in: "236:300", want: device.Num{Major: 236, Minor: 300}},
		{name: "not known", in: "0:0"},
		{name: "the largest", in: "4095:1048575", want: device.Num{Major: device.MaxMajor, Minor: device.MaxMinor}},
		{name: "B22 major too large", in: "4096:0", bad: "at most 4095"},
		{name: "B22 minor too large", in: "195:1048576", bad: "at most 1048575"},
		{name: "B22 beyond 32 bits", in: "195:4294967296", bad: "want major:minor"},
		{name: "empty", in: "", bad: "want major:minor"},
		{name: "colon alone", in: ":", bad: "want major:minor"},
		{name: "B22 no minor", in: "195:", bad: "want major:minor"},
		{name: "B22 no major", in: ":0", bad: "want major:minor"},
		{name: "no colon", in: "195", bad: "want major:minor"},
		{name: "three numbers", in: "195:0:0", bad: "want major:minor"},
		{name: "B22 negative", in: "195:-1", bad: "want major:minor"},
		{name: "sign", in: "+195:0", bad: "want major:minor"},
		{name: "hex", in: "0xc3:0", bad: "want major:minor"},
		{name: "a wildcard of cgroup rules", in: "195:*", bad: "want major:minor"},
		{name: "blank", in: "195: 0", bad: "want major:minor"},
		{name: "line break", in: "195:0\n", bad: "want major:minor"},
		{name: "comma", in: "195,0", bad: "want major:minor"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := device.ParseNum(tc.in)
			if got != tc.want || (err == nil) != (tc.bad == "") {
				t.Fatalf("ParseNum(%q) = %v, %v; want %v", tc.in, got, err, tc.want)
			}
			if err != nil && (!strings.Contains(err.Error(), tc.bad) || !strings.Contains(err.Error(), strconv.Quote(tc.in))) {
				t.Errorf("ParseNum(%q): %v; want %q and the input in it", tc.in, err, tc.bad)
			}
		})
	}
}

// B23: minor 0 is an ordinary minor; only the major says whether a number is known.
func TestKnown(t *testing.T) {
	for n, want := range map[device.Num]bool{{}: false, {Minor: 5}: false, {Major: 226}: true, {Major: 1, Minor: 3}: true} {
		if n.Known() != want {
			t.Errorf("%v.Known() = %v; want %v", n, n.Known(), want)
		}
	}
}

func TestNodeInJSON(t *testing.T) {
	in := device.Node{Path: "/dev/dri/card0", Type: device.Char, Num: device.Num{Major: 226}, Mode: 0o660, GID: 44}
	text, err := json.Marshal(in)
	want := `{"path":"/dev/dri/card0","type":"c","number":"226:0","mode":432,"uid":0,"gid":44}`
	if err != nil || string(text) != want {
		t.Errorf("Marshal = %s, %v; want %s", text, err, want)
	}
	var out device.Node
	if err := json.Unmarshal(text, &out); err != nil || out != in {
		t.Errorf("Unmarshal = %+v, %v; want %+v", out, err, in)
	}
	kept := device.Num{Major: 1, Minor: 3}
	if err := json.Unmarshal([]byte(`"1:x"`), &kept); err == nil || kept != (device.Num{Major: 1, Minor: 3}) {
		t.Errorf("Unmarshal of a bad number: %v, %v; want an error and the value kept", kept, err)
	}
}

func FuzzParseNum(f *testing.F) {
	for _, seed := range []string{"195:0", "0:0", "4095:1048575", "4096:0", ":", "", "195:0:0", "+1:2", "01:002"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := device.ParseNum(s)
		if err != nil {
			if n != (device.Num{}) {
				t.Fatalf("ParseNum(%q) returned %v along with an error", s, n)
			}
			return
		}
		if n.Major > device.MaxMajor || n.Minor > device.MaxMinor {
			t.Fatalf("ParseNum(%q) = %v: beyond dev_t", s, n)
		}
		if again, err := device.ParseNum(n.String()); err != nil || again != n {
			t.Fatalf("%q parsed as %v, whose own text parses as %v, %v", s, n, again, err)
		}
	})
}
