package runner_test

import (
	"os"
	"testing"

	"gpurig/fakehw/mntns"
)

func TestMain(m *testing.M) {
	mntns.Init()
	os.Exit(m.Run())
}
