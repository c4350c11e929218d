// Package suites has the Ginkgo suite: each variant of each shipped scenario is
// a spec with the scenario's labels, beside specs written by hand with the
// matchers of package matchers.
//
//	go test ./runner/suites
//	ginkgo -p --label-filter='mig && !slow' ./runner/suites
//
// The specs run simulated, without any privilege. What a scenario means is said
// by package scenarios, running it by package runner.
package suites
