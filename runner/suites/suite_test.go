package suites_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"gpurig/runner"
	"gpurig/runner/gpurigtest"
	"gpurig/runner/gpurigtest/ginkgotest"
	"gpurig/runner/specgen"
	"gpurig/runner/target/sim"
	"gpurig/scenarios"
)

func TestMain(m *testing.M) {
	gpurigtest.Main(m)
}

func TestSuites(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "gpurig, simulated")
}

// What all specs of one process share.
var (
	generator *specgen.Generator
	simulated *sim.Sim
)

var _ = BeforeSuite(func() {
	generator = specgen.New(specgen.Options{Children: 1})
	var err error
	simulated, err = sim.New(nil)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(generator.Close()).To(Succeed()) })
})

// Specs are declared from the files, so a file that cannot be read must fail the
// suite while its tree is built.
var _ = func() bool {
	all, err := scenarios.LoadFS(scenarios.Files, runner.Words())
	if err != nil {
		panic(err)
	}
	return ginkgotest.Describe(all, gpurigtest.Options{})
}()
