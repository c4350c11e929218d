// Package ginkgotest declares scenarios as Ginkgo specs. It is package gpurigtest for
// projects whose tests are suites; a TestMain calls gpurigtest.Main.
package ginkgotest

import (
	"strings"
	"sync"

	"github.com/onsi/ginkgo/v2"

	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/gpurigtest"
	"gpurig/scenarios"
)

// DescribeScenarios declares a Describe for each scenario of a folder or of one file,
// with its labels, and in it a spec for each variant, simulated. A file that cannot be
// read stops the suite while its tree is built, by a panic with the place.
//
//	var _ = ginkgotest.DescribeScenarios("scenarios", gpurigtest.Options{})
func DescribeScenarios(path string, o gpurigtest.Options) bool {
	all, err := scenarios.Load(runner.Words(), path)
	if err != nil {
		panic(err)
	}
	return Describe(all, o)
}

// Describe is DescribeScenarios of scenarios that have been read.
func Describe(all []scenarios.Scenario, o gpurigtest.Options) bool {
	fits, err := scenarios.ParseLabels(o.Label)
	if err != nil {
		panic(err)
	}
	// One Runner serves the specs of a process; its children end with it.
	shared := sync.OnceValues(func() (*gpurigtest.Runner, error) { return gpurigtest.New(o) })
	for _, s := range all {
		if !fits(s.AllLabels()) {
			continue
		}
		ginkgo.Describe(s.Name, ginkgo.Label(s.AllLabels()...), func() {
			for _, v := range scenarios.Expand(s) {
				ginkgo.It(specName(&v), func() {
					r, err := shared()
					if err != nil {
						ginkgo.Fail(err.Error())
					}
					switch verdict, text := r.Judge(ginkgo.GinkgoTB(), v); verdict {
					case reports.Pass:
					case reports.Skip:
						ginkgo.Skip(text)
					default:
						ginkgo.Fail(text)
					}
				})
			}
		})
	}
	return true
}

// specName is the scenario's sentence, with the choices of its matrix.
func specName(v *scenarios.Variant) string {
	name := strings.TrimSuffix(v.Title, ".")
	if c := v.Choices(); c != "" {
		name += " (" + c + ")"
	}
	return name
}
