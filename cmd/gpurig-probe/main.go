// Command gpurig-probe says what a container sees, from inside it.
//
// Without arguments it reads requests from standard input, one JSON text each,
// and answers each with a line of JSON. "gpurig-probe init DIR" is the first
// process of a container: it answers on the socket in DIR. "nested PROGRAM" runs a
// program in a container of its own, and ends as that does. It is built static, as a
// container need not have a loader.
//
// On the host it is the helper process of the targets: "keep" holds a mount
// namespace, "pidns" a process namespace in it, "join" changes the mounts of a
// running container, and "amend" is an engine's OCI runtime. "machine" is the first
// process of a virtual machine.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"gpurig/core/show"
	"gpurig/runner/observe/guest"
	"gpurig/runner/observe/inside"
	"gpurig/runner/target/agent"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		show.Fprintf(os.Stderr, "gpurig-probe: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 0:
		if err := inside.Guard(inside.View{}, os.Environ()); err != nil {
			return err
		}
		return inside.Serve(inside.View{}, os.Stdin, os.Stdout)
	case len(args) == 2 && args[0] == "init":
		return inside.Init(inside.View{}, args[1])
	case len(args) > 1 && args[0] == "nested":
		return inside.Nested(args[1:])
	case len(args) == 4 && args[0] == "keep":
		return agent.Keep(agent.Setup{Cgroup: args[1], Scratch: args[2], Runtime: args[3]}, os.Stdin, os.Stdout)
	case len(args) == 2 && args[0] == "pidns":
		return agent.PIDNS(args[1], os.Stdin, os.Stdout)
	case len(args) == 1 && args[0] == "join":
		var c agent.Change
		if err := json.NewDecoder(os.Stdin).Decode(&c); err != nil {
			return fmt.Errorf("join: %w", err)
		}
		return agent.Join(c)
	case len(args) > 3 && args[0] == "amend":
		return agent.Amend(args[1], args[2], args[3:])
	case len(args) == 1 && args[0] == "machine":
		return guest.Init()
	default:
		return fmt.Errorf("want no arguments or \"init DIR\", got %q", args)
	}
}
