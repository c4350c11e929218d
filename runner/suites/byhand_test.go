package suites_test

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"gpurig/core/cdi"
	"gpurig/core/device"
	"gpurig/core/policy"
	"gpurig/core/translate"
	. "gpurig/runner/matchers"
	"gpurig/runner/observe"
	"gpurig/runner/specgen"
	"gpurig/runner/target"

	"gpurig/runner"
)

// give starts a simulated container with the named CDI devices of a host and
// returns what it sees.
func give(ctx SpecContext, profile string, request observe.Request, names ...string) observe.Observation {
	GinkgoHelper()
	model, err := runner.Profiles{}.Host(profile, "")
	Expect(err).NotTo(HaveOccurred())
	made := specgen.Request{Model: model}
	spec, err := generator.Generate(ctx, made)
	if errors.Is(err, specgen.ErrNeedsSpec) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	var asked []cdi.Name
	for _, n := range names {
		name, err := cdi.ParseName(n)
		Expect(err).NotTo(HaveOccurred())
		asked = append(asked, name)
	}
	edits, err := cdi.Resolve([]cdi.Source{cdi.FromHost(spec.Spec)}, asked)
	Expect(err).NotTo(HaveOccurred())
	tree, err := made.Tree()
	Expect(err).NotTo(HaveOccurred())
	p, err := translate.Edits(tree, edits, translate.Options{Policy: policy.Policy{LeaveOut: []string{"apply-cuda-memory-limits"}}})
	Expect(err).NotTo(HaveOccurred())

	ctr, err := simulated.Create(ctx, target.Config{Name: "byhand", Image: "glibc", Cgroup: "v2"})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Expect(ctr.Remove(ctx)).To(Succeed()) })
	Expect(ctr.Start(ctx, target.Host{Root: tree, Sum: tree.Sum}, p)).To(Succeed())
	seen, err := ctr.Observe(ctx, request)
	Expect(err).NotTo(HaveOccurred())
	return seen
}

var _ = Describe("a container given one MIG device of two", Label("mig", "byhand"), func() {
	var seen observe.Observation

	BeforeEach(func(ctx SpecContext) {
		seen = give(ctx, "a100-mig-2g-3g", observe.Request{SONAMEs: []string{"libcuda.so.1"}}, "nvidia.com/gpu=0:1")
	})

	It("has the GPU's node and may open it", func() {
		Expect(seen).To(HaveNode("/dev/nvidia0", device.Num{Major: 195, Minor: 0}))
		Expect(seen).To(HaveOpenNode("/dev/nvidia0"))
	})

	It("finds the driver by its SONAME", func() {
		Expect(seen).To(ResolveLibrary("libcuda.so.1", "550.163.01"))
	})

	It("has not the nodes that configure MIG", func() {
		Expect(seen).NotTo(HaveNode("/dev/nvidia-caps/nvidia-cap1"))
		Expect(seen).NotTo(HaveNode("/dev/nvidia-caps/nvidia-cap2"))
	})
})

var _ = Describe("a container given a whole T4", Label("dgpu", "byhand"), func() {
	It("has the driver's files read-only and its links relative", func(ctx SpecContext) {
		const lib = "/usr/lib/x86_64-linux-gnu"
		seen := give(ctx, "t4-server", observe.Request{Dirs: []string{lib}}, "nvidia.com/gpu=0")
		Expect(seen).To(HaveMount("/usr/bin/nvidia-smi", "ro", "nosuid", "nodev"))
		Expect(seen).To(HaveLink(lib+"/libcuda.so", "libcuda.so.1"))
	})
})
