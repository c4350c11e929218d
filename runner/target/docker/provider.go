package docker

import (
	"os"
	"sync"

	"github.com/moby/moby/client"
	tc "github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// noNetwork is the network of every container; the engine has no other.
const noNetwork = "none"

// reading guards the environment while testcontainers-go reads it, which it does
// once in the life of a process.
var reading sync.Mutex

// newProvider returns a provider of containers of one engine. testcontainers-go
// finds the engine of the first in the environment and would give it to all: each
// gets its own client. It also finds there that it has no reaper.
func newProvider(socket string) (*tc.DockerProvider, error) {
	reading.Lock()
	defer reading.Unlock()
	host := "unix://" + socket
	restore := setAll(map[string]string{
		"DOCKER_HOST":                  host,
		"DOCKER_API_VERSION":           "",
		"DOCKER_TLS_VERIFY":            "",
		"DOCKER_CERT_PATH":             "",
		"TESTCONTAINERS_RYUK_DISABLED": "true",
	})
	defer restore()
	quiet := log.NewNoopLogger()
	loud := log.Default()
	log.SetDefault(quiet)
	defer log.SetDefault(loud)
	p, err := tc.NewDockerProvider(tc.WithLogger(quiet), tc.WithDefaultBridgeNetwork(noNetwork))
	if err != nil {
		return nil, err
	}
	own, err := client.New(client.WithHost(host))
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

// setAll sets variables of our own environment until restore is called.
func setAll(vars map[string]string) (restore func()) {
	type was struct {
		value string
		set   bool
	}
	before := map[string]was{}
	for name, value := range vars {
		old, set := os.LookupEnv(name)
		before[name] = was{old, set}
		os.Setenv(name, value) // fails for a malformed name only
	}
	return func() {
		for name, w := range before {
			if w.set {
				os.Setenv(name, w.value)
			} else {
				os.Unsetenv(name)
			}
		}
	}
}
