package cdi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	upstream "tags.cncf.io/container-device-interface/pkg/cdi"

	"gpurig/core/cdi"
	"gpurig/core/refuse"
)

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// spec returns a Spec in YAML whose only device has these device node lines.
func nodeSpec(lines string) string {
	return "cdiVersion: 0.5.0\nkind: vendor.com/dev\ndevices:\n- name: a\n  containerEdits:\n    deviceNodes:\n    - " +
		strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n      ") + "\n"
}

const head = "cdiVersion: 0.5.0\nkind: vendor.com/dev\n"
const one = "devices:\n- name: a\n  containerEdits:\n    env: [A=1]\n"

type badSpec struct {
	name, in string
	file     string // default spec.yaml
	reason   refuse.Reason
	where    string // in the message
}

// badSpecs are the cases of TestParseRefuses, which the fuzz target begins with.
func badSpecs() []badSpec {
	return []badSpec{
		{name: "B6 empty", in: "", reason: cdi.ReasonSpecEmpty, where: "spec.yaml: no Spec data"},
		{name: "B6 blank", in: " \n\n", reason: cdi.ReasonSpecEmpty},
		{name: "B6 comment only", in: "# nothing\n", reason: cdi.ReasonSpecEmpty},
		{name: "B6 null", in: "null", reason: cdi.ReasonSpecEmpty},
		{name: "B6 empty list", in: "[]", reason: cdi.ReasonSpecEmpty},
		{name: "B6 document mark", in: "---\n", reason: cdi.ReasonSpecEmpty},
		{name: "B6 empty object", in: "{}", reason: cdi.ReasonSpecEmpty},
		{name: "B6 JSON empty", in: "", file: "s.json", reason: cdi.ReasonSpecEmpty},
		{name: "B6 JSON blank", in: "\n ", file: "s.json", reason: cdi.ReasonSpecEmpty},
		{name: "B6 JSON null", in: "null", file: "s.json", reason: cdi.ReasonSpecEmpty},
		{name: "B6 JSON empty list", in: "[]", file: "s.json", reason: cdi.ReasonSpecEmpty},
		{name: "B6 JSON empty object", in: "{}", file: "s.json", reason: cdi.ReasonSpecEmpty},
		{name: "B6 text", in: "hello", reason: cdi.ReasonSpecType, where: `spec.yaml:1:1: is "hello", want an object`},
		{name: "B9 one byte too many", in: head + one + "#" + strings.Repeat("x", cdi.MaxSpec), reason: cdi.ReasonSpecTooLarge},
		{name: "B9 150,000 values", in: head + one + "containerEdits: {env: [" + strings.Repeat("a=,", 150_000) + "]}", reason: cdi.ReasonSpecTooLarge},
		{name: "B9 too many problems", in: head + "devices: [" + strings.Repeat("1,", 1000) + "]", reason: cdi.ReasonSpecType, where: "and 900 more problems"},
		{name: "B10 alias", in: head + "devices:\n- &a {name: a, containerEdits: {env: [A=1]}}\n- *a\n", reason: cdi.ReasonSpecYAMLFeature, where: "spec.yaml:4:3"},
		{name: "B10 anchor alone", in: head + one + "containerEdits: &x {env: [A=1]}\n", reason: cdi.ReasonSpecYAMLFeature},
		{name: "B10 merge key", in: head + one + "containerEdits: {<<: {env: [A=1]}}\n", reason: cdi.ReasonSpecYAMLFeature},
		{name: "B10 self alias", in: "a: &a [*a]", reason: cdi.ReasonSpecYAMLFeature},
		{name: "B10 alias bomb", in: bomb(), reason: cdi.ReasonSpecYAMLFeature},
		{name: "B11 200,000 brackets", in: strings.Repeat("[", 200_000), reason: cdi.ReasonSpecNesting},
		{name: "B11 YAML block nesting", in: blocks(9000), reason: cdi.ReasonSpecNesting},
		{name: "B11 100,000 JSON objects", in: strings.Repeat(`{"a":`, 100_000), file: "s.json", reason: cdi.ReasonSpecNesting},
		{name: "B11 40 levels", in: strings.Repeat("[", 40) + strings.Repeat("]", 40), reason: cdi.ReasonSpecNesting},
		{name: "B12 crash 1", in: "0: [:!00 \xef", reason: cdi.ReasonSpecEncoding},
		{name: "B12 crash 1 in UTF-8", in: "0: [:!00 \u00ef", reason: cdi.ReasonSpecSyntax},
		{name: "B12 crash 2", in: " \ufeff\n", reason: cdi.ReasonSpecEncoding},
		{name: "B12 crash 3", in: "? ? \"\n\" 0", reason: cdi.ReasonSpecSyntax},
		{name: "B13 containerEdits twice", in: head + one + "containerEdits: {}\ncontainerEdits: {}\n", reason: cdi.ReasonSpecDuplicateKey, where: "spec.yaml:8:1: containerEdits: is written twice, first as \"containerEdits\" on line 7"},
		{name: "B13 path twice", in: nodeSpec("path: /dev/a\npath: /dev/b"), reason: cdi.ReasonSpecDuplicateKey},
		{name: "B13 JSON twice", in: `{"cdiVersion":"0.5.0","kind":"a/b","kind":"a/c","devices":[]}`, file: "s.json", reason: cdi.ReasonSpecDuplicateKey, where: "s.json:1:36: kind"},
		{name: "B13 JSON other case", in: `{"cdiVersion":"0.5.0","kind":"a/b","Kind":"a/c","devices":[]}`, file: "s.json", reason: cdi.ReasonSpecDuplicateKey},
		{name: "B13 case alone is unknown", in: "CdiVersion: 0.5.0\n", reason: cdi.ReasonSpecUnknownField},
		{name: "B14 second document", in: head + one + "---\ncdiVersion: 0.5.0\n", reason: cdi.ReasonSpecDocuments},
		{name: "B14 empty second document", in: head + one + "---\n", reason: cdi.ReasonSpecDocuments},
		{name: "B14 JSON after JSON", in: `{"kind":"a/b"} {"kind":"a/c"}`, file: "s.json", reason: cdi.ReasonSpecDocuments},
		{name: "B15 unknown field", in: head + one + "deviceCgroupRules: []\n", reason: cdi.ReasonSpecUnknownField, where: "spec.yaml:7:1: deviceCgroupRules"},
		{name: "B15 misspelt field", in: head + one + "continerEdits: {}\n", reason: cdi.ReasonSpecUnknownField},
		{name: "B15 pattern", in: nodeSpec("path: /dev/dri/card*"), reason: cdi.ReasonSpecPath, where: "spec.yaml:7:13: devices[0].containerEdits.deviceNodes[0].path"},
		{name: "B16 version missing", in: "kind: a/b\n" + one, reason: cdi.ReasonSpecMissingField, where: "cdiVersion: is missing"},
		{name: "B16 version empty", in: "cdiVersion: ''\nkind: a/b\n" + one, reason: cdi.ReasonSpecVersion},
		{name: "B16 version of the future", in: "cdiVersion: 9.9.9\nkind: a/b\n" + one, reason: cdi.ReasonSpecVersion},
		{name: "B16 v1", in: "cdiVersion: v1\nkind: a/b\n" + one, reason: cdi.ReasonSpecVersion},
		{name: "B16 a number", in: "cdiVersion: 0.6\nkind: a/b\n" + one, reason: cdi.ReasonSpecVersion, where: `is "0.6", want a version from 0.3.0`},
		{name: "B16 0.3.0 with netDevices", in: "cdiVersion: 0.3.0\nkind: a/b\ndevices:\n- name: a\n  containerEdits: {netDevices: [{hostInterfaceName: e, name: f}]}\n",
			reason: cdi.ReasonSpecVersion, where: `is "0.3.0", but devices[0].containerEdits.netDevices needs 1.1.0`},
		{name: "B17 null name", in: head + "devices:\n- name: null\n  containerEdits: {env: [A=1]}\n", reason: cdi.ReasonSpecNull},
		{name: "B17 quoted number", in: nodeSpec(`path: /dev/a
major: "195"`), reason: cdi.ReasonSpecType, where: "is the text \"195\""},
		{name: "B17 hexadecimal number", in: nodeSpec("path: /dev/a\nmajor: 0xc3\nminor: 0"), reason: cdi.ReasonSpecType},
		{name: "B17 exponent", in: nodeSpec("path: /dev/a\nmajor: 1e2\nminor: 0"), reason: cdi.ReasonSpecType},
		{name: "B17 octal major", in: nodeSpec("path: /dev/a\nmajor: 0303\nminor: 0"), reason: cdi.ReasonSpecType},
		{name: "B17 decimal mode 666 (octal-vs-decimal)", in: nodeSpec("path: /dev/a\nfileMode: 666"), reason: cdi.ReasonSpecMode, where: "mode 01232: above 0777"},
		{name: "B17 mode 01777", in: nodeSpec("path: /dev/a\nfileMode: 01777"), reason: cdi.ReasonSpecMode},
		{name: "B17 binary", in: nodeSpec("path: !!binary L2Rldi9h"), reason: cdi.ReasonSpecYAMLFeature},
		{name: "B17 tag", in: nodeSpec("path: !!str /dev/a"), reason: cdi.ReasonSpecYAMLFeature},
		{name: "B18 UTF-16", in: "\xff\xfec\x00d\x00", reason: cdi.ReasonSpecEncoding, where: "UTF-16"},
		{name: "B18 lone byte", in: head + "# \xff\n" + one, reason: cdi.ReasonSpecEncoding, where: "spec.yaml:3:3: the byte 0xff"},
		{name: "B18 NUL", in: head + "# \x00\n" + one, reason: cdi.ReasonSpecEncoding},
		{name: "B18 tab indent", in: "a:\n\tb: c\n", reason: cdi.ReasonSpecSyntax, where: "spec.yaml:2"},
		{name: "B18 line separator", in: head + "# \u2028\n" + one, reason: cdi.ReasonSpecEncoding, where: "U+2028"},
		{name: "B18 bidi in a path", in: nodeSpec("path: /dev/\u202ea"), reason: cdi.ReasonSpecEncoding, where: "U+202E"},
		{name: "B18 escaped control character", in: nodeSpec(`path: "/dev/a\u0001"`), reason: cdi.ReasonSpecEncoding, where: "U+0001"},
		{name: "B18 escaped line feed", in: head + "devices:\n- name: a\n  containerEdits: {env: [\"A=1\\nB=2\"]}\n", reason: cdi.ReasonSpecEncoding},
		{name: "B18 JSON lone surrogate", in: `{"cdiVersion":"0.5.0","kind":"a/\ud800","devices":[]}`, file: "s.json", reason: cdi.ReasonSpecEncoding},
		{name: "B18 carriage return alone", in: "a: b\rc: d", reason: cdi.ReasonSpecEncoding},
		{name: "B19 kind without class", in: "cdiVersion: 0.5.0\nkind: vendor.com\n" + one, reason: cdi.ReasonSpecName},
		{name: "B19 dots as a vendor", in: "cdiVersion: 0.5.0\nkind: ../x\n" + one, reason: cdi.ReasonSpecName},
		{name: "B19 device name", in: head + "devices:\n- name: a=b\n  containerEdits: {env: [A=1]}\n", reason: cdi.ReasonSpecName, where: "spec.yaml:4:9: devices[0].name"},
		{name: "B20 device twice in one file", in: head + one + "- name: a\n  containerEdits: {env: [A=1]}\n", reason: cdi.ReasonSpecDuplicateDevice},
		{name: "B21 null device", in: head + "devices: [null]\n", reason: cdi.ReasonSpecNull, where: "devices[0]: is null"},
		{name: "B21 null node", in: head + "devices:\n- name: a\n  containerEdits: {deviceNodes: [~]}\n", reason: cdi.ReasonSpecNull},
		{name: "B21 null mount", in: head + one + "containerEdits: {mounts: [null]}\n", reason: cdi.ReasonSpecNull},
		{name: "B21 null hook", in: head + one + "containerEdits: {hooks: [null]}\n", reason: cdi.ReasonSpecNull},
		{name: "B21 null edits", in: head + one + "containerEdits: null\n", reason: cdi.ReasonSpecNull},
		{name: "B21 null option", in: head + one + "containerEdits: {mounts: [{hostPath: /a, containerPath: /a, options: [~]}]}\n", reason: cdi.ReasonSpecNull},
		{name: "B21 JSON null node", in: `{"cdiVersion":"0.5.0","kind":"a/b","devices":[{"name":"a","containerEdits":{"deviceNodes":[null]}}]}`, file: "s.json", reason: cdi.ReasonSpecNull},
		{name: "B22 major -1", in: nodeSpec("path: /dev/a\nmajor: -1\nminor: 0"), reason: cdi.ReasonSpecNumber, where: `"-1", want 0 to 4095`},
		{name: "B22 major 4096", in: nodeSpec("path: /dev/a\nmajor: 4096\nminor: 0"), reason: cdi.ReasonSpecNumber},
		{name: "B22 major 2^31", in: nodeSpec("path: /dev/a\nmajor: 2147483648\nminor: 0"), reason: cdi.ReasonSpecNumber},
		{name: "B22 major 2^63", in: nodeSpec("path: /dev/a\nmajor: 9223372036854775808\nminor: 0"), reason: cdi.ReasonSpecNumber},
		{name: "B22 minor -1", in: nodeSpec("path: /dev/a\nmajor: 1\nminor: -1"), reason: cdi.ReasonSpecNumber},
		{name: "B22 minor 2^20", in: nodeSpec("path: /dev/a\nmajor: 1\nminor: 1048576"), reason: cdi.ReasonSpecNumber},
		{name: "B22 minor 99999999999", in: nodeSpec("path: /dev/a\nmajor: 1\nminor: 99999999999"), reason: cdi.ReasonSpecNumber},
		{name: "B22 minor 1.5", in: nodeSpec("path: /dev/a\nmajor: 1\nminor: 1.5"), reason: cdi.ReasonSpecType},
		{name: "B22 uid 2^32", in: nodeSpec("path: /dev/a\nuid: 4294967296"), reason: cdi.ReasonSpecNumber},
		{name: "B23 minor alone", in: nodeSpec("path: /dev/a\nminor: 1"), reason: cdi.ReasonSpecNumber, where: "is 1 without a major"},
		{name: "B24 type C", in: nodeSpec("path: /dev/a\ntype: C"), reason: cdi.ReasonSpecNodeType},
		{name: "B24 type cc", in: nodeSpec("path: /dev/a\ntype: cc"), reason: cdi.ReasonSpecNodeType},
		{name: "B24 FIFO", in: nodeSpec("path: /dev/a\ntype: p"), reason: cdi.ReasonSpecNodeType},
		{name: "B24 rwx", in: nodeSpec("path: /dev/a\npermissions: rwx"), reason: cdi.ReasonSpecPermissions},
		{name: "B24 RW", in: nodeSpec("path: /dev/a\npermissions: RW"), reason: cdi.ReasonSpecPermissions},
		{name: "B24 rrr", in: nodeSpec("path: /dev/a\npermissions: rrr"), reason: cdi.ReasonSpecPermissions},
		{name: "B24 space", in: nodeSpec("path: /dev/a\npermissions: ' rw'"), reason: cdi.ReasonSpecPermissions},
		{name: "B25 relative node", in: nodeSpec("path: nvidia0"), reason: cdi.ReasonSpecPath},
		{name: "B25 node with ..", in: nodeSpec("path: /dev/../etc/x"), reason: cdi.ReasonSpecPath},
		{name: "B25 host node with //", in: nodeSpec("path: /dev/a\nhostPath: /dev//a"), reason: cdi.ReasonSpecPath},
		{name: "B33 bare variable", in: head + one + "containerEdits: {env: [PATH]}\n", reason: cdi.ReasonSpecEnv},
		{name: "B37 unknown hook", in: head + one + "containerEdits: {hooks: [{hookName: createMagic, path: /x}]}\n", reason: cdi.ReasonSpecHook},
		{name: "no devices", in: head + "devices: []\n", reason: cdi.ReasonSpecNoDevices},
		{name: "no edits", in: head + "devices:\n- name: a\n  containerEdits: {}\n", reason: cdi.ReasonSpecNoEdits},
		{name: "bad annotation", in: "cdiVersion: 0.6.0\nkind: a/b\nannotations: {'a b': c}\n" + one, reason: cdi.ReasonSpecAnnotation},
		{name: "bad class of service", in: "cdiVersion: 0.7.0\nkind: a/b\ncontainerEdits: {intelRdt: {closID: a/b}}\n" + one, reason: cdi.ReasonSpecRDT},
		{name: "not a boolean", in: "cdiVersion: 1.1.0\nkind: a/b\ncontainerEdits: {intelRdt: {enableMonitoring: yes}}\n" + one, reason: cdi.ReasonSpecType},
		{name: "network device twice", in: "cdiVersion: 1.1.0\nkind: a/b\ncontainerEdits: {netDevices: [{hostInterfaceName: e, name: f}, {hostInterfaceName: e, name: g}]}\n" + one, reason: cdi.ReasonSpecNetDevice},
		{name: "empty mount path", in: head + one + "containerEdits: {mounts: [{hostPath: '', containerPath: /a}]}\n", reason: cdi.ReasonSpecMissingField},
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range badSpecs() {
		t.Run(tc.name, func(t *testing.T) {
			file := tc.file
			if file == "" {
				file = "spec.yaml"
			}
			spec, err := cdi.Parse([]byte(tc.in), file)
			if spec != nil || !errors.Is(err, tc.reason) {
				t.Fatalf("Parse = %v, %v; want no Spec and the reason %q", spec, err, tc.reason)
			}
			for _, e := range refuse.As(err) {
				if !strings.HasPrefix(e.Error(), file) || strings.Contains(e.Error(), "\n") {
					t.Errorf("%q is no line that begins with the file's name", e)
				}
			}
			if !strings.Contains(err.Error(), tc.where) {
				t.Errorf("Parse: %v; want it to say %q", err, tc.where)
			}
		})
	}
}

func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 11; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9))
	}
	return b.String()
}

