package docker

import (
	"context"
	"errors"
	"slices"

	"gpurig/runner/target"
)

// shared returns the engine for containers of one kind. One that ended by itself serves
// nobody any more: what was under way is broken, and who comes next gets another.
func (d *Docker) shared(ctx context.Context, k kind) (*engine, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sharedLocked(ctx, k)
}

func (d *Docker) sharedLocked(ctx context.Context, k kind) (*engine, error) {
	e := d.engines[k]
	if e != nil && !e.dead() {
		return e, nil
	}
	var died error
	if e != nil {
		died = errors.Join(target.ErrBroken, e.life.Why())
		delete(d.engines, k)
		if e.has > 0 {
			d.others = append(d.others, e)
		} else if err := e.close(); err != nil {
			return nil, errors.Join(target.ErrBroken, err)
		}
	}
	if err := d.cannot[k]; err != nil {
		return nil, err
	}
	p, cerr := d.able()
	if cerr == nil {
		e, err := startEngine(ctx, k, p)
		if err == nil {
			d.engines[k] = e
			return e, nil
		}
		if ctx.Err() != nil {
			return nil, err // the caller gave up: that says nothing of the machine
		}
		if died != nil { // this machine can: it did
			return nil, errors.Join(died, err)
		}
		cerr = d.unable("", "%v", err)
	}
	d.cannot[k] = cerr
	return nil, cerr
}

// serve returns the engine for a container: that of all of its kind, or one that it has
// for itself and the others of its name.
func (d *Docker) serve(ctx context.Context, c target.Config) (*engine, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := kindOf(c)
	if c.Alone == "" {
		e, err := d.sharedLocked(ctx, k)
		if err == nil {
			e.has++
		}
		return e, err
	}
	for _, name := range []string{c.Alone, ""} {
		for _, e := range d.others {
			if e.alone == name && e.kind == k && e.mayServe {
				e.alone, e.has = c.Alone, e.has+1
				return e, nil
			}
		}
	}
	p, cerr := d.able()
	if cerr != nil {
		return nil, cerr
	}
	e, err := startEngine(context.WithoutCancel(ctx), k, p)
	if err != nil {
		return nil, errors.Join(target.ErrBroken, err)
	}
	e.alone, e.has, e.mayServe = c.Alone, 1, true
	d.others = append(d.others, e)
	return e, nil
}

// release says that a container is gone. An engine that served it alone serves others
// then, if it still does. One that is dead is taken away.
func (d *Docker) release(e *engine) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.has--; e.has > 0 {
		return nil
	}
	e.alone = ""
	if !e.dead() {
		return nil
	}
	d.others = slices.DeleteFunc(d.others, func(x *engine) bool { return x == e })
	if d.engines[e.kind] == e {
		delete(d.engines, e.kind)
	}
	return e.close()
}
