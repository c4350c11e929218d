// Package suites has the Ginkgo suite: each variant of each shipped scenario is
// a spec with the scenario's labels, besides specs written by hand with the
// matchers of package matchers.
//
//	go test ./runner/suites
//	ginkgo -p --label-filter='mig && !slow' ./runner/suites
//
// The specs run simulated, without privileges. Package scenarios defines the
// scenarios, package runner runs them.
package suites
