package show_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gpurig/core/show"
)

func TestAShellTakesACommandApartAgain(t *testing.T) {
	words := []string{"gpurig", "run", "mig/x[cgroup=v1]", "--fault", "off-bus:0", "", "it's", "$(x)\n`y`", "*", "~", "a\\b", "#"}
	out, err := exec.Command("sh", "-c", "printf '%s\\0' "+show.Command(words...)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, words) {
		t.Errorf("the shell read %q; want %q", got, words)
	}
	if got := show.Command("gpurig", "run", "dgpu/x", "--target", "sim,lxc"); got != "gpurig run dgpu/x --target sim,lxc" {
		t.Errorf("plain words are quoted: %s", got)
	}
}
