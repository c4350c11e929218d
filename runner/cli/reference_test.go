package cli_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpurig/core/refuse"
	"gpurig/fakehw/fault"
	"gpurig/fakehw/profiles"
	"gpurig/fixtures/golden"
	"gpurig/fixtures/records"
	"gpurig/runner"
	"gpurig/runner/cli"
	"gpurig/runner/image"
	"gpurig/runner/lxdapi"
	"gpurig/runner/observe"
	"gpurig/runner/smoke"
	"gpurig/runner/target"
	"gpurig/runner/target/docker"
	"gpurig/runner/target/lxc"
	"gpurig/runner/target/lxd"
	"gpurig/runner/target/podman"
	"gpurig/runner/target/sim"
	"gpurig/scenarios"
)

// TestGoldenReference: docs/reference.md says what the program takes. It is generated, by make
// golden, from the schema and the tables that the program itself reads.
func TestGoldenReference(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Reference\n\nGenerated from the program by `make golden`: keys of scenarios, profiles, reports and records, images, faults, targets, reasons and exit codes. " +
		"The commands and their flags are in the manual pages and in the `--help` of each.\n")
	b.WriteString("\n## Keys of a scenario\n\n`NAME`, `PATH` and the like stand for keys that the author chooses; `[]` for each element of a list.\n")
	var root node
	if err := json.Unmarshal(scenarios.Schema, &root); err != nil {
		t.Fatal(err)
	}
	keyTable(&b, root)
	for _, name := range slices.Sorted(maps.Keys(root.Defs)) {
		fmt.Fprintf(&b, "\n### %s\n", name)
		keyTable(&b, root.Defs[name])
	}
	b.WriteString("\n## Keys of a profile\n")
	var profile node
	if err := json.Unmarshal(profiles.Schema, &profile); err != nil {
		t.Fatal(err)
	}
	keyTable(&b, profile)
	b.WriteString("\n## Keys of a JSON report\n\nA report is a `Report`; what may be missing is empty then.\n")
	structs(t, &b, "../../reports/report.go")
	b.WriteString("\n## Lines of a record\n\n| line | columns after it, with tabs between | what |\n|---|---|---|\n")
	var record struct {
		Lines []struct {
			Title   string `json:"title"`
			About   string `json:"description"`
			Columns []node `json:"prefixItems"`
		} `json:"oneOf"`
	}
	if err := json.Unmarshal(records.Schema, &record); err != nil {
		t.Fatal(err)
	}
	for _, l := range record.Lines {
		var columns []string
		for _, c := range l.Columns[1:] {
			columns = append(columns, c.About)
		}
		row(&b, code(l.Title), strings.Join(columns, " "), l.About)
	}
	b.WriteString("\n## Images\n\n| image | what it is |\n|---|---|\n")
	for _, k := range image.Kinds() {
		row(&b, code(k), image.About(k))
	}
	b.WriteString("\n## Faults\n\n| fault | example | is | what is different on such a host |\n|---|---|---|---|\n")
	for _, k := range fault.Kinds() {
		row(&b, code(k.Form), code(k.Example), k.Is, k.Surface)
	}
	b.WriteString("\n## Targets\n\nTargets of one family must agree entry by entry.\n\n| target | containers are | family | limits |\n|---|---|---|---|\n")
	targets := targetTable(t)
	for _, name := range cli.TargetNames() {
		x, ok := targets[name]
		if !ok {
			t.Errorf("target %s is not in the reference: add it to targetTable", name)
		}
		row(&b, code(name), x.about, cmp.Or(x.can.Family, "-"), limits(x.can))
	}
	b.WriteString("\n## Reasons\n\nOf refusals, warnings and notes, for `refused`, `warns` and `noted`.\n\n| reason | meaning |\n|---|---|\n")
	reasons := runner.AllReasons()
	slices.SortStableFunc(reasons, func(a, b refuse.Meaning) int { return cmp.Compare(a.Reason, b.Reason) })
	for _, r := range slices.CompactFunc(reasons, func(a, b refuse.Meaning) bool { return a == b }) {
		row(&b, code(string(r.Reason)), r.Meaning)
	}
	b.WriteString("\n## Exit codes\n\n`gpurig host enter` and `gpurig host mount` with a command have the exit code of that command.\n\n| program | code | means |\n|---|---|---|\n")
	exitCodes(t, &b, "gpurig", "cli.go")
	exitCodes(t, &b, "cdi-hook", "../../hook/hook.go")
	row(&b, code("gpurig-smoke"), "0", "everything passed")
	row(&b, code("gpurig-smoke"), "2", "wrong arguments")
	for _, cause := range slices.SortedFunc(maps.Keys(smoke.ExitCodes), func(a, b smoke.Cause) int { return smoke.ExitCodes[a] - smoke.ExitCodes[b] }) {
		row(&b, code("gpurig-smoke"), fmt.Sprint(smoke.ExitCodes[cause]), string(cause))
	}
	golden.Equal(t, "../../docs/reference.md", []byte(b.String()))
}

