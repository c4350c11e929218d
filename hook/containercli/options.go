package containercli

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/legacy"
	"gpurig/core/refuse"
)

// options are the arguments of one call.
type options struct {
	command     string // info, list, configure, help or version
	debug, root string
	loadModules bool
	csv         bool
	libraries   bool
	binaries    bool
	sockets     bool
	firmware    bool
	noCgroups   bool
	pid         int // 0: our own namespaces
	rootfs      string
	request     legacy.Request
}

// ReasonArgument is why a call is refused.
const ReasonArgument refuse.Reason = "container-cli-argument"

// An argument is an option: what it is called, whether it has a value, and what it
// does.
type argument struct {
	short string
	value value
	set   func(o *options, v string) error
}

// A value says whether an option has one.
type value int

const (
	no value = iota
	optional
	required
)

func flag(set func(*options)) argument {
	return argument{set: func(o *options, _ string) error { set(o); return nil }}
}

func text(short string, set func(*options, string)) argument {
	return argument{short: short, value: required, set: func(o *options, v string) error { set(o, v); return nil }}
}

// unneeded is an option that asks for something that holds here anyway.
var unneeded = flag(func(*options) {})

func (a argument) as(short string) argument { a.short = short; return a }

func wants(c legacy.Capability) argument {
	return flag(func(o *options) { o.request.Capabilities = append(o.request.Capabilities, c) })
}

func without(p legacy.Part) argument {
	return flag(func(o *options) { o.request.Omit = append(o.request.Omit, p) })
}

// onlyAll is an option whose one value is "all".
func onlyAll(set func(*options)) argument {
	return argument{value: required, set: func(o *options, v string) error {
		if v != "all" {
			return fmt.Errorf("%q: only \"all\" is supported", v)
		}
		set(o)
		return nil
	}}
}

// global stand before the command.
var global = map[string]argument{
	"--debug":                   text("-d", func(o *options, v string) { o.debug = v }),
	"--load-kmods":              flag(func(o *options) { o.loadModules = true }).as("-k"),
	"--root":                    text("-r", func(o *options, v string) { o.root = v }),
	"--user":                    {short: "-u", value: optional, set: func(*options, string) error { return nil }}, // cdi-hook has least rights anyway
	"--no-pivot":                unneeded.as("-n"),                                                                // no root is changed
	"--no-create-imex-channels": unneeded,                                                                         // no node is made
}

// devices are options of list and configure.
var devices = map[string]argument{
	"--device":      text("-d", func(o *options, v string) { o.request.Devices = append(o.request.Devices, strings.Split(v, ",")...) }),
	"--mig-config":  onlyAll(func(o *options) { o.request.MIGConfig = true }),
	"--mig-monitor": onlyAll(func(o *options) { o.request.MIGMonitor = true }),
	"--compat32":    wants(legacy.Compat32),
	"--imex-channel": {value: required, set: func(o *options, v string) error {
		for _, c := range strings.Split(v, ",") {
			n, err := strconv.ParseUint(c, 10, 16)
			if err != nil {
				return fmt.Errorf("%q: not a channel", c)
			}
			o.request.IMEX = append(o.request.IMEX, int(n))
		}
		return nil
	}},
	"--no-persistenced":  without(legacy.Persistenced),
	"--no-fabricmanager": without(legacy.FabricManager),
	"--no-gsp-firmware":  without(legacy.Firmware),
	"--no-cntlibs":       unneeded, // no library of the image is ever preferred
	"--cuda-compat-mode": {value: required, set: func(_ *options, v string) error { // of libraries of the image too
		if !slices.Contains([]string{"disabled", "ldconfig", "mount"}, v) {
			return fmt.Errorf("%q: want disabled, ldconfig or mount", v)
		}
		return nil
	}},
}

