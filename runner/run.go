package runner

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"gpurig/reports"
	"gpurig/runner/image"
	"gpurig/scenarios"
)

// A Runner runs variants. Hosts, trees and Specs are made once and kept for its
// life; its methods may be called from several goroutines.
type Runner struct {
	opts  Options
	hosts *hostCache
}

// New returns a runner, or what is wrong with opts.
func New(opts Options) (*Runner, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	p := &hostCache{source: opts.Hosts, specs: opts.Specs, images: image.NewSet(image.Bare{})}
	p.named.Limit, p.all.Limit = maxStates, maxStates
	if opts.Hardware != nil {
		m, err := opts.Hardware.machine()
		if err != nil {
			return nil, err
		}
		p.here.Store(m)
	}
	return &Runner{opts: opts, hosts: p}, nil
}

// Run runs the variants of the shard on all targets and returns the results,
// sorted, totals and completeness filled in; who ran it and where is for the
// caller to add. When ctx ends, whatever was made is removed and the report is
// not complete. The error is about opts alone.
func Run(ctx context.Context, opts Options, variants []scenarios.Variant) (reports.Report, error) {
	r, err := New(opts)
	if err != nil {
		return reports.Report{}, err
	}
	return r.Run(ctx, variants), nil
}

// Run is Run with the options that the runner was made with.
func (r *Runner) Run(ctx context.Context, variants []scenarios.Variant) reports.Report {
	report := reports.Report{Schema: reports.Schema, Shard: r.opts.Shard.String()}
	work := r.opts.Shard.Of(variants)
	results := make([][]reports.Result, len(work))
	next := make(chan int)
	var wg sync.WaitGroup
	var say sync.Mutex
	for range min(r.opts.jobs(), max(len(work), 1)) {
		wg.Go(func() {
			for i := range next {
				results[i] = r.variant(ctx, &work[i], &say)
			}
		})
	}
	complete := true
	for _, i := range byHost(work) {
		select {
		case next <- i:
		case <-ctx.Done():
			complete = false
		}
		if !complete {
			break
		}
	}
	close(next)
	wg.Wait()
	report.Results = slices.Concat(results...)
	report.Finish(complete && ctx.Err() == nil)
	return report
}

// byHost returns the numbers of the variants in the order of their hosts, of which
// only some are kept at a time.
func byHost(all []scenarios.Variant) []int {
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(all[a].Host, all[b].Host) })
	return order
}