// blocks nests n block sequences on one line each, which brackets do not count.
func blocks(n int) string { return strings.Repeat("- ", n) + "a" }

func TestParseReadsYAMLAndJSONAlike_B17_B18(t *testing.T) {
	want := read(t, "gpu.yaml")
	spec, err := cdi.Parse([]byte(want), "gpu.yaml")
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := cdi.Marshal(spec, cdi.JSON)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"as written":         want,
		"byte order mark":    "\ufeff" + want,
		"CRLF":               strings.ReplaceAll(want, "\n", "\r\n"),
		"document mark":      "---\n" + want,
		"JSON":               string(asJSON),
		"JSON with a mark":   "\ufeff" + string(asJSON),
		"comment in the end": want + "# end\n",
	} {
		t.Run(name, func(t *testing.T) {
			for _, file := range []string{"a", map[bool]string{true: "a.json", false: "a.yaml"}[strings.HasPrefix(name, "JSON")]} {
				got, err := cdi.Parse([]byte(text), file)
				if err != nil {
					t.Fatal(err)
				}
				if again, _ := cdi.Marshal(got, cdi.JSON); string(again) != string(asJSON) {
					t.Errorf("Parse of the %s text gives\n%s\nwant\n%s", name, again, asJSON)
				}
			}
		})
	}
	if d := spec.Devices[0]; d.Name != "0" || *d.ContainerEdits.DeviceNodes[0].FileMode != 0o666 {
		t.Errorf("device 0 reads as %+v", d)
	}
}

