package lab

import (
	"testing"

	"gpurig/runner/gpurigtest"
)

func TestMain(m *testing.M) { gpurigtest.Main(m) }

func TestScenarios(t *testing.T) { gpurigtest.Run(t, "scenarios", gpurigtest.Options{}) }
