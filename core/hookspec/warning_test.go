package hookspec_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpurig/core/hookspec"
)

func shadowed(loads string) hookspec.Warning {
	return hookspec.Warning{Reason: hookspec.LibraryShadowed, SONAME: "libcuda.so.1", Host: "/usr/lib/libcuda.so.550.163.01", Loads: loads, By: "ld.so.cache"}
}

func TestWarningsAreReadAsTheyWereWritten(t *testing.T) {
	for _, list := range [][]hookspec.Warning{{}, {shadowed("/opt/libcuda.so.1"), shadowed("")}, slices.Repeat([]hookspec.Warning{shadowed("/x")}, hookspec.MaxWarnings+1)} {
		data, err := hookspec.MarshalWarnings(list)
		if err != nil {
			t.Fatal(err)
		}
		got, err := hookspec.ParseWarnings(data)
		if want := list[:min(len(list), hookspec.MaxWarnings)]; err != nil || !slices.Equal(got, want) {
			t.Errorf("%d warnings became %d, %v", len(want), len(got), err)
		}
	}
	if got, err := hookspec.ParseWarnings(nil); err != nil || got != nil {
		t.Errorf("an empty file is %v, %v", got, err)
	}
}

func TestWarningsThatAreNoneAreRefused(t *testing.T) {
	many, err := json.Marshal(map[string]any{"version": 1, "warnings": slices.Repeat([]hookspec.Warning{shadowed("/x")}, hookspec.MaxWarnings+1)})
	if err != nil {
		t.Fatal(err)
	}
	one := `{"reason":"library-shadowed","soname":"l","host":"/l"}`
	for text, want := range map[string]string{
		"x": "invalid character", `{"version":2}`: "version 2", `{"version":1,"more":1}`: "unknown field", `{"version":1}{}`: "text after",
		`{"version":1,"warnings":[` + one + `,{"reason":"library-shadowed"}]}`:                "warnings[1]",
		`{"version":1,"warnings":[{"reason":"x","soname":"l","host":"/l"}]}`:                  `reason "x"`,
		`{"version":1,"warnings":[{"reason":"library-shadowed","soname":"l\n","host":"/l"}]}`: `soname "l`,
		string(many): "more than", strings.Repeat(" ", hookspec.MaxWarningsBytes+1): "larger than",
	} {
		if got, err := hookspec.ParseWarnings([]byte(text)); err == nil || got != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, %v; want %q", text, got, err, want)
		}
	}
}

func TestAWarningIsOneShortLine(t *testing.T) {
	w := shadowed("/opt/x\n\x1b[2J" + strings.Repeat("y", 1000))
	text := w.String()
	if strings.ContainsAny(text, "\n\x1b") || len(text) > 600 || !strings.HasPrefix(text, "libcuda.so.1: the container's loader takes \"/opt/x\\n") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	if got, want := shadowed("").String(), `libcuda.so.1: the container's loader finds none, not the driver's "/usr/lib/libcuda.so.550.163.01"`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func FuzzParseWarnings(f *testing.F) {
	data, err := hookspec.MarshalWarnings([]hookspec.Warning{shadowed("/opt/libcuda.so.1")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"version":1,"warnings":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := hookspec.ParseWarnings(data)
		if err != nil && list != nil {
			t.Fatalf("%v along with %v", list, err)
		}
		for _, w := range list {
			if strings.ContainsAny(fmt.Sprint(w), "\n\r\x1b") {
				t.Fatalf("%q has a control character", w.String())
			}
		}
	})
}