func TestParseReadsModesTheDocumentedWay_B17(t *testing.T) {
	for _, tc := range []struct{ text, file string }{{"0666", "a.yaml"}, {"0o666", "a.yaml"}, {"438", "a.yaml"}, {"438", "a.json"}} {
		in := nodeSpec("path: /dev/a\nfileMode: " + tc.text)
		if tc.file == "a.json" {
			in = `{"cdiVersion":"0.5.0","kind":"vendor.com/dev","devices":[{"name":"a","containerEdits":{"deviceNodes":[{"path":"/dev/a","fileMode":` + tc.text + `}]}}]}`
		}
		spec, err := cdi.Parse([]byte(in), tc.file)
		if err != nil || *spec.Devices[0].ContainerEdits.DeviceNodes[0].FileMode != 0o666 {
			t.Errorf("fileMode: %s in %s reads as %v, %v; want 0666", tc.text, tc.file, spec, err)
		}
	}
}

func TestParseKeepsTheTextOfNames_B17(t *testing.T) {
	for _, name := range []string{"0", "0x10", "1e3", "no", "2024-01-01", "007", "true", "1_000", "0o17"} {
		in := strings.Replace(head+one, "name: a", "name: "+name, 1)
		spec, err := cdi.Parse([]byte(in), "a.yaml")
		if err != nil || spec.Devices[0].Name != name {
			t.Errorf("name: %s reads as %v, %v", name, spec, err)
		}
	}
}

