package translate

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// programs are the names under which the hooks of NVIDIA's toolkit, and ours,
// are called. The kinds below are their words: another program may mean
// something else by them.
var programs = []string{"nvidia-cdi-hook", "nvidia-ctk", "cdi-hook"}

// A flagRule says how a flag of a hook is given. Every flag has a value.
type flagRule struct {
	name   string
	repeat bool
	empty  bool // its value may be empty
}

// grammar returns the flags of a hook kind, as the toolkit's release 1.20 has
// them (cmd/nvidia-cdi-hook). Its flag --container-spec, which changes what the
// hook works on, is left out on purpose.
func grammar(kind string) []flagRule {
	switch kind {
	case "create-symlinks":
		return []flagRule{{name: "link", repeat: true}}
	case "update-ldcache", "create-soname-symlinks":
		return []flagRule{{name: "folder", repeat: true}, {name: "ldconfig-path"}}
	case "chmod":
		return []flagRule{{name: "path", repeat: true}, {name: "mode"}}
	case "enable-cuda-compat":
		return []flagRule{{name: "host-driver-version"}, {name: "host-cuda-version"}, {name: "cuda-compat-container-root"}}
	case "apply-cuda-memory-limits":
		// nvidia-ctk cdi generate without --driver-root, as NVIDIA's own service runs
		// it, writes --driver-root "": the host's root.
		return []flagRule{{name: "driver-root", empty: true}, {name: "gpu-id", repeat: true}}
	}
	return nil
}

// hookKind finds the kind in a hook's arguments: the second word, or the third
// when the second is "hook" (nvidia-ctk). Nowhere else: a kind later in the list
// is a value or a mistake (A34).
func hookKind(program string, args []string) (kind string, rest []string, why string) {
	if !slices.Contains(programs, path.Base(program)) {
		return "", nil, fmt.Sprintf("hooks of program %s are not known; known programs are %s", quote(program), strings.Join(programs, ", "))
	}
	if len(args) > 1 && args[1] == "hook" {
		args = args[1:]
	}
	if len(args) < 2 || args[1] == "" {
		return "", nil, "the arguments name no hook"
	}
	return args[1], args[2:], ""
}

// readFlags reads "--name value" and "--name=value" by the grammar of the kind.
// The values of each flag are in the order given.
func readFlags(kind string, args []string) (map[string][]string, string) {
	rules := grammar(kind)
	values := map[string][]string{}
	for i := 0; i < len(args); i++ {
		name, ok := strings.CutPrefix(args[i], "--")
		if !ok || name == "" {
			return nil, fmt.Sprintf("argument %s is not a flag", quote(args[i]))
		}
		name, value, given := strings.Cut(name, "=")
		at := slices.IndexFunc(rules, func(r flagRule) bool { return r.name == name })
		if at < 0 {
			return nil, fmt.Sprintf("%s has no flag --%s", kind, name)
		}
		if !given {
			if i+1 == len(args) || strings.HasPrefix(args[i+1], "--") {
				return nil, fmt.Sprintf("flag --%s has no value", name)
			}
			i++
			value = args[i]
		}
		if value == "" && !rules[at].empty {
			return nil, fmt.Sprintf("flag --%s has an empty value", name)
		}
		if rules[at].repeat && strings.Contains(value, ",") {
			// The toolkit would split it there.
			return nil, fmt.Sprintf("flag --%s: %s has a comma, which the toolkit reads as two values", name, quote(value))
		}
		if !rules[at].repeat && len(values[name]) > 0 {
			return nil, fmt.Sprintf("flag --%s is there twice", name)
		}
		values[name] = append(values[name], value)
	}
	return values, ""
}
