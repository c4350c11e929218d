package runner_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurig/core/plan"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/quarantine"
	"gpurig/runner/target"
)

// What is red and passes when it is run again is marked flaky, and each red run is told;
// what cannot be judged again stays red.
func TestRetries(t *testing.T) {
	wrong := errors.New("lxc-start: no such device") // the product's fault
	lost := target.ErrBroken
	for _, tc := range []struct {
		name    string
		retries int
		starts  []error // of one start after the other; then all succeed
		want    reports.Verdict
		flaky   string
		red     []reports.Verdict // runs that Failed was told
	}{
		{"none asked for", 0, []error{wrong}, reports.Fail, "", []reports.Verdict{reports.Fail}},
		{"none needed", 2, nil, reports.Pass, "", nil},
		{"fails once", 2, []error{wrong}, reports.Pass, "another run of it was fail: ", []reports.Verdict{reports.Fail}},
		{"is broken once", 1, []error{lost}, reports.Pass, "another run of it was broken: ", []reports.Verdict{reports.Broken}},
		{"fails always", 2, []error{wrong, wrong, wrong}, reports.Fail, "", []reports.Verdict{reports.Fail, reports.Fail, reports.Fail}},
		{"fails, and then is broken", 1, []error{wrong, lost}, reports.Fail, "", []reports.Verdict{reports.Fail, reports.Broken}},
		{"is broken, and then fails", 1, []error{lost, wrong}, reports.Fail, "another run of it was broken: ", []reports.Verdict{reports.Broken, reports.Fail}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tg := &fakeTarget{name: "fake"}
			starts := slices.Clone(tc.starts)
			tg.start = func(plan.Plan) error {
				if len(starts) == 0 {
					return nil
				}
				err := starts[0]
				starts = starts[1:]
				return err
			}
			var red []reports.Verdict
			r := run(t, t.Context(), runner.Options{Targets: []target.Target{tg}, Jobs: 1, Retries: tc.retries, Failed: func(tr runner.Trace) {
				if red = append(red, tr.Result.Verdict); len(tr.Steps) == 0 || tr.Result.Run == "" {
					t.Errorf("the trace of a red run has %d steps, and is run again by %q", len(tr.Steps), tr.Result.Run)
				}
			}}, parse(t, one))
			res := r.Results[0]
			var said []string
			for _, w := range res.Warnings {
				said = append(said, w.Line())
			}
			if res.Verdict != tc.want || !strings.Contains(strings.Join(said, "\n"), tc.flaky) || (tc.flaky == "") != (said == nil) || !slices.Equal(red, tc.red) {
				t.Errorf("%s, warnings %q, red runs %v; want %s, %q, %v", res.Verdict, said, red, tc.want, tc.flaky, tc.red)
			}
		})
	}
}

func TestQuarantine(t *testing.T) {
	q, err := quarantine.Parse("q.yaml", []byte("list: [{scenario: test, until: 2026-06-30, why: lab-3}]"), time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	tg := &fakeTarget{name: "fake", start: func(plan.Plan) error { return errors.New("lxc-start: no such device") }}
	red := 0
	vs := parse(t, one)
	for i := range vs {
		vs[i].Name = "test"
	}
	r := run(t, t.Context(), runner.Options{Targets: []target.Target{tg}, Quarantine: q, Failed: func(runner.Trace) { red++ }}, vs)
	if r.Totals.Skip != 1 || red != 1 || !strings.Contains(r.Results[0].Reason, "in quarantine until 2026-06-30 (lab-3): fail: ") {
		t.Errorf("%+v, %q, red runs %d", r.Totals, r.Results[0].Reason, red)
	}
}

func TestAScenarioSaysHowLongItMayTake(t *testing.T) {
	tg := &fakeTarget{name: "fake", start: func(plan.Plan) error { time.Sleep(20 * time.Millisecond); return nil }}
	r := run(t, t.Context(), runner.Options{Targets: []target.Target{tg}}, parse(t, one+"timeout: 1ms\nsteps: [{start: c1}, {stop: c1}]"))
	if r.Totals.Broken != 1 || !strings.Contains(r.Results[0].Reason, "took too long: 1ms") {
		t.Errorf("results: %+v; want broken after 1ms", r.Results)
	}
}