func TestParseKeepsMinorZero_B23_minor_zero_unset(t *testing.T) {
	for in, want := range map[string][2]int64{
		"path: /dev/a\nmajor: 195\nminor: 0": {195, 0},
		"path: /dev/a\nmajor: 195":           {195, 0}, // as NVIDIA's toolkit writes it
		"path: /dev/a\nmajor: 0\nminor: 0":   {0, 0},
		"path: /dev/a":                       {0, 0},
	} {
		spec, err := cdi.Parse([]byte(nodeSpec(in)), "a.yaml")
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if n := spec.Devices[0].ContainerEdits.DeviceNodes[0]; [2]int64{n.Major, n.Minor} != want {
			t.Errorf("%q reads as %d:%d, want %v", in, n.Major, n.Minor, want)
		}
	}
}

func TestParseSaysEverythingAtOnce(t *testing.T) {
	_, err := cdi.Parse([]byte(read(t, "many-mistakes.yaml")), "many-mistakes.yaml")
	var got []string
	for _, e := range refuse.As(err) {
		got = append(got, string(e.Reason)+" "+e.Error())
	}
	want := strings.Split(strings.TrimSpace(read(t, "many-mistakes.txt")), "\n")
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("Parse says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestParseRefusesEveryCutOfJSON_B8(t *testing.T) {
	spec, err := cdi.Parse([]byte(read(t, "gpu.yaml")), "gpu.yaml")
	if err != nil {
		t.Fatal(err)
	}
	data, err := cdi.Marshal(spec, cdi.JSON)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSpace(string(data))
	for i := range len(text) {
		spec, err := cdi.Parse([]byte(text[:i]), "a.json")
		if err == nil || spec != nil {
			t.Fatalf("the first %d of %d bytes are accepted", i, len(text))
		}
		if i > 0 && strings.TrimSpace(text[:i]) != "" && !errors.Is(err, cdi.ReasonSpecSyntax) {
			t.Fatalf("the first %d bytes are refused as %v; want a syntax error", i, err)
		}
	}
}

func TestParseAgreesWithTheCDILibrary(t *testing.T) {
	for _, file := range []string{"gpu.yaml", "everything.yaml"} {
		text := read(t, file)
		ours, err := cdi.Parse([]byte(text), file)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := upstream.ParseSpec([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(ours)
		b, _ := json.Marshal(theirs)
		if string(a) != string(b) {
			t.Errorf("%s: we read\n%s\nthe library reads\n%s", file, a, b)
		}
	}
}

// FuzzParse: no panic (B12), no Spec along with an error, and a Spec that is accepted
// is valid, prints to text that reads back the same, and is read alike by the
// CDI library.
func FuzzParse(f *testing.F) {
	for _, file := range []string{"gpu.yaml", "everything.yaml", "many-mistakes.yaml"} {
		b, err := os.ReadFile("testdata/" + file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
		if spec, err := cdi.Parse(b, file); err == nil {
			asJSON, _ := cdi.Marshal(spec, cdi.JSON)
			f.Add(asJSON, true)
		}
	}
	for _, s := range []string{"", "0: [:!00 \xef", " \ufeff\n", "? ? \"\n\" 0", "a: &a [*a]", "[]", "{\"a\":1,}", "{,}", "[1 2]", "{<<: {}}", "%YAML 1.1\n---\n{}"} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	for _, tc := range badSpecs() {
		if len(tc.in) < 1<<16 {
			f.Add([]byte(tc.in), strings.HasSuffix(tc.file, ".json"))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, isJSON bool) {
		name, format := "a.yaml", cdi.YAML
		if isJSON {
			name, format = "a.json", cdi.JSON
		}
		spec, err := cdi.Parse(data, name)
		if err != nil {
			if spec != nil || errors.Is(err, cdi.ReasonSpecReaderBug) {
				t.Fatalf("Parse = %v, %v", spec, err)
			}
			return
		}
		if isJSON && !json.Valid(data[len(data)-len(strings.TrimPrefix(string(data), "\ufeff")):]) {
			t.Fatal("accepted what is no JSON")
		}
		if p := cdi.Validate(spec); p != nil {
			t.Fatalf("accepted, but Validate says %v", p)
		}
		out, err := cdi.Marshal(spec, format)
		if err != nil {
			t.Fatal(err)
		}
		again, err := cdi.Parse(out, name)
		if err != nil {
			t.Fatalf("its own text is refused: %v\n%s", err, out)
		}
		if out2, _ := cdi.Marshal(again, format); string(out2) != string(out) {
			t.Fatalf("printed\n%s\nthen\n%s", out, out2)
		}
		if _, err := upstream.ParseSpec(out); err != nil {
			t.Fatalf("the CDI library refuses what we print: %v\n%s", err, out)
		}
	})
}
