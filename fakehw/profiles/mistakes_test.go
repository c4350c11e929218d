package profiles_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpurig/core/strictdoc"
	"gpurig/fakehw/profiles"
)

// B47: every mistake of a file is one line with its place, and all are told at
// once. A44: numbers of other drivers are such mistakes (numbers.yaml, majors-of-others.yaml).
// The files' own comments say which: "# want LINE:COLUMN: message".
func TestB47EveryMistakeIsALineWithItsPlace(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad profiles: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for line := range strings.Lines(string(data)) {
				if w, ok := strings.CutPrefix(line, "# want "); ok {
					want = append(want, strings.TrimSpace(w))
				}
			}
			_, err = profiles.Load(file)
			if _, ok := errors.AsType[strictdoc.Problems](err); !ok {
				t.Fatalf("Load(%s) = %v; want Problems", file, err)
			}
			got := strings.Split(err.Error(), "\n")
			if len(got) != len(want) {
				t.Errorf("%d problems, want %d:\n%s", len(got), len(want), err)
			}
			for i, w := range want {
				if i < len(got) && !strings.HasPrefix(got[i], file+":"+w) {
					t.Errorf("problem %d\n got %s\nwant %s:%s…", i, got[i], file, w)
				}
			}
		})
	}
}

func TestLoadTellsWhatThereIs(t *testing.T) {
	_, err := profiles.Load("dgx-a1000")
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "did you mean") {
		t.Errorf("Load of an unknown name = %v; want ErrNotExist and the name that was meant", err)
	}
	_, err = profiles.Load("testdata/none.yaml")
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load of a missing file = %v; want ErrNotExist", err)
	}
	if _, err = profiles.Load("testdata/../testdata"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("Load of a folder = %v; want a refusal", err)
	}
}

func TestTheNamesThatOthersRelyOnAreShipped(t *testing.T) {
	have := profiles.Names()
	for _, name := range []string{
		"dgx-a100", "dgx-h100", "hgx-h200", "dgx-b200", "gb200", "a100-mig-uniform", "a100-mig-2g-3g", "a100-mig-mixed",
		"a100-mig-empty", "t4-server", "l40s-server", "workstation", "workstation-intel", "jetson-agx-orin", "jetson-orin-nano",
		"igx-orin", "jetson-thor", "amd-mi300x", "no-driver", "no-gpu", "rhel-t4", "nixos-4090", "snap-t4",
	} {
		if !slices.Contains(have, name) {
			t.Errorf("profile %s is not shipped", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range profiles.Names() {
		data, err := os.ReadFile("data/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add("gpus: [{at: [")
	f.Add("kernel: |\n  x\nos: &a {id: *a}")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := profiles.Parse("f.yaml", []byte(text))
		if err != nil {
			if _, ok := errors.AsType[strictdoc.Problems](err); !ok || p.Name != "" {
				t.Fatalf("Parse = %v, %v; want nothing and Problems", p, err)
			}
			return
		}
		if _, err := p.Model(); err != nil {
			t.Fatalf("a profile without mistakes cannot be expanded: %v", err)
		}
	})
}
