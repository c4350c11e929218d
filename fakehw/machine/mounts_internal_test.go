package machine

import (
	"os"
	"slices"
	"testing"
)

// What goes after it was listed is left out, as files of /tmp go while others use it.
func TestWhatIsGoneIsNotBound(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: others may not copy mounts of the first namespace")
	}
	dir := t.TempDir()
	there := dir + "/there"
	if err := os.Mkdir(there, 0o755); err != nil {
		t.Fatal(err)
	}
	points, err := copied(dir, []string{dir + "/gone", there}, nil)
	defer closeAll(points)
	var names []string
	for _, p := range points {
		names = append(names, p.path)
	}
	if err != nil || !slices.Equal(names, []string{there}) {
		t.Errorf("copied %q: %v; want %q alone", names, err, there)
	}
}
