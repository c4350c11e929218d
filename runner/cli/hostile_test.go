package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"gpurig/fakehw/machine/machinetest"
	"gpurig/fakehw/mntns"
	"gpurig/fixtures/hosts"
	"gpurig/reports"
	"gpurig/runner/cli"
	"gpurig/runner/conformance"
)

// evil is what a name of others may have: sequences that a terminal obeys, in their
// forms of seven and of eight bits, a return, a reversed direction; forged is a line
// that could be taken for ours.
const (
	evil   = "\x1b]0;x\x07y\rz\x7f\u009b2J\u202e"
	forged = evil + "\nFORGED: all passed"
)

// raw says what of an output a terminal would obey, or a reader take for ours.
func raw(out string) string {
	if strings.Contains(out, "\nFORGED") {
		return "a line of somebody else's"
	}
	for _, r := range out {
		if r != '\n' && r != '\t' && (r == utf8.RuneError || !strconv.IsPrint(r)) {
			return fmt.Sprintf("%q", r)
		}
	}
	return ""
}

// A walk runs commands on hostile files, and remembers which ran.
type walk struct {
	t     *testing.T
	dir   string
	ran   map[string]int // by command, on files
	shown int            // outputs in which hostile text was, escaped
}

// file writes a hostile file, whose own name is one too.
func (w *walk) file(name string, data []byte) string {
	w.t.Helper()
	p := filepath.Join(w.dir, forged+name)
	if err := os.WriteFile(p, data, 0o644); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// run runs one command line and returns its standard output.
func (w *walk) run(args ...string) (out string, code int) {
	w.t.Helper()
	var o, e bytes.Buffer
	code = cli.Main(w.t.Context(), cli.Streams{In: strings.NewReader(""), Out: &o, Err: &e}, args)
	for name, text := range map[string]string{"standard output": o.String(), "standard error": e.String()} {
		if bad := raw(text); bad != "" {
			w.t.Errorf("%q has %s on %s: %q", args, bad, name, around(text))
		}
		if regexp.MustCompile(`(?i)\\x1b|\\u001b|\\e`).MatchString(text) {
			w.shown++
		}
	}
	if code < 0 || code > cli.ExitBroken {
		w.t.Errorf("%q: exit code %d", args, code)
	}
	for _, leaf := range cli.Leaves() {
		if words := strings.Fields(leaf); len(args) >= len(words) && slices.Equal(args[:len(words)], words) {
			w.ran[leaf]++
		}
	}
	return o.String(), code
}

// around cuts a text to what is around its first raw character.
func around(text string) string {
	i := max(strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !strconv.IsPrint(r) }), strings.Index(text, "\nFORGED"), 0)
	return text[max(0, i-80):min(len(text), i+80)]
}

// A42: whatever a recording, profile, scenario, Spec, policy, report or argument says,
// no command's output has a control character or a line of theirs. A command that is
// added needs a run here.
func TestNothingOfOthersReachesATerminalRaw(t *testing.T) {
	w := &walk{t: t, dir: t.TempDir(), ran: map[string]int{}}
	t.Run("arguments", func(t *testing.T) {
		t.Chdir(w.dir) // init makes what it is told
		w := &walk{t: t, dir: w.dir, ran: map[string]int{}}
		for _, leaf := range cli.Leaves() {
			words := strings.Fields(leaf)
			for _, more := range [][]string{{forged}, {forged, forged}, {"--" + forged}, {"--host", forged}, {"--host", forged + ".txtar"}, {"--output", forged}, {"--report", forged}, {"--target", forged}, {"--fault", forged, "--host", "t4-server"}} {
				w.run(append(slices.Clone(words), more...)...)
			}
		}
		w.run(forged)
		w.run("help", forged)
		w.run("host", forged)
	})
	w.t = t
	w.recordings()
	w.profiles()
	w.scenarios()
	w.specs()
	w.reports()
	w.run("init", filepath.Join(w.dir, forged))
	w.run("schema", forged)
	for _, leaf := range cli.Leaves() {
		if w.ran[leaf] == 0 && !slices.Contains([]string{"host list", "doctor"}, leaf) { // which read nothing that a user names
			t.Errorf("%s is run on no hostile file", leaf)
		}
	}
	if w.shown < 60 {
		t.Errorf("hostile text was seen in %d outputs alone: the files here do not get as far", w.shown)
	}
}

