package runner_test

import (
	"fmt"
	"slices"
	"testing"

	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/target"
	"gpurig/scenarios"
)

// Each variant is in exactly one shard.
func TestShards(t *testing.T) {
	vs := parse(t, one+"matrix: {cgroup: [v1, v2], idmap: [none, default], image: [a, b, c, d, e]}")
	took := runner.Durations(reports.Report{Results: []reports.Result{{Scenario: vs[3].Name, Variant: vs[3].Map(), DurationMS: 7}}})
	if took[vs[3].ID()] != 7 {
		t.Fatalf("Durations = %v; want 7 of %s", took, vs[3].ID())
	}
	for n := 1; n <= 7; n++ {
		for _, took := range []map[string]float64{nil, took} {
			seen := map[string]int{}
			for k := 1; k <= n; k++ {
				sh, err := runner.ParseShard(fmt.Sprintf("%d/%d", k, n))
				if err != nil {
					t.Fatal(err)
				}
				sh.Took = took
				part := sh.Of(vs)
				if len(part) < len(vs)/n {
					t.Errorf("shard %s has %d of %d variants", sh, len(part), len(vs))
				}
				for _, v := range part {
					seen[v.ID()]++
				}
			}
			for _, v := range vs {
				if seen[v.ID()] != 1 {
					t.Errorf("%d shards: %s is in %d of them", n, v.ID(), seen[v.ID()])
				}
			}
		}
	}
	for _, bad := range []string{"", "1", "0/3", "4/3", "-1/3", "a/b", "1/0", "1/3/4"} {
		if sh, err := runner.ParseShard(bad); err == nil {
			t.Errorf("ParseShard(%q) = %v; want an error", bad, sh)
		}
	}
	if _, err := runner.Run(t.Context(), runner.Options{Targets: []target.Target{&fakeTarget{}}, Specs: &fakeSpecs{}, Hosts: runner.Profiles{}, Shard: runner.Shard{K: 4, N: 3}}, nil); err == nil {
		t.Error("Run took shard 4/3")
	}
}

// many are variants of made-up scenarios, by what each needs of the machine.
func many(needs ...*scenarios.Needs) []scenarios.Variant {
	var out []scenarios.Variant
	for i, n := range needs {
		v := scenarios.Variant{Scenario: scenarios.Scenario{Name: fmt.Sprintf("s%05d", i), Host: "t4-server", Needs: n}}
		if n != nil {
			v.Host = runner.ThisMachine
		}
		out = append(out, v)
	}
	return out
}

// Shards take equally long, although few scenarios take most of the time.
func TestShardsTakeEquallyLong(t *testing.T) {
	const n, all = 100, 10_000
	vs := many(make([]*scenarios.Needs, all)...)
	took, total := map[string]float64{}, 0.0
	for i, v := range vs {
		ms := 10.0
		if i%n == 0 || i%(2*n) == n/2 { // most of which would be in shard 1
			ms = 1000
		}
		took[v.ID()], total = ms, total+ms
	}
	var even, odd float64 // the longest shard, by durations and without
	for k := 1; k <= n; k++ {
		even = max(even, sum(runner.Shard{K: k, N: n, Took: took}.Of(vs), took))
		odd = max(odd, sum(runner.Shard{K: k, N: n}.Of(vs), took))
	}
	if mean := total / n; even > 1.01*mean || odd < 10*mean {
		t.Errorf("the longest of %d shards takes %v by durations, %v without; the mean is %v", n, even, odd, mean)
	}
}

func sum(vs []scenarios.Variant, took map[string]float64) (ms float64) {
	for _, v := range vs {
		ms += took[v.ID()]
	}
	return ms
}

// On hardware each shard wants one kind of machine, and what is not for hardware has one.
func TestShardsByNeeds(t *testing.T) {
	mig, two := &scenarios.Needs{MIG: true}, &scenarios.Needs{GPUs: ">=2"}
	vs := many(mig, nil, mig, two, mig, mig, nil, nil, mig, two, nil, nil, nil)
	var got []string
	for _, c := range (runner.Shard{K: 1, N: 6}).Classes(vs) {
		got = append(got, fmt.Sprintf("%d-%d: %d need %v", c.First, c.Last, c.Variants, c.Needs))
	}
	want := []string{"1-1: 6 need <nil>", fmt.Sprintf("2-4: 5 need %v", mig), fmt.Sprintf("5-6: 2 need %v", two)}
	if slices.Sort(got); !slices.Equal(got, want) && !slices.Equal(got, []string{want[0], fmt.Sprintf("2-3: 2 need %v", two), fmt.Sprintf("4-6: 5 need %v", mig)}) {
		t.Errorf("classes %q", got)
	}
	for k := 1; k <= 6; k++ {
		part := runner.Shard{K: k, N: 6}.Of(vs)
		for _, v := range part {
			if v.Needs != part[0].Needs {
				t.Errorf("shard %d has %s beside %s", k, v.ID(), part[0].ID())
			}
		}
	}
	if few := (runner.Shard{K: 1, N: 2}).Classes(vs); len(few) != 1 || few[0].Needs != nil || few[0].Last != 2 || few[0].Variants != len(vs) {
		t.Errorf("two shards for three sets of needs: %+v", few)
	}
}
