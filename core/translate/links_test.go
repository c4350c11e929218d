package translate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gpurig/core/translate"
)

// B33, B34: what a Spec says twice in the same words is said once.
func TestEqualDuplicatesAreOneB33B34(t *testing.T) {
	e := hooks(hook("create-symlinks", "--link", "a::/usr/share/b", "--link=a::/usr/share/b"), hook("create-symlinks", "--link", "a::/usr/share/b"))
	e.Env = []string{"NVIDIA_X=1", "NVIDIA_X=1"}
	p, err := translate.Edits(newHost(t), editsOf(e), translate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Links) != 1 || p.Links[0].Path != "/usr/share/b" || p.Links[0].Target != "a" {
		t.Errorf("links %+v, want one", p.Links)
	}
	if len(p.Env) != 1 || p.Env[0].Name != "NVIDIA_X" || p.Env[0].Value != "1" {
		t.Errorf("environment %+v, want one variable", p.Env)
	}
}

// B34: ten thousand links are made, one more is refused, whichever hooks they are
// spread over; names up to the kernel's 255 bytes are names.
func TestHowManyAndHowLongLinksB34(t *testing.T) {
	many := func(n int) []string {
		args := []string{"create-symlinks"}
		for i := range n {
			args = append(args, "--link", fmt.Sprintf("a::/usr/share/many/%d", i))
		}
		return args
	}
	p, err := translate.Edits(newHost(t), editsOf(hooks(hook(many(10_000)...))), translate.Options{})
	if err != nil || len(p.Links) != 10_000 {
		t.Errorf("%d links, %v", len(p.Links), err)
	}
	for name, e := range map[string][]string{"in one hook": nil, "in two": {"create-symlinks", "--link", "a::/usr/share/x"}} {
		all := hooks(hook(many(10_001)...))
		if e != nil {
			all = hooks(hook(many(10_000)...), hook(e...))
		}
		if _, err := translate.Edits(newHost(t), editsOf(all), translate.Options{}); !errors.Is(err, translate.ReasonTooMany) || !strings.Contains(err.Error(), "10001 links") {
			t.Errorf("10,001 links, %s: %v", name, err)
		}
	}
	for _, n := range []int{230, 255} {
		at := "/usr/share/" + strings.Repeat("b", n)
		p, err := translate.Edits(newHost(t), editsOf(hooks(hook("create-symlinks", "--link", "a::"+at))), translate.Options{})
		if err != nil || len(p.Links) != 1 || p.Links[0].Path != at {
			t.Errorf("a name of %d bytes: %v, %d links", n, err, len(p.Links))
		}
	}
}