// TestRawIsSeen is the negative control of the test above.
func TestRawIsSeen(t *testing.T) {
	for _, r := range evil {
		if text := "a" + string(r) + "b"; strconv.IsPrint(r) != (raw(text) == "") {
			t.Errorf("raw(%q) = %q", text, raw(text))
		}
	}
	for _, text := range []string{"a\nFORGED: x", "\xff", "\x9b"} {
		if raw(text) == "" {
			t.Errorf("raw(%q) says nothing", text)
		}
	}
}

// recordings has hostile text in each kind of thing that a recording has.
func (w *walk) recordings() {
	text, err := hosts.Text("a100-mig-2g-3g")
	if err != nil {
		w.t.Fatal(err)
	}
	base := filepath.Join(w.dir, "base.txtar")
	if err := os.WriteFile(base, text, 0o644); err != nil {
		w.t.Fatal(err)
	}
	changed := func(name string, change func(*hosts.File)) string {
		f, err := hosts.Parse(name, text)
		if err != nil {
			w.t.Fatal(err)
		}
		change(&f)
		data, err := f.Marshal()
		if err != nil {
			w.t.Fatalf("%s: %v", name, err)
		}
		if i := strings.IndexFunc(string(data), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 }); i >= 0 {
			w.t.Errorf("a recording has a control character: %q", data[max(0, i-60):i+20])
		}
		return w.file(name+".txtar", data)
	}
	inFiles := func(prefix string) func(*hosts.File) {
		return func(f *hosts.File) {
			n := 0
			for i, e := range f.Entries {
				if strings.HasPrefix(e.Path, prefix) && len(e.Data) > 0 && utf8.Valid(e.Data) {
					n++
					f.Entries[i].Data = []byte(strings.ReplaceAll(string(e.Data), "\n", evil+"\n"))
				}
			}
			if n == 0 {
				w.t.Fatalf("no file of the recording begins with %s", prefix)
			}
		}
	}
	add := func(e hosts.Entry) func(*hosts.File) {
		return func(f *hosts.File) { f.Entries = append(f.Entries, e) }
	}
	spec := []byte(hostileSpec(w.t)[0])
	for name, change := range map[string]func(*hosts.File){
		"information": func(f *hosts.File) {
			for i, e := range f.Entries {
				if strings.HasSuffix(e.Path, "/information") {
					f.Entries[i].Data = regexp.MustCompile(`(?m)^(Model|Video BIOS):(.*)$`).ReplaceAll(e.Data, []byte("$1:$2"+evil))
				}
			}
		},
		"nvml": func(f *hosts.File) {
			f.NVML.CUDA += forged
			for i := range f.NVML.Devices {
				d := &f.NVML.Devices[i]
				d.Name, d.VBIOS, d.ComputeCap = d.Name+forged, forged, forged
				for j := range d.MIG.Instances {
					d.MIG.Instances[j].Profile += forged
				}
			}
		},
		"lost":    func(f *hosts.File) { f.NVML.Devices[0] = hosts.Device{Minor: -1, Error: forged, Call: forged} },
		"release": inFiles("/etc/os-release"), "modules": inFiles("/proc/modules"), "cmdline": inFiles("/proc/cmdline"), "kernel": inFiles("/proc/sys/kernel/osrelease"),
		"devices": inFiles("/proc/devices"), "driver": inFiles("/proc/driver/nvidia/version"), "params": inFiles("/proc/driver/nvidia/params"), "caps": inFiles("/proc/driver/nvidia-caps/"),
		"uevent": inFiles("/sys/devices/pci0000:64/0000:64:01.0/0000:65:00.0/uevent"), "ids": inFiles("/sys/devices/pci0000:64/0000:64:01.0/0000:65:00.0/device"), "cache": inFiles("/etc/ld.so.cache"),
		"node":   add(hosts.Entry{Kind: hosts.Char, Path: "/dev/nvidia-caps/" + forged, Mode: 0o666, Major: 236, Minor: 5}),
		"number": add(hosts.Entry{Kind: hosts.Char, Path: "/dev/nvidia7" + forged, Mode: 0o666, Major: 195, Minor: 7}),
		"link":   add(hosts.Entry{Kind: hosts.Symlink, Path: "/etc/" + forged, Target: forged, Mode: 0o777}),
		"file":   add(hosts.Entry{Kind: hosts.Regular, Path: "/proc/" + forged, Data: bytes.Repeat([]byte(forged), 20), Mode: 0o444}),
		"lib":    add(hosts.Entry{Kind: hosts.Library, Path: "/usr/lib/" + forged, SONAME: "libcuda" + forged + ".so.1", Mode: 0o644, Size: 99}),
		"gpu":    add(hosts.Entry{Kind: hosts.Regular, Path: "/proc/driver/nvidia/gpus/" + forged + "/information", Data: []byte("Model: x\n"), Mode: 0o444}),
		"pci":    add(hosts.Entry{Kind: hosts.Regular, Path: "/sys/bus/pci/devices/" + forged + "/vendor", Data: []byte("0x10de\n"), Mode: 0o444}),
		"cdi":    add(hosts.Entry{Kind: hosts.Regular, Path: "/etc/cdi/" + forged + ".json", Data: spec, Mode: 0o644}),
		"policy": add(hosts.Entry{Kind: hosts.Regular, Path: "/etc/gpurig/policy.yaml", Data: []byte(strconv.Quote(forged) + ": [x]\n"), Mode: 0o644}),
	} {
		p := changed(name, change)
		w.sameValues("host", "show", p)
		w.run("host", "show", p, "--records")
		w.run("host", "diff", base, p)
		w.run("policy", "--host", p)
		w.run("translate", "--host", p, "--id", "nvidia.com/gpu=all")
		w.run("translate", "--host", p, "--id", "0", "--to", "oci")
		if mntns.Able() == nil {
			w.run("cdi", "list", "--host", p)
			w.run("cdi", "generate", "--host", p)
			w.run("cdi", "generate", "--host", p, "--format", "json")
		}
		if name == "information" || name == "file" {
			built := filepath.Join(w.dir, name)
			w.run("host", "build", p, built)
			w.run("host", "capture", "--root", built)
			if machinetest.Able() == nil {
				w.run("host", "enter", p, "--", "true")
				w.run("host", "mount", p, filepath.Join(w.dir, forged+"mount"), "--", "true")
			}
		}
	}
	lines := strings.SplitAfter(string(text), "\n")
	for _, i := range []int{0, 1, 2, 5, 6, 20, len(lines) - 3} { // what no recording can have: header, markers, listing, content
		bad := slices.Clone(lines)
		bad[i] = strings.TrimSuffix(bad[i], "\n") + evil + "\n"
		w.run("host", "show", w.file(fmt.Sprintf("line%d.txtar", i), []byte(strings.Join(bad, ""))))
	}
	w.run("host", "fault", forged, "off-bus:0")
	w.run("host", "fault", forged, forged)
}

