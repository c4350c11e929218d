// Package memo keeps the result for a key, so that it is computed once even if
// several goroutines ask for it at the same time.
//
// It depends only on the standard library.
package memo

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
)

// A Map remembers values by key, and errors too, except those of a caller who
// gave up. The zero Map is ready; a Map must not be copied.
type Map[K comparable, V any] struct {
	// Limit is how many values are kept: beyond, the one that was asked for longest
	// ago is forgotten, and made anew when it is asked for again. Zero: all are kept.
	Limit int

	mu    sync.Mutex
	made  map[K]*entry[K, V]
	asked list.List // of *entry[K, V], the last asked for in front
}

type entry[K comparable, V any] struct {
	key  K
	at   *list.Element
	done chan struct{}
	v    V
	err  error
}

// Get returns what is kept under key, or makes it. Whoever comes while it is
// being made waits for it, or for the end of its own ctx.
func (m *Map[K, V]) Get(ctx context.Context, key K, create func() (V, error)) (V, error) {
	for {
		m.mu.Lock()
		e, ok := m.made[key]
		if ok {
			m.asked.MoveToFront(e.at)
		} else {
			e = m.add(key)
		}
		m.mu.Unlock()
		if !ok {
			e.err = errors.New("made by a goroutine that panicked")
			func() {
				defer close(e.done)
				e.v, e.err = create()
			}()
			if e.err != nil && ctx.Err() != nil {
				m.forget(key, e)
			}
			return e.v, e.err
		}
		select {
		case <-e.done:
		case <-ctx.Done():
			var zero V
			return zero, fmt.Errorf("wait: %w", context.Cause(ctx))
		}
		// Whoever made it may have given up, which is no answer for us.
		if e.err == nil || ctx.Err() != nil || !errors.Is(e.err, context.Canceled) && !errors.Is(e.err, context.DeadlineExceeded) {
			return e.v, e.err
		}
		m.forget(key, e)
	}
}

// add makes room for a new entry. The caller has the lock.
func (m *Map[K, V]) add(key K) *entry[K, V] {
	e := &entry[K, V]{key: key, done: make(chan struct{})}
	if m.made == nil {
		m.made = map[K]*entry[K, V]{}
	}
	m.made[key] = e
	e.at = m.asked.PushFront(e)
	if m.Limit > 0 && len(m.made) > m.Limit {
		m.remove(m.asked.Back().Value.(*entry[K, V]))
	}
	return e
}

// remove forgets an entry. Who waits for it gets it all the same. The caller has
// the lock.
func (m *Map[K, V]) remove(e *entry[K, V]) {
	delete(m.made, e.key)
	m.asked.Remove(e.at)
}

func (m *Map[K, V]) forget(key K, e *entry[K, V]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made[key] == e {
		m.remove(e)
	}
}
