package machine_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gpurig/fakehw/machine"
	"gpurig/fakehw/machine/machinetest"
)

// children returns the processes that this one has started.
func children(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%s/children", task.Name())) // a thread that has ended has none
		out.Write(text)
	}
	return out.String()
}

func TestAPreparedProcessIsUsedOnceOrEnded(t *testing.T) {
	machinetest.Require(t)
	before := children(t)
	p := machine.Prepare()
	defer p.Close()
	if children(t) == before {
		t.Fatal("nothing was started")
	}
	h := machinetest.Host(t, "t4-server")
	o := machine.Options{Command: []string{"test", "-e", "/dev/nvidia0"}, Prepared: p}
	for range 2 { // the second time it is taken
		if got, err := machine.Enter(t.Context(), h, o); err != nil || got.Exit != 0 {
			t.Fatalf("Enter: %+v, %v", got, err)
		}
	}
	machine.Prepare().Close()
	if now := children(t); now != before {
		t.Errorf("processes %q are left of what was prepared; before there were %q", now, before)
	}
}
