package vfio_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpurig/core/vfio"
)

// The script writes what Carry and Return write, in their order, and takes back what
// was done where a write fails. A shell function stands in for the kernel.
func TestScriptDoesWhatCarryAndReturnDo(t *testing.T) {
	for _, s := range []story{
		{name: "a whole GPU", profile: "workstation", asks: []string{"pci=0a:00.0"}},
		{name: "vGPUs", profile: "vgpu-l40s", asks: []string{"gputype=mdev mdev=1148", "gputype=mdev mdev=1148"}, prepare: l40sVFs},
		{name: "a virtual function", profile: "vgpu-a40", asks: []string{"gputype=sriov"}},
	} {
		t.Run(s.name, func(t *testing.T) {
			r := s.start(t)
			p := r.carry(s.asks...)
			carried := len(r.writes)
			r.giveBack(p)
			script, err := vfio.Script(p)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := sh(t, script, "start", -1); !ok || !slices.Equal(got, r.writes[:carried]) {
				t.Errorf("start writes %q, %v; want %q", got, ok, r.writes[:carried])
			}
			if got, ok := sh(t, script, "stop", -1); !ok || !slices.Equal(got, r.writes[carried:]) {
				t.Errorf("stop writes %q, %v; want %q", got, ok, r.writes[carried:])
			}
			for k := range carried {
				want := slices.Concat(r.writes[:k+1], r.writes[len(r.writes)-k:])
				if got, ok := sh(t, script, "start", k); ok || !slices.Equal(got, want) {
					t.Errorf("where write %d fails start writes %q, %v; want %q and a failure", k+1, got, ok, want)
				}
			}
		})
	}
}

// sh runs a script whose writes are printed, and of which the one of this number
// fails; ok says whether it ended well.
func sh(t *testing.T, script, how string, fails int) (writes []string, ok bool) {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell")
	}
	body := regexp.MustCompile(`echo (\S*) > (/sys\S+)`).ReplaceAllString(script, `put "$1" $2`)
	body = regexp.MustCompile(`\[ -e [^]]+\]|\[ "[^]]+\]`).ReplaceAllString(body, "true")
	put := fmt.Sprintf("i=0\nput() { echo \"echo $1 > $2\"; i=$((i + 1)); [ $i -ne %d ]; }\n", fails+1)
	out, err := exec.Command("sh", "-c", put+body, "script", how).Output()
	for line := range strings.Lines(string(out)) {
		writes = append(writes, strings.TrimSpace(line))
	}
	return writes, err == nil
}
