package suites_test

import (
	"os"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"gpurig/fakehw/mntns"
	"gpurig/fakehw/profiles"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/sim"
	"gpurig/runner/verdict"
	"gpurig/scenarios"
)

func TestMain(m *testing.M) {
	mntns.Init()
	os.Exit(m.Run())
}

func TestSuites(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "gpurig, simulated")
}

// What all specs of one process share.
var (
	generator *specgen.Generator
	simulated *sim.Sim
	scenario  *runner.Runner
)

var _ = BeforeSuite(func() {
	generator = specgen.New(specgen.Options{Children: 1})
	var err error
	simulated, err = sim.New(nil)
	Expect(err).NotTo(HaveOccurred())
	scenario, err = runner.New(runner.Options{
		Targets: []target.Target{simulated}, Specs: generator, Hosts: runner.Profiles{}, Jobs: 1,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(generator.Close()).To(Succeed()) })
})

// Specs are declared from the files, so a file that cannot be read must fail the
// suite while its tree is built.
var _ = func() bool {
	all, err := scenarios.LoadFS(scenarios.Files, scenarios.Options{Hosts: profiles.Names()})
	if err != nil {
		panic(err)
	}
	for _, s := range all {
		Describe(s.Name, Label(s.AllLabels()...), func() {
			for _, v := range scenarios.Expand(s) {
				It(specName(&v), func(ctx SpecContext) { play(ctx, v) })
			}
		})
	}
	return true
}()

// specName is the scenario's sentence, with the choices of its matrix.
func specName(v *scenarios.Variant) string {
	name := strings.TrimSuffix(v.Title, ".")
	if c := v.Choices(); c != "" {
		name += " (" + c + ")"
	}
	return name
}

func play(ctx SpecContext, v scenarios.Variant) {
	report := scenario.Run(ctx, []scenarios.Variant{v})
	Expect(report.Results).To(HaveLen(1), "the run was cut short")
	r := report.Results[0]
	switch r.Verdict {
	case reports.Pass:
	case reports.Skip:
		Skip(r.Reason)
	case reports.Broken:
		Fail("could not be judged: " + r.Reason)
	default:
		var lines []string
		for _, f := range r.Findings {
			lines = append(lines, f.Line())
		}
		first := verdict.Station(r.Findings[0].Station)
		Fail("first station that differs: " + string(first) + "\n" + strings.Join(lines, "\n"))
	}
}