var commands = map[string]map[string]argument{
	"info": {"--csv": flag(func(o *options) { o.csv = true })},
	"list": {
		"--libraries": flag(func(o *options) { o.libraries = true }).as("-l"),
		"--binaries":  flag(func(o *options) { o.binaries = true }).as("-b"),
		"--ipcs":      flag(func(o *options) { o.sockets = true }).as("-i"),
		"--firmwares": flag(func(o *options) { o.firmware = true }).as("-f"),
	},
	"configure": {
		"--pid": {short: "-p", value: required, set: func(o *options, v string) (err error) {
			if o.pid, err = strconv.Atoi(v); err != nil || o.pid < 1 {
				return fmt.Errorf("%q: not a process id", v)
			}
			return nil
		}},
		"--require":    text("-r", func(o *options, v string) { o.request.Require = append(o.request.Require, v) }),
		"--ldconfig":   {short: "-l", value: required, set: func(*options, string) error { return nil }}, // cdi-hook writes the cache itself
		"--compute":    wants(legacy.Compute).as("-c"),
		"--utility":    wants(legacy.Utility).as("-u"),
		"--video":      wants(legacy.Video).as("-v"),
		"--graphics":   wants(legacy.Graphics).as("-g"),
		"--display":    wants(legacy.Display).as("-D"),
		"--ngx":        wants(legacy.NGX).as("-n"),
		"--no-cgroups": flag(func(o *options) { o.noCgroups = true }),
		"--no-devbind": without(legacy.Nodes),
	},
}

// parse reads a command line as argp does: "--device=0", "--device 0", "-d0".
func parse(args []string) (options, error) {
	var o options
	known := global
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		switch {
		case a == "--help" || a == "-?" || a == "--usage":
			return options{command: "help"}, nil
		case (a == "--version" || a == "-V") && o.command == "":
			return options{command: "version"}, nil
		case strings.HasPrefix(a, "-") && a != "-":
			rest, err := o.option(known, a, args)
			if err != nil {
				return options{}, err
			}
			args = rest
		case o.command == "":
			if commands[a] == nil {
				return options{}, wrong(a, "there is no such command").WithHint("The commands are info, list and configure.")
			}
			o.command, known = a, commands[a]
			if a != "info" {
				known = joined(known, devices)
			}
			if a == "list" && len(args) == 0 { // all there is
				o.libraries, o.binaries, o.sockets, o.firmware = true, true, true, true
				o.request.Devices = []string{"all"}
			}
		case o.command == "configure" && o.rootfs == "":
			o.rootfs = a
		default:
			return options{}, wrong(a, "one argument too many")
		}
	}
	switch {
	case o.command == "":
		return options{}, wrong("", "no command").WithHint("The commands are info, list and configure.")
	case o.command == "configure" && (!path.IsAbs(o.rootfs) || path.Clean(o.rootfs) == "/"):
		return options{}, wrong("", "root file system %q: want the absolute path of a container's", o.rootfs)
	}
	if o.rootfs != "" {
		o.rootfs = path.Clean(o.rootfs)
	}
	return o, nil
}

func wrong(where, format string, args ...any) *refuse.Error {
	return refuse.New(ReasonArgument, where, format, args...)
}

// option reads one option, and its value where that stands by itself.
func (o *options) option(known map[string]argument, a string, rest []string) ([]string, error) {
	name, v, given := strings.Cut(a, "=")
	if !strings.HasPrefix(a, "--") {
		name, v, given = a[:2], a[2:], len(a) > 2
		for long, x := range known {
			if x.short == name {
				name = long
			}
		}
	}
	x, ok := known[name]
	switch {
	case !ok:
		return nil, wrong(a, "this option is not supported").WithHint("Supported here are %s.", strings.Join(names(known), " "))
	case given && x.value == no:
		return nil, wrong(a, "this option has no value")
	case !given && x.value == required:
		if len(rest) == 0 {
			return nil, wrong(a, "the value is missing")
		}
		v, rest = rest[0], rest[1:]
	}
	if err := x.set(o, v); err != nil {
		return nil, wrong(name, "%v", err)
	}
	return rest, nil
}

func joined(a, b map[string]argument) map[string]argument {
	out := map[string]argument{}
	for _, m := range []map[string]argument{a, b} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

func names(m map[string]argument) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
