package hook_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gpurig/hook"
)

// asGreedy is the name by which this program takes as much memory as its first
// argument says, in MiB, "bounded" as the hook is or not.
const asGreedy = "cdi-hook-greedy"

func greedyMain() int {
	var mib int
	if _, err := fmt.Sscan(os.Args[1], &mib); err != nil {
		return 3
	}
	if os.Args[2] == "bounded" {
		if err := hook.BoundMemory(); err != nil {
			fmt.Println(err)
			return 3
		}
	}
	var all [][]byte
	for range mib / 16 {
		all = append(all, make([]byte, 16<<20))
	}
	fmt.Println("has", len(all)*16)
	return 0
}

// P5: what would take more than 256 MiB ends, by the hook's own limit, and only
// that does. The trace of a whole run shows that the limit is there before the
// image is read (TestLeastPowerBeforeTheImage).
func TestP5MemoryIsBounded(t *testing.T) {
	for _, tc := range []struct {
		mib, kind string
		ends      bool
	}{{"384", "bounded", true}, {"384", "unbounded", false}, {"64", "bounded", false}} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", tc.mib, tc.kind)
		cmd.Args[0], cmd.Env = asGreedy, []string{}
		out, err := cmd.CombinedOutput()
		if ends := err != nil && strings.Contains(string(out), "out of memory"); ends != tc.ends || !ends && err != nil {
			t.Errorf("%s MiB, %s: %v, %.200s", tc.mib, tc.kind, err, out)
		}
	}
}

// P5: the shipped program's patience, by which the tests of F14 and F24 end with a
// shorter one, is below ten seconds.
func TestP5TenSeconds(t *testing.T) {
	if all := hook.DefaultLimits.Run + hook.DefaultLimits.Grace; all <= 0 || all >= 10*time.Second {
		t.Errorf("a run takes up to %s", all)
	}
}
