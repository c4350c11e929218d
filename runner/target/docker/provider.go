package docker

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/moby/moby/client"
	tc "github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"

	"gpurig/core/show"
)

// noNetwork is the network of every container; the engine has no other.
const noNetwork = "none"

// hostPrefix begins the address at which testcontainers-go looks for its engine.
const hostPrefix = "unix:///run/gpurig-docker-"

// Init must be called first of all in main, and in TestMain, of a program that uses
// this package. testcontainers-go reads once, from the environment, where its engine
// is and that it needs no reaper, so the program becomes itself with an environment
// that says so. What it starts has that environment too.
func Init() {
	if strings.HasPrefix(os.Getenv("DOCKER_HOST"), hostPrefix) {
		return
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "DOCKER_") || strings.HasPrefix(v, "TESTCONTAINERS_")
	})
	env = append(env, fmt.Sprintf("DOCKER_HOST=%s%d.sock", hostPrefix, os.Getpid()), "TESTCONTAINERS_RYUK_DISABLED=true")
	err := syscall.Exec("/proc/self/exe", os.Args, env)
	show.Fprintf(os.Stderr, "error: restart with the environment of testcontainers-go: %v\n", err)
	os.Exit(3)
}

// meeting guards the link at which testcontainers-go meets an engine.
var meeting sync.Mutex

// newProvider returns a provider of containers of one engine. testcontainers-go
// gives all providers the engine that it met first: each gets its own client.
func newProvider(socket string) (*tc.DockerProvider, error) {
	meeting.Lock()
	defer meeting.Unlock()
	link, ok := strings.CutPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	if !ok {
		return nil, errors.New("docker.Init was not called")
	}
	if err := os.Symlink(socket, link); err != nil {
		return nil, err
	}
	defer os.Remove(link)
	quiet := log.NewNoopLogger()
	loud := log.Default()
	log.SetDefault(quiet)
	defer log.SetDefault(loud)
	p, err := tc.NewDockerProvider(tc.WithLogger(quiet), tc.WithDefaultBridgeNetwork(noNetwork))
	if err != nil {
		return nil, err
	}
	own, err := client.New(client.WithHost("unix://" + socket))
	if err != nil {
		return nil, err
	}
	p.SetClient(shared{own})
	return p, nil
}

// shared is a client of several goroutines. testcontainers-go closes its idle
// connections after each call, which breaks a request of another goroutine that is
// about to take one.
type shared struct{ client.APIClient }

// Close leaves the connections: they end with the engine.
func (shared) Close() error { return nil }