// A node is a part of a JSON Schema.
type node struct {
	About      string          `json:"description"`
	Type       any             `json:"type"` // a text, or several
	Enum       []any           `json:"enum"`
	Ref        string          `json:"$ref"`
	Properties map[string]node `json:"properties"`
	Items      *node           `json:"items"`
	Names      *struct {
		Pattern string `json:"pattern"`
	} `json:"propertyNames"`
	Values json.RawMessage `json:"additionalProperties"` // false, or a node
	OneOf  []node          `json:"oneOf"`
	Defs   map[string]node `json:"$defs"`
}

// values are what the keys have that the author chooses; nil: there are none.
func (n node) values() *node {
	var v node
	if n.Values == nil || json.Unmarshal(n.Values, &v) != nil {
		return nil
	}
	return &v
}

func keyTable(b *strings.Builder, n node) {
	b.WriteString("\n| key | value | what |\n|---|---|---|\n")
	keyRows(b, "", n)
}

func keyRows(b *strings.Builder, under string, n node) {
	for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
		p := n.Properties[name]
		row(b, code(under+name), p.kind(), p.About)
		inner, at := p, under+name+"."
		for more := true; more; {
			switch v := inner.values(); {
			case inner.Items != nil:
				inner, at = *inner.Items, strings.TrimSuffix(at, ".")+"[]."
			case v != nil:
				inner, at = *v, at+chosen(inner)+"."
			default:
				more = false
			}
		}
		keyRows(b, at, inner)
	}
}

// chosen is a word for a key that the author chooses.
func chosen(n node) string {
	if n.Names != nil && strings.HasPrefix(n.Names.Pattern, "^/") {
		return "PATH"
	}
	return "NAME"
}

// kind says what a key may have.
func (n node) kind() string {
	switch v := n.values(); {
	case n.Ref != "":
		name := strings.TrimPrefix(n.Ref, "#/$defs/")
		return "[" + name + "](#" + name + ")"
	case n.Enum != nil:
		var words []string
		for _, e := range n.Enum {
			words = append(words, code(fmt.Sprint(e)))
		}
		return strings.Join(words, ", ")
	case n.OneOf != nil:
		var kinds []string
		for _, o := range n.OneOf {
			kinds = append(kinds, o.kind())
		}
		return strings.Join(kinds, " or ")
	case n.Items != nil:
		return "list of " + n.Items.kind()
	case v != nil:
		return "map of " + v.kind()
	}
	if several, ok := n.Type.([]any); ok {
		var words []string
		for _, s := range several {
			words = append(words, fmt.Sprint(s))
		}
		return strings.Join(words, " or ")
	}
	if n.Type == nil {
		return "any"
	}
	return fmt.Sprint(n.Type)
}

// documented targets.
type documentedTarget struct {
	about string
	can   target.Capabilities
}