// sameValues runs a command with --output json and yaml, too, which must say the same.
func (w *walk) sameValues(args ...string) {
	w.t.Helper()
	_, code := w.run(args...)
	var fromJSON, fromYAML any
	asJSON, _ := w.run(append(slices.Clone(args), "--output", "json")...)
	asYAML, _ := w.run(append(slices.Clone(args), "--output", "yaml")...)
	if code == cli.ExitUsage && asJSON == "" && asYAML == "" {
		return // refused
	}
	if err := json.Unmarshal([]byte(asJSON), &fromJSON); err != nil {
		w.t.Errorf("%q: JSON: %v", args, err)
	}
	if err := yaml.Unmarshal([]byte(asYAML), &fromYAML); err != nil {
		w.t.Errorf("%q: YAML: %v in %q", args, err, around(asYAML))
	}
	again, err := json.Marshal(fromYAML)
	if err != nil {
		w.t.Fatal(err)
	}
	was, _ := json.Marshal(fromJSON)
	if string(was) != string(again) {
		w.t.Errorf("%q: JSON and YAML differ:\n%s\n%s", args, was, again)
	}
}

var scalar = regexp.MustCompile(`(: |- |\[|, )([^{}\[\],\n:# ][^{}\[\],\n]*)`)

// mutated returns a YAML text with hostile text in one scalar, for each, and in one
// key, and in a comment.
func mutated(text string) []string {
	var out []string
	for _, at := range scalar.FindAllStringSubmatchIndex(text, -1) {
		value := text[at[4]:at[5]]
		out = append(out, text[:at[4]]+strconv.Quote(strings.Trim(value, `"' `)+forged)+text[at[5]:])
	}
	return append(out, text+strconv.Quote(forged)+": 1\n", "# x"+evil+"\n"+text, text+"\n"+evil)
}

