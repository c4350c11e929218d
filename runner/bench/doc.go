// Package bench measures whole programs against the programs that they stand
// in for: gpurig against nvidia-ctk, cdi-hook against nvidia-cdi-hook, both on
// the same fake host and the same root file system, turn by turn in one run.
//
// It has benchmarks and tests only. The peers are NVIDIA's, unmodified, built
// from the release that go.mod names when they are first needed; our go.mod
// gains nothing by them. What a machine does not allow is skipped with the
// reason. The numbers, and what they mean, are in docs/performance.md.
package bench