func targetTable(t *testing.T) map[string]documentedTarget {
	t.Helper()
	must := func(s *sim.Sim, err error) target.Capabilities {
		if err != nil {
			t.Fatal(err)
		}
		return s.Capabilities()
	}
	native := func(f lxdapi.Flavour) target.Capabilities {
		c := lxd.Capabilities(f)
		c.PlanTarget = string(f)
		return c
	}
	dockers := (&docker.Docker{}).Capabilities()
	runc := must(sim.NewOCI(nil, "runc"))
	runc.Simulated = false
	machines := must(sim.New(nil))
	machines.OnlyVMs = true
	booted := machines
	machines.Simulated = false
	return map[string]documentedTarget{
		"sim":          {"simulated, as plain LXC makes them", must(sim.New(nil))},
		"lxc":          {"made by LXC", (&lxc.LXC{}).Capabilities()},
		"sim-lxd":      {"simulated, as LXD and Incus make them", must(sim.NewLXD(nil))},
		"lxd":          {"made by LXD, which carries out the plan", lxd.Capabilities(lxdapi.LXD)},
		"lxd-native":   {"made by LXD, with its own GPU device", native(lxdapi.LXD)},
		"incus":        {"made by Incus, which carries out the plan", lxd.Capabilities(lxdapi.Incus)},
		"incus-native": {"made by Incus, with its own GPU device", native(lxdapi.Incus)},
		"sim-oci":      {"simulated, as an OCI runtime makes them", must(sim.NewOCI(nil, "runc"))},
		"oci":          {"made by runc, or else crun", runc},
		"sim-docker":   {"simulated, as Docker makes them", must(sim.NewEngine(nil, observe.Docker))},
		"docker":       {"made by a Docker engine with the plan's options", dockers},
		"docker-cdi":   {"made by a Docker engine that injects CDI devices itself", dockers},
		"sim-podman":   {"simulated, as Podman makes them", must(sim.NewEngine(nil, observe.Podman))},
		"podman":       {"made by Podman with a CDI Spec of the plan", (&podman.Podman{}).Capabilities()},
		"vfio":         {"virtual machines' monitors, beside simulated containers", machines},
		"qemu":         {"virtual machines that boot, beside simulated containers", booted},
	}
}

// limits says what such a target cannot do, as the program asks it.
func limits(c target.Capabilities) string {
	var out []string
	add := func(when bool, text string) {
		if when {
			out = append(out, text)
		}
	}
	add(!c.Simulated, "needs root")
	add(c.OnlyVMs, "only scenarios with virtual machines")
	add(c.PlanTarget != "", "what differs from "+code(c.PlanTarget)+" has the verdict differ")
	add(!c.Nesting, "`nesting` means nothing to it")
	add(!c.LXCLines && !c.OnlyVMs, "configuration lines of liblxc are not judged")
	add(c.PlainDisks, "of a mount's options only `ro` reaches the container")
	add(c.RootOpensNodes, "no mode keeps a container's root from a node")
	return cmp.Or(strings.Join(out, "; "), "-")
}

// exitCodes writes the constants Exit… of a file, with their comments.
func exitCodes(t *testing.T, b *strings.Builder, program, file string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(f, func(x ast.Node) bool {
		v, ok := x.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(v.Names[0].Name, "Exit") {
			return true
		}
		if value, ok := v.Values[0].(*ast.BasicLit); ok {
			n++
			row(b, code(program), value.Value, cmp.Or(strings.TrimSpace(v.Comment.Text()), "success"))
		}
		return true
	})
	if n < 3 {
		t.Errorf("%s: %d exit codes; the test looked in the wrong place", file, n)
	}
}

// structs writes the fields of a file's types that JSON has, with their comments.
func structs(t *testing.T, b *strings.Builder, file string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(f, func(x ast.Node) bool {
		spec, ok := x.(*ast.TypeSpec)
		if !ok {
			return true
		}
		s, ok := spec.Type.(*ast.StructType)
		if !ok || !spec.Name.IsExported() {
			return false
		}
		fmt.Fprintf(b, "\n### %s\n\n| key | value | what |\n|---|---|---|\n", spec.Name)
		for _, field := range s.Fields.List {
			if field.Tag == nil {
				continue
			}
			tag := reflect.StructTag(strings.Trim(field.Tag.Value, "`"))
			key, _, _ := strings.Cut(tag.Get("json"), ",")
			row(b, code(key), types.ExprString(field.Type), strings.TrimSpace(field.Doc.Text()+field.Comment.Text()))
			n++
		}
		return false
	})
	if n < 40 {
		t.Errorf("%s: %d keys; the test looked in the wrong place", file, n)
	}
}

func code(s string) string { return "`" + s + "`" }

// row writes a row of a table. What is a pattern or an element in angle brackets stays
// text.
func row(b *strings.Builder, cells ...string) {
	for _, c := range cells {
		c = strings.NewReplacer("|", `\|`, "\n", " ").Replace(c)
		if !strings.Contains(c, "`") {
			c = strings.NewReplacer("<", `\<`, "*", `\*`, "_", `\_`, "[]", `\[]`).Replace(c)
		}
		b.WriteString("| " + c + " ")
	}
	b.WriteString("|\n")
}