func (w *walk) profiles() {
	text, err := os.ReadFile("../../fakehw/profiles/data/workstation.yaml")
	if err != nil {
		w.t.Fatal(err)
	}
	for i, m := range mutated(string(text)) {
		p := w.file(fmt.Sprintf("profile%d.yaml", i), []byte(m))
		w.sameValues("host", "show", p)
		w.run("host", "diff", "workstation", p)
		w.run("policy", "--host", p)
	}
}

func (w *walk) scenarios() {
	for _, name := range []string{"mig/one-of-two", "refusals/line-break-in-environment"} {
		text, err := os.ReadFile("../../scenarios/" + name + ".yaml")
		if err != nil {
			w.t.Fatal(err)
		}
		for i, m := range mutated(string(text)) {
			p := w.file(fmt.Sprintf("scenario%d.yaml", i), []byte(m))
			w.sameValues("list", p)
			w.run("validate", p)
			w.run("explain", p)
			report := filepath.Join(w.dir, fmt.Sprintf("of%d.json", i))
			if _, code := w.run("run", p, "--report", report); code == cli.ExitUsage {
				continue
			}
			w.run("compare", report, report)
		}
	}
}

// each calls f with a value once for each text in it, keys too, that text replaced.
func each(v any, replace func(string) string, f func()) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			was := v[k]
			if s, ok := was.(string); ok {
				v[k] = replace(s)
				f()
			} else {
				each(was, replace, f)
			}
			delete(v, k)
			v[replace(k)] = was
			f()
			delete(v, replace(k))
			v[k] = was
		}
	case []any:
		for i, was := range v {
			if s, ok := was.(string); ok {
				v[i] = replace(s)
				f()
				v[i] = was
			} else {
				each(was, replace, f)
			}
		}
	}
}

// hostileSpec returns a CDI Spec with hostile text, once in each place.
func hostileSpec(t *testing.T) (out []string) {
	t.Helper()
	var spec any
	if err := json.Unmarshal([]byte(`{"cdiVersion": "0.8.0", "kind": "vendor.com/device", "annotations": {"a": "b"},
		"containerEdits": {"env": ["A=b"], "hooks": [{"hookName": "createContainer", "path": "/bin/x", "args": ["x", "y"], "env": ["B=c"]}]},
		"devices": [{"name": "one", "annotations": {"c": "d"}, "containerEdits": {"env": ["C=d"],
			"deviceNodes": [{"path": "/dev/x", "hostPath": "/dev/null", "type": "c", "permissions": "rw"}],
			"mounts": [{"hostPath": "/usr/lib/x", "containerPath": "/usr/lib/y", "type": "bind", "options": ["ro"]}]}}]}`), &spec); err != nil {
		t.Fatal(err)
	}
	each(spec, func(s string) string { return s + forged }, func() {
		data, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(data))
	})
	return out
}

