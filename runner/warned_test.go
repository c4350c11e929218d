package runner_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/target"
)

// TestAWarningOfTheHookIsJudgedAndReported (A49) follows a warning from the container to
// the verdict, the trace and the report.
func TestAWarningOfTheHookIsJudgedAndReported(t *testing.T) {
	const scenario = `
host: t4-server
containers: {c1: {devices: {gpu0: {id: "nvidia.com/gpu=0"}}}}
expect: {c1: {warns: [library-shadowed], says: [/opt/libcuda.so.1]}}
`
	warning := hookspec.Warning{Reason: hookspec.LibraryShadowed, SONAME: "libcuda.so.1", Host: "/usr/lib/libcuda.so.535", Loads: "/opt/libcuda.so.1", By: "ld.so.preload"}
	for name, tc := range map[string]struct {
		warn []hookspec.Warning
		want reports.Verdict
	}{
		"it is given":     {[]hookspec.Warning{warning}, reports.Pass},
		"it is not given": {nil, reports.Fail},
	} {
		t.Run(name, func(t *testing.T) {
			var trace runner.Trace
			tg := &fakeTarget{name: "fake", warn: tc.warn}
			r := run(t, t.Context(), runner.Options{Targets: []target.Target{tg}, Trace: func(tr runner.Trace) { trace = tr }}, parse(t, scenario))
			res := r.Results[0]
			if res.Verdict != tc.want {
				t.Fatalf("%s: %+v", res.Verdict, res.Findings)
			}
			var want []reports.Warning
			if len(tc.warn) > 0 {
				want = []reports.Warning{{Reason: "library-shadowed", Container: "c1", Step: "1: start c1", Text: warning.String()}}
			}
			if !slices.Equal(res.Warnings, want) {
				t.Errorf("the report warns of %+v, want %+v", res.Warnings, want)
			}
			if got := trace.Steps[1].Containers[0].Warnings; len(got) != len(tc.warn) || len(got) > 0 && !strings.Contains(got[0].Text, "/opt/libcuda.so.1") {
				t.Errorf("the trace warns of %+v", got)
			}
		})
	}
}

func TestAShadowedLibraryIsRefusedWhereThePlanIsStrict(t *testing.T) {
	for _, strict := range []bool{false, true} {
		tg := &fakeTarget{name: "fake", start: func(p plan.Plan) error {
			if p.Strict != strict {
				t.Errorf("a plan that is strict: %v, want %v", p.Strict, strict)
			}
			if p.Strict {
				return errors.New("lxc-start: cdi-hook: library-shadowed: libcuda.so.1: the container's loader takes another")
			}
			return nil
		}}
		expect := "{running: true}"
		if strict {
			expect = "{refused: library-shadowed, says: [libcuda.so.1], running: false}"
		}
		r := run(t, t.Context(), runner.Options{Targets: []target.Target{tg}}, parse(t, `
host: t4-server
containers: {c1: {strict: `+map[bool]string{true: "true", false: "false"}[strict]+`, devices: {gpu0: {id: "nvidia.com/gpu=0"}}}}
expect: {c1: `+expect+`}
`))
		if r.Results[0].Verdict != reports.Pass {
			t.Errorf("strict %v: %s: %+v", strict, r.Results[0].Verdict, r.Results[0].Findings)
		}
	}
}
