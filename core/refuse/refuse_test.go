package refuse_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"

	"gpurig/core/refuse"
)

const (
	tooBig refuse.Reason = "too-big"
	tooOld refuse.Reason = "too-old"
)

func TestErrorIsOneLineWithoutTheHint(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  *refuse.Error
		want string
	}{
		{"all parts", refuse.New(tooBig, "id", "%q is long", "x").WithHint("write less").WithErr(fs.ErrInvalid), `id: "x" is long: invalid argument`},
		{"no place", refuse.New(tooBig, "", "long"), "long"},
		{"only a reason", &refuse.Error{Reason: tooBig}, "too-big"},
		{"a cause of two lines", refuse.New(tooBig, "id", "bad").WithErr(errors.New("a\nb")), "id: bad: a; b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.err.Error(); got != tc.want {
				t.Errorf("Error() = %q; want %q", got, tc.want)
			}
		})
	}
}

func TestAsFindsEveryRefusalInOrder(t *testing.T) {
	a, b := refuse.New(tooBig, "a", "one"), refuse.New(tooOld, "b", "two").WithErr(refuse.New(tooBig, "", "inner"))
	err := fmt.Errorf("start: %w", errors.Join(a, errors.New("other"), fmt.Errorf("gpu0: %w", b)))
	if got := refuse.As(err); !slices.Equal(got, []*refuse.Error{a, b}) {
		t.Errorf("As(%v) = %v; want the two refusals, outermost each", err, got)
	}
	if got := refuse.Reasons(err); !slices.Equal(got, []refuse.Reason{tooBig, tooOld}) {
		t.Errorf("Reasons(%v) = %v; want [too-big too-old]", err, got)
	}
	if refuse.As(nil) != nil || refuse.As(errors.New("x")) != nil {
		t.Error("As of an error without refusals is not nil")
	}
}

func TestReasonIsASentinel(t *testing.T) {
	err := fmt.Errorf("gpu0: %w", refuse.New(tooBig, "id", "long").WithErr(fs.ErrInvalid))
	if !errors.Is(err, tooBig) || errors.Is(err, tooOld) || !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("errors.Is on %v does not tell the reasons apart or hides the cause", err)
	}
}

func TestJoinKeepsNilNil(t *testing.T) {
	one := refuse.New(tooBig, "", "x")
	if err := refuse.Join(); err != nil {
		t.Errorf("Join() = %v; want nil", err)
	}
	if err := refuse.Join(nil, one); err != error(one) {
		t.Errorf("Join(nil, one) = %v; want the refusal itself", err)
	}
	if n := len(refuse.As(refuse.Join(one, one))); n != 2 {
		t.Errorf("Join of two has %d refusals; want 2", n)
	}
}