func (w *walk) specs() {
	for i, text := range hostileSpec(w.t) {
		w.sameValues("cdi", "validate", "--host", "t4-server", w.file(fmt.Sprintf("spec%d.json", i), []byte(text)))
	}
	policy := "drivers: [vfio]\nsources: [/srv/vendor]\nenvironment: [VENDOR_MODE]\nleave-out: [vendor-hook]\n"
	for i, text := range mutated(policy) {
		w.sameValues("policy", "--host", "t4-server", "--policy", w.file(fmt.Sprintf("policy%d.yaml", i), []byte(text)))
	}
}

// reports has hostile text in all of a report at once, and compares and joins it.
func (w *walk) reports() {
	one := func(verdict reports.Verdict) []byte {
		r := reports.Report{Schema: reports.Schema, Tool: forged, Shard: "1/1", Selection: reports.Digest(forged, map[string]string{forged: forged}), Choices: map[string]string{forged: forged}, Complete: true, Notes: []string{forged},
			Machine: reports.Machine{OS: forged + string(verdict), Kernel: forged, Arch: forged, Product: forged, Versions: map[string]string{forged: forged + string(verdict)}}}
		for _, v := range []reports.Verdict{reports.Pass, reports.Fail, reports.Broken, reports.Skip, reports.Differ, verdict} {
			id := fmt.Sprint(len(r.Results))
			r.Results = append(r.Results, reports.Result{Scenario: forged + id, Title: forged, Variant: map[string]string{forged: forged}, Host: forged, Target: forged, Labels: []string{forged},
				Verdict: v, Reason: forged, Evidence: []string{forged}, Notes: []string{forged}, Across: []reports.Agreement{{With: forged, Entries: 3, Agree: 1}},
				Findings: []reports.Finding{{Station: forged, Container: forged, Step: forged, What: forged, Want: forged, Got: forged, Next: forged}},
				Stations: reports.Stations{Host: forged + string(verdict), Spec: forged, Plan: map[string]string{forged: forged + string(verdict)}, Seen: map[string]string{forged: forged}}})
		}
		r.Totals = reports.Count(r.Results)
		data, err := json.Marshal(r)
		if err != nil {
			w.t.Fatal(err)
		}
		return data
	}
	a, b := w.file("pass.json", one(reports.Pass)), w.file("fail.json", one(reports.Fail))
	w.sameValues("compare", a, b)
	w.sameValues("compare", b, a)
	w.sameValues("history", a, b)
	if _, code := w.run("merge", a); code != cli.ExitFailed {
		w.t.Error("merge does not take the hostile report")
	}
	w.run("merge", a, b)
	nodes := filepath.Join(w.dir, "nodes")
	if err := os.MkdirAll(nodes, 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(w.file("node.json", []byte(`[{"name":"lxc","state":"yes"}]`)), filepath.Join(nodes, forged+".json")); err != nil {
		w.t.Fatal(err)
	}
	w.run("ci-matrix", "--for", "slurm", "--nodes", nodes, "--into", filepath.Join(w.dir, "lab"), "dgpu")
	w.run("ci-matrix", "--for", "slurm", "--durations", a, "--into", filepath.Join(w.dir, "lab"), "dgpu")
	w.run("merge", w.file("cut.json", one(reports.Pass)[:900]))
	w.run("merge", w.file("text.json", []byte(forged)))
	table, err := json.Marshal(conformance.Report{Date: forged, Columns: []conformance.Column{{Consumer: forged, Version: forged,
		Results: []conformance.Result{{Case: forged, Field: forged, Note: forged, Outcome: forged, Why: forged}}}}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.run("conformance", "--target", "library", "--with", w.file("table.json", table))
	w.run("conformance", "--target", "library", "--with", w.file("none.json", []byte(forged)))
	r, err := reports.Read(a)
	if err != nil {
		w.t.Fatal(err)
	}
	if s := reports.Summary(r, 0); raw(s) != "" {
		w.t.Errorf("the summary has %s: %q", raw(s), around(s))
	}
}
