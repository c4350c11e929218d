// Package bench compares whole programs with those that they replace:
// gpurig with nvidia-ctk, cdi-hook with nvidia-cdi-hook, on
// the same fake host and the same root file system, alternating in one run.
//
// It has only benchmarks and tests. NVIDIA's programs are unmodified and built,
// when they are first needed, from the release that go.mod names; they add nothing
// to our go.mod. What a machine does not allow is skipped with the
// reason. The results, and what they mean, are in docs/performance.md.
package bench
