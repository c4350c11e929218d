package cli

import (
	"io/fs"
	"os"
	"strings"

	"gpurig/reports"
	"gpurig/runner"
	"gpurig/scenarios"
)

// A keeper keeps the values that results which did not pass went through, for the
// report: of each scenario on each target those of the first, as long as there is room.
type keeper struct {
	kept reports.Report
	of   map[string][]reports.Value // by key of the result
	seen map[[2]string]bool
}

// trace is runner.Options.Trace.
func (k *keeper) trace(t runner.Trace) {
	res := t.Result
	at := [2]string{res.Scenario, res.Target}
	if res.Verdict == reports.Pass || res.Verdict == reports.Skip || k.seen[at] || k.kept.Full() {
		return
	}
	if k.of == nil {
		k.of, k.seen = map[string][]reports.Value{}, map[[2]string]bool{}
	}
	k.seen[at] = true
	if text := scenarioText(res.File); text != "" {
		k.kept.Keep(&res, "scenario "+res.File, text)
	}
	for _, s := range sections(t) {
		if s.station == "refused" {
			continue // which is a finding
		}
		if text, err := s.text(); err == nil { // else explain says what is wrong with it
			k.kept.Keep(&res, s.title, text)
		}
	}
	k.of[res.Key()] = res.Values
}

// scenarioText is the file of a scenario; empty: it cannot be read any more.
func scenarioText(file string) string {
	data, err := fs.ReadFile(scenarios.Files, file)
	if err != nil {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return ""
	}
	return string(data)
}

// fill adds what was kept to the report.
func (k *keeper) fill(r *reports.Report) {
	r.Values = k.kept.Values
	for i := range r.Results {
		r.Results[i].Values = k.of[r.Results[i].Key()]
	}
}

// ciJob is the CI job of this process, as GitHub and GitLab tell it to programs.
//
// Reference: https://docs.github.com/actions/reference/workflows-and-actions/variables,
// https://docs.gitlab.com/ci/variables/predefined_variables
func ciJob(env func(string) string) reports.CI {
	switch {
	case env("GITHUB_ACTIONS") != "":
		return reports.CI{Commit: env("GITHUB_SHA"), Link: strings.Join([]string{env("GITHUB_SERVER_URL"), env("GITHUB_REPOSITORY"), "actions", "runs", env("GITHUB_RUN_ID")}, "/")}
	case env("GITLAB_CI") != "":
		return reports.CI{Commit: env("CI_COMMIT_SHA"), Link: env("CI_JOB_URL")}
	}
	return reports.CI{}
}
