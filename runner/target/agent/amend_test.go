package agent_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/runner/target/agent"
)

// The test binary is the runtime's stand-in too: Amend becomes another program,
// so each call is a process.
func TestMain(m *testing.M) {
	if dir := os.Getenv("GPURIG_TEST_AMEND"); dir != "" {
		if err := agent.Amend(dir, "/bin/echo", os.Args[1:]); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0) // nothing was run
	}
	os.Exit(m.Run())
}

// config is what an engine writes, with parts that we know nothing of.
const config = `{"ociVersion":"1.0.2","root":{"path":"/r"},"future":{"big":12345678901234567890},` +
	`"mounts":[{"destination":"/proc","type":"proc","source":"proc"},{"destination":"/l","type":"bind","source":"/s","options":["rbind"],"new":1}],` +
	`"hooks":{"prestart":[{"path":"/engine","timeout":3}]}}`

func TestAmend(t *testing.T) {
	hook := map[string][]agent.Hook{"createContainer": {{Path: "/h", Args: []string{"h", "--root", agent.RootArg}}}}
	for _, tc := range []struct {
		name      string
		args      []string // behind --root and --log
		amendment any      // nil: none is written
		config    string   // empty: the one above
		said      string   // by the runtime; "-": it is not run
		want      []string // in the configuration
		err       string   // also in the runtime's log
	}{
		{name: "none for this container", args: []string{"create", "--bundle", "$B", "c1"}, said: "create", want: []string{config}},
		{name: "a command without a container", args: []string{"--version"}, said: "--version", want: []string{config}},
		{
			name: "hooks and options", args: []string{"create", "--bundle", "$B", "c1"}, said: "create",
			amendment: agent.Amendment{Hooks: hook, Options: map[string][]string{"/l": {"ro", "nosuid"}}, Before: []string{"/bin/true"}},
			want: []string{
				`"prestart":[{"path":"/engine","timeout":3}]`, `"createContainer":[{"path":"/h","args":["h","--root","/r"]}]`,
				`"options":["ro","nosuid"]`, `"new":1`, `12345678901234567890`,
			},
		},
		{name: "not at other commands", args: []string{"start", "c1"}, amendment: agent.Amendment{Hooks: hook}, said: "start", want: []string{config}},
		{name: "delete", args: []string{"delete", "c1"}, amendment: agent.Amendment{}, said: "delete", want: []string{config}},
		{name: "delete after power loss", args: []string{"delete", "c1"}, amendment: agent.Amendment{Lost: true}, said: "-", want: []string{config}},
		{
			name: "a mount that the engine forgot", args: []string{"create", "--bundle=$B", "c1"}, said: "-",
			amendment: agent.Amendment{Options: map[string][]string{"/other": nil}}, err: "1 of 1 mounts are not", want: []string{config},
		},
		{
			name: "what comes before fails", args: []string{"create", "--bundle", "$B", "c1"}, said: "-",
			amendment: agent.Amendment{Before: []string{"/bin/sh", "-c", "echo no root at $0 >&2; exit 3", agent.RootArg}}, err: "no root at /r", want: []string{config},
		},
		{name: "no amendment", args: []string{"create", "--bundle", "$B", "c1"}, amendment: 7, said: "-", err: "amendment of container c1", want: []string{config}},
		{name: "no bundle", args: []string{"create", "--bundle", "$B/no", "c1"}, amendment: agent.Amendment{}, said: "-", err: "no such file", want: []string{config}},
		{name: "no root", args: []string{"create", "--bundle", "$B", "c1"}, amendment: agent.Amendment{}, config: `{"root":{}}`, said: "-", err: "no absolute path", want: []string{`{"root":{}}`}},
		{name: "no JSON", args: []string{"create", "--bundle", "$B", "c1"}, amendment: agent.Amendment{}, config: `config`, said: "-", err: "invalid character", want: []string{"config"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if tc.config == "" {
				tc.config = config
			}
			write("bundle/config.json", tc.config)
			write("state/c1/state.json", "{}")
			if tc.amendment != nil {
				text, err := json.Marshal(tc.amendment)
				if err != nil {
					t.Fatal(err)
				}
				write("amend/c1.json", string(text))
			}
			args := []string{"--root", filepath.Join(dir, "state"), "--log", filepath.Join(dir, "log")}
			for _, a := range tc.args {
				args = append(args, strings.ReplaceAll(a, "$B", filepath.Join(dir, "bundle")))
			}
			cmd := exec.Command(os.Args[0], args...)
			cmd.Env = append(os.Environ(), "GPURIG_TEST_AMEND="+filepath.Join(dir, "amend"))
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if (err == nil) != (tc.err == "") || !strings.Contains(stderr.String(), tc.err) {
				t.Errorf("%v, %q; want %q", err, stderr.String(), tc.err)
			}
			if ran := strings.Contains(string(out), strings.TrimPrefix(tc.said, "-")) && len(out) > 0; ran != (tc.said != "-") {
				t.Errorf("the runtime says %q; want %q", out, tc.said)
			}
			log, _ := os.ReadFile(filepath.Join(dir, "log")) // none where nothing failed
			if text, _ := json.Marshal(tc.err); !strings.Contains(string(log), strings.Trim(string(text), `"`)) {
				t.Errorf("the runtime's log: %s", log)
			}
			got, err := os.ReadFile(filepath.Join(dir, "bundle/config.json"))
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range tc.want {
				if !strings.Contains(string(got), w) {
					t.Errorf("config.json: %s\nwant %s in it", got, w)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "state/c1")); (err != nil) != (tc.name == "delete after power loss") {
				t.Errorf("the runtime's state: %v", err)
			}
		})
	}
}
