package runner_test

import (
	"strings"
	"testing"

	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/sim"
)

// TestALibraryIsJudgedByWhoseFileItIs (A49): a file of the image that has the right name and
// version is not the host's. An expectation that says so is the twin.
func TestALibraryIsJudgedByWhoseFileItIs(t *testing.T) {
	const image = `
host: t4-server
containers:
  c1:
    content:
      files: {/etc/ld.so.conf.d/00-first.conf: "/opt/first\n"}
      libraries: {/opt/first/libcudart.so.535.113.01: {soname: libcudart.so.1}}
    devices: {gpu0: {id: nvidia.com/gpu=0}}
steps: [{start: c1}, {ldconfig: c1}]
expect: {c1: {library: {libcudart.so.1: WANT, libcuda.so.1: 535.113.01, libnvidia-ml.so.1: host}}}
`
	simulated, err := sim.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	made := specgen.New(specgen.Options{})
	t.Cleanup(func() { made.Close() })
	for want, finding := range map[string]string{
		"image": "", "535.113.01": "a file of the image", "535": "a file of the image", "host": "a file of the image", "none": "a file of the image",
	} {
		t.Run(want, func(t *testing.T) {
			variants := parse(t, strings.Replace(image, "WANT", `"`+want+`"`, 1))
			r, err := runner.Run(t.Context(), runner.Options{Targets: []target.Target{simulated}, Specs: made, Hosts: runner.Profiles{}, Jobs: 1}, variants)
			if err != nil || len(r.Results) != 1 {
				t.Fatalf("%d results, %v", len(r.Results), err)
			}
			got := r.Results[0]
			if got.Verdict == reports.Skip {
				t.Skip(got.Reason)
			}
			if finding == "" && got.Verdict != reports.Pass || finding != "" && (got.Verdict != reports.Fail || len(got.Findings) != 1 ||
				got.Findings[0].What != "libcudart.so.1" || !strings.Contains(got.Findings[0].Got, finding)) {
				t.Errorf("%s %s: %+v; want %q", got.Verdict, got.Reason, got.Findings, finding)
			}
		})
	}
}
