package memo

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestALimitForgetsWhatWasAskedForLongestAgo(t *testing.T) {
	m := Map[string, int]{Limit: 2}
	made := map[string]int{}
	get := func(key string) {
		t.Helper()
		if _, err := m.Get(t.Context(), key, func() (int, error) { made[key]++; return 0, nil }); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"a", "b", "a", "c", "a", "b"} { // c takes the place of b, b that of c
		get(key)
	}
	if made["a"] != 1 || made["b"] != 2 || made["c"] != 1 || len(m.made) != 2 || m.asked.Len() != 2 {
		t.Errorf("made %v, %d are kept; want a and c once, b twice, and two kept", made, len(m.made))
	}
}

func TestWithoutALimitAllAreKept(t *testing.T) {
	var m Map[int, int]
	for i := range 1000 {
		if v, err := m.Get(t.Context(), i, func() (int, error) { return 2 * i, nil }); v != 2*i || err != nil {
			t.Fatalf("Get(%d) = %d, %v", i, v, err)
		}
	}
	if len(m.made) != 1000 {
		t.Errorf("%d of 1000 are kept", len(m.made))
	}
}

// Of many that ask at once one makes the value, also while others push it out.
func TestWhoWaitsGetsWhatWasForgottenMeanwhile(t *testing.T) {
	m := Map[int, int]{Limit: 1}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			if v, err := m.Get(t.Context(), i%4, func() (int, error) { return i % 4, nil }); v != i%4 || err != nil {
				t.Errorf("Get(%d) = %d, %v", i%4, v, err)
			}
		})
	}
	wg.Wait()
	if len(m.made) != 1 || m.asked.Len() != 1 {
		t.Errorf("%d are kept, want 1", len(m.made))
	}
}

func TestWhoGaveUpIsNoAnswerForOthers(t *testing.T) {
	var m Map[string, int]
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Get(ended, "a", func() (int, error) { return 0, ended.Err() }); !errors.Is(err, context.Canceled) {
		t.Fatalf("Get = %v", err)
	}
	if v, err := m.Get(t.Context(), "a", func() (int, error) { return 1, nil }); v != 1 || err != nil {
		t.Errorf("Get after one that gave up = %d, %v; want 1", v, err)
	}
}
