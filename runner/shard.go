package runner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gpurig/reports"
	"gpurig/scenarios"
)

// A Shard is a part of all variants: number K of N, from 1. The zero Shard is
// everything. Shards of the same N and durations have each variant once.
type Shard struct {
	K, N int
	// Took is how long variants took in an earlier run, in milliseconds, by ID: shards
	// are to take equally long. Nil: variants count alike.
	Took map[string]float64
}

// ParseShard reads "2/5". The error says what is wrong with it.
func ParseShard(s string) (Shard, error) {
	k, n, ok := strings.Cut(s, "/")
	a, err1 := strconv.Atoi(k)
	b, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || b == 0 {
		return Shard{}, fmt.Errorf("shard %q: want K/N, such as 2/5", s)
	}
	sh := Shard{K: a, N: b}
	return sh, sh.check()
}

func (s Shard) check() error {
	if s.K == 0 && s.N == 0 || s.K >= 1 && s.K <= s.N {
		return nil
	}
	return fmt.Errorf("shard %d/%d: the first number is 1 to %d", s.K, s.N, max(s.N, 1))
}

// String returns "2/5", or "" for everything.
func (s Shard) String() string {
	if s.N == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.K, s.N)
}

// Of returns the variants of this shard.
func (s Shard) Of(all []scenarios.Variant) []scenarios.Variant {
	if s.N == 0 {
		return all
	}
	var out []scenarios.Variant
	for i, k := range s.split(all) {
		if k == s.K {
			out = append(out, all[i])
		}
	}
	return out
}

// Durations are how long the variants of a report took on all its targets together, in
// milliseconds, by ID.
func Durations(r reports.Report) map[string]float64 {
	out := map[string]float64{}
	for _, res := range r.Results {
		res.Variant = maps.Clone(res.Variant)
		delete(res.Variant, "faults")
		out[res.ID()] += res.DurationMS
	}
	return out
}

// A Class is the shards whose variants need the same of the machine at hand.
type Class struct {
	Needs       *scenarios.Needs // nil: any machine will do
	First, Last int              // shards, from 1
	Variants    int
	TookMS      float64 // of the longest shard; 0: not known
}

// Classes tells which machines the shards of N want, in order. Shards of different
// needs are only kept apart where there are enough of them.
func (s Shard) Classes(all []scenarios.Variant) []Class {
	weights, at := s.weights(all), s.split(all)
	took := make([]float64, s.N+1)
	for i, k := range at {
		took[k] += weights[i]
	}
	var out []Class
	for _, g := range s.groups(all, weights) {
		c := Class{First: g.first, Last: g.first + g.shards - 1, Variants: len(g.of)}
		if !g.mixed {
			c.Needs = all[g.of[0]].Needs
		}
		if s.Took != nil {
			c.TookMS = slices.Max(took[c.First : c.Last+1])
		}
		out = append(out, c)
	}
	return out
}

// weights are how long the variants take: one that was not measured as long as the
// median of the others.
func (s Shard) weights(all []scenarios.Variant) []float64 {
	usual := 1.0
	if len(s.Took) > 0 {
		usual = slices.Sorted(maps.Values(s.Took))[len(s.Took)/2]
	}
	hardware := slices.ContainsFunc(all, onThisMachine)
	out := make([]float64, len(all))
	for i, v := range all {
		ms, measured := s.Took[v.ID()]
		switch {
		case measured:
			out[i] = ms
		case !hardware || onThisMachine(v): // the others are skipped
			out[i] = usual
		}
	}
	return out
}

func onThisMachine(v scenarios.Variant) bool { return v.Host == ThisMachine && v.Needs != nil }

// A group is the variants, by number, that go to the same shards.
type group struct {
	of            []int
	first, shards int
	mixed         bool // or without needs
	weight        float64
}

// groups gives each set of needs its shards: one at least, and the next to that whose
// shards are the longest.
func (s Shard) groups(all []scenarios.Variant, weights []float64) []*group {
	byNeeds := map[string]*group{}
	for i, v := range all {
		key := ""
		if onThisMachine(v) {
			key = fmt.Sprintf("%+v", *v.Needs)
		}
		g := byNeeds[key]
		if g == nil {
			g = &group{shards: 1, mixed: key == ""}
			byNeeds[key] = g
		}
		g.of = append(g.of, i)
		g.weight += weights[i]
	}
	var out []*group
	for _, key := range slices.Sorted(maps.Keys(byNeeds)) {
		out = append(out, byNeeds[key])
	}
	if len(out) > s.N {
		one := &group{shards: 1, mixed: true}
		for i := range all {
			one.of = append(one.of, i)
		}
		out = []*group{one}
	}
	for range s.N - len(out) {
		longest := slices.MaxFunc(out, func(a, b *group) int {
			return cmp.Compare(a.weight/float64(a.shards), b.weight/float64(b.shards))
		})
		longest.shards++
	}
	next := 1
	for _, g := range out {
		g.first = next
		next += g.shards
	}
	return out
}

// split returns the shard of each variant. Neighbours, which take equally long, are in
// different ones; where it was measured, the longest go first to the shard that has the
// least to do.
func (s Shard) split(all []scenarios.Variant) []int {
	weights := s.weights(all)
	out := make([]int, len(all))
	for _, g := range s.groups(all, weights) {
		if s.Took == nil {
			for n, i := range g.of {
				out[i] = g.first + n%g.shards
			}
			continue
		}
		slices.SortStableFunc(g.of, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
		load := make([]float64, g.shards)
		for _, i := range g.of {
			least := slices.Index(load, slices.Min(load))
			load[least] += weights[i]
			out[i] = g.first + least
		}
	}
	return out
}
