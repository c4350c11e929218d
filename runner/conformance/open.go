package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// consumers are those that are known, in the order of reports.
var consumers = []struct {
	name string
	open func(ctx context.Context) (Consumer, error)
}{
	{"library", func(context.Context) (Consumer, error) { return Library() }},
	{"gpurig", func(context.Context) (Consumer, error) { return product{}, nil }},
	{"docker", Docker},
	{"podman", func(context.Context) (Consumer, error) { return Podman() }},
	{"nvidia", func(context.Context) (Consumer, error) { return NVIDIA() }},
}

// Names are those of the consumers that Open knows.
func Names() []string {
	var out []string
	for _, c := range consumers {
		out = append(out, c.name)
	}
	return out
}

// Open opens a consumer by its name. The error is a *Missing where it is not at hand.
func Open(ctx context.Context, name string) (Consumer, error) {
	for _, c := range consumers {
		if c.name == name {
			return c.open(ctx)
		}
	}
	return nil, fmt.Errorf("consumer %q: want %s", name, strings.Join(slices.Sorted(slices.Values(Names())), ", "))
}
