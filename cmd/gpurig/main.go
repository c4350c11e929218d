// Command gpurig tests GPU passthrough into system containers: see package cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"gpurig/runner/cli"
)

func main() {
	cli.Init()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := cli.Main(ctx, cli.Stdio(), os.Args[1:])
	stop()
	os.Exit(code)
}
