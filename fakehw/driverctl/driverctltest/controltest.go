// Package driverctltest serves the control channel of a fake machine for a test.
package driverctltest

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"gpurig/fakehw/driverctl"
)

// Serve has h answer until the test ends, and returns the socket.
func Serve(t testing.TB, h driverctl.Handler) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "control") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- driverctl.Serve(ctx, l, h) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Serve() = %v", err)
		}
		os.RemoveAll(dir)
	})
	return path
}
