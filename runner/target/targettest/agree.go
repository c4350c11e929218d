package targettest

import (
	"os"
	"testing"

	"gpurig/runner/observe"
	"gpurig/runner/target"
)

// Agree tells every story to a simulation and to what it simulates: both must show
// the same at every step. each, which may be nil, is asked before a story is told: it
// may change where it plays, skip it, or let it run beside others.
func Agree(t *testing.T, simulated, real target.Target, each func(t *testing.T, s *Story)) {
	t.Helper()
	stories, err := Stories()
	if err != nil || len(stories) == 0 {
		t.Fatalf("%d stories, %v", len(stories), err)
	}
	for _, story := range stories {
		t.Run(story.Name, func(t *testing.T) {
			if each != nil {
				each(t, &story)
			}
			want, err := Tell(t.Context(), simulated, story)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Tell(t.Context(), real, story)
			if err != nil {
				t.Fatal(err)
			}
			Compare(t, want, got)
		})
	}
}

func Compare(t *testing.T, want, got []Seen) {
	t.Helper()
	for i := range want {
		if (want[i].Err == "") != (got[i].Err == "") {
			t.Errorf("step %d, %s: simulated %q, real %q", i+1, want[i].Step, want[i].Err, got[i].Err)
			continue
		}
		for _, d := range observe.Diff(want[i].Obs, got[i].Obs) {
			t.Errorf("step %d, %s (simulated | real): %s", i+1, want[i].Step, d)
		}
		if got[i].Err != "" {
			t.Logf("step %d: simulated: %s\nreal: %s", i+1, want[i].Err, got[i].Err)
		}
	}
}

// Cannot skips a test that this machine cannot run, or fails it where the machine
// was to be able to: the environment variable require is set.
func Cannot(t testing.TB, require, format string, args ...any) {
	t.Helper()
	if os.Getenv(require) != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
