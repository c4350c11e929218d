package conformance

import (
	"context"
	"errors"
	"fmt"
	"gpurig/core/show"
	"os"
	"path/filepath"
	"strings"
)

// A Consumer creates containers with CDI devices.
type Consumer interface {
	Name() string    // "podman"
	Version() string // "4.3.1"
	// Configure has it create a container with the device of a case, and returns the
	// config.json that its runtime is given. The error is its own answer, or ErrBroken.
	Configure(ctx context.Context, c Case) ([]byte, error)
	Close() error
}

// ErrBroken marks what is no answer of a consumer's.
var ErrBroken = errors.New("could not be found out")

// A Missing is why a consumer is not at hand.
type Missing struct{ Consumer, Why, Hint string }

func (e *Missing) Error() string { return e.Consumer + ": " + e.Why }

// A Result is what one consumer made of one case.
type Result struct {
	Case    string  `json:"case"`
	Field   string  `json:"field"`
	Note    string  `json:"note,omitempty"`
	Outcome Outcome `json:"outcome"`
	Why     string  `json:"why,omitempty"` // the consumer's own words, or what config.json has
}

// A Column is all that is known of one consumer.
type Column struct {
	Consumer string   `json:"consumer"`
	Version  string   `json:"version"`
	Results  []Result `json:"results"` // in the order of the cases
}

// Run asks a consumer for every case.
func Run(ctx context.Context, by Consumer, cases []Case) (Column, error) {
	col := Column{Consumer: by.Name(), Version: by.Version()}
	for _, c := range cases {
		if ctx.Err() != nil {
			return col, context.Cause(ctx)
		}
		r := Result{Case: c.Name, Field: c.Field, Note: c.Note}
		config, err := by.Configure(ctx, c)
		switch {
		case errors.Is(err, ErrBroken):
			r.Outcome, r.Why = Broken, err.Error()
		case err != nil:
			r.Outcome, r.Why = Refused, oneLine(err.Error())
		default:
			r.Outcome, r.Why = c.Judge(config)
		}
		r.Why = show.Line(r.Why)
		col.Results = append(col.Results, r)
	}
	return col, nil
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// stub writes a program in place of an OCI runtime into dir: it keeps the config.json of
// the container that it is to create, says that it does no more, and fails. It is called
// as a runtime is, which consumers know by its name.
func stub(dir string) (program string, err error) {
	program = filepath.Join(dir, "runc")
	text := fmt.Sprintf(`#!/bin/sh
before= bundle=.
for a; do
	case $a in --bundle=*) bundle=${a#--bundle=} ;; esac
	case $before in --bundle|-b) bundle=$a ;; esac
	before=$a
done
case " $* " in *" create "*) cp "$bundle/config.json" %[1]s/config.json ;; esac
echo "%[2]s" >&2
exit 1
`, dir, stubSays)
	return program, os.WriteFile(program, []byte(text), 0o755)
}

const stubSays = "gpurig: the configuration is kept, and nothing is started"

// taken returns the config.json that the stub kept in dir, and removes it. failed is what
// the consumer said of its end: without a config.json that is its answer.
func taken(dir string, failed error) ([]byte, error) {
	at := filepath.Join(dir, "config.json")
	data, err := os.ReadFile(at)
	if errors.Is(err, os.ErrNotExist) {
		if failed == nil {
			failed = fmt.Errorf("the runtime was not asked for a container: %w", ErrBroken)
		}
		return nil, failed
	}
	if err == nil {
		err = os.Remove(at)
	}
	if err != nil {
		return nil, errors.Join(ErrBroken, err)
	}
	return data, nil
}
