package pipeline_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"gpurig/fixtures/golden"
	"gpurig/reports"
	"gpurig/runner/pipeline"
)

// sample has a group for any machine and one for machines of a kind.
func sample() pipeline.Pipeline {
	return pipeline.Pipeline{
		N: 5, Scenarios: 40, Arguments: []string{"--target", "sim,lxc", "--label", "mig && !slow", "--hardware", "hardware"}, Measured: []byte("{}\n"), Hardware: true, Root: true,
		Program: "bin/gpurig", Setup: "make build", Image: "registry.example/gpurig:1", Queue: "lab",
		Groups: []pipeline.Group{
			{Name: "any", First: 1, Last: 2, Features: []string{"lxc"}, Minutes: 60},
			{Name: "nvidia-mig", First: 3, Last: 5, Features: []string{"lxc", "nvidia-mig"}, Minutes: 15, Needy: true},
		},
	}
}

func TestFilesAreGolden(t *testing.T) {
	for _, engine := range pipeline.Engines {
		files, err := sample().Files(engine)
		if err != nil {
			t.Fatal(err)
		}
		var all bytes.Buffer
		for _, f := range files {
			if !strings.Contains(f.Name, "shard-") || strings.Contains(f.Name, "shard-4") { // one is enough
				fmt.Fprintf(&all, "-- %s --\n%s", f.Name, f.Data)
			}
			if f.Exec != bytes.HasPrefix(f.Data, []byte("#!/bin/sh\n")) {
				t.Errorf("%s: executable %v", f.Name, f.Exec)
			}
			if f.Name != pipeline.Durations && !bytes.Contains(f.Data, []byte(pipeline.Mark+" --for "+engine+": ")) {
				t.Errorf("%s for %s does not say who has made it", f.Name, engine)
			}
			sound(t, f)
		}
		golden.Equal(t, "testdata/"+engine+".txtar", all.Bytes())
	}
	if _, err := sample().Files("jenkins"); err == nil {
		t.Error("files for an engine that there is not")
	}
}

// sound checks that a file is read as what it is.
func sound(t *testing.T, f pipeline.File) {
	t.Helper()
	if f.Exec {
		cmd := exec.Command("sh", "-n")
		cmd.Stdin = bytes.NewReader(f.Data)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", f.Name, err, out)
		}
		return
	}
	read := yaml.NewDecoder(bytes.NewReader(f.Data))
	for {
		var v any
		if err := read.Decode(&v); err != nil {
			if err.Error() != "EOF" {
				t.Errorf("%s: %v", f.Name, err)
			}
			return
		}
		if strings.Contains(fmt.Sprint(v), "<no value>") {
			t.Errorf("%s lacks a value", f.Name)
		}
	}
}

// Where every shard's number comes from: each of 1 to N is run once.
func TestEachShardIsRunOnce(t *testing.T) {
	shards := regexp.MustCompile(`--shard \\?"([^/]+)/5@`)
	for engine, numbers := range map[string]func(text string) []string{
		"github": func(text string) (out []string) {
			for _, m := range regexp.MustCompile(`shard: \[([0-9,]+)\]`).FindAllStringSubmatch(text, -1) {
				out = append(out, strings.Split(m[1], ",")...)
			}
			return out
		},
		"slurm": func(text string) (out []string) {
			for _, m := range regexp.MustCompile(`(?m)^array ([0-9]+)-([0-9]+) `).FindAllStringSubmatch(text, -1) {
				out = append(out, numbered(m[1], m[2])...)
			}
			return out
		},
		"gitlab": func(text string) (out []string) {
			for _, m := range regexp.MustCompile(`(?s)parallel: ([0-9]+).*?CI_NODE_INDEX \+ ([0-9]+)`).FindAllStringSubmatch(text, -1) {
				out = append(out, counted(m[1], m[2], 1)...)
			}
			return out
		},
		"kubernetes": func(text string) (out []string) {
			for _, m := range regexp.MustCompile(`(?s)completions: ([0-9]+).*?JOB_COMPLETION_INDEX \+ ([0-9]+)`).FindAllStringSubmatch(text, -1) {
				out = append(out, counted(m[1], m[2], 0)...)
			}
			return out
		},
		"testflinger": nil, "lava": nil, // which have a file for each
	} {
		files, err := sample().Files(engine)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range files {
			if numbers != nil {
				got = append(got, numbers(string(f.Data))...)
				continue
			}
			for _, m := range shards.FindAllStringSubmatch(string(f.Data), -1) {
				got = append(got, m[1])
			}
		}
		if slices.Sort(got); !slices.Equal(got, numbered("1", "5")) {
			t.Errorf("%s runs shards %q", engine, got)
		}
	}
}

func numbered(first, last string) []string {
	var a, b int
	fmt.Sscan(first, &a)
	fmt.Sscan(last, &b)
	var out []string
	for ; a <= b; a++ {
		out = append(out, fmt.Sprint(a))
	}
	return out
}

// counted are n numbers: the first index plus an offset.
func counted(n, offset string, index int) []string {
	var count, from int
	fmt.Sscan(n, &count)
	fmt.Sscan(offset, &from)
	return numbered(fmt.Sprint(from+index), fmt.Sprint(from+index+count-1))
}

// The published schemas say whether GitHub and GitLab take the files: GPURIG_SCHEMAS is a
// folder with github-workflow.json of SchemaStore and GitLab's ci.json.
func TestFilesAreOfThePublishedSchemas(t *testing.T) {
	dir := os.Getenv("GPURIG_SCHEMAS")
	if dir == "" {
		t.Skip("GPURIG_SCHEMAS names no folder with the published schemas")
	}
	for engine, schema := range map[string]string{"github": "github-workflow.json", "gitlab": "ci.json"} {
		s, err := jsonschema.NewCompiler().Compile(filepath.Join(dir, schema))
		if err != nil {
			t.Fatal(err)
		}
		files, err := sample().Files(engine)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			var v any
			if f.Name == pipeline.Durations {
				continue
			}
			if err := yaml.Unmarshal(f.Data, &v); err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(v); err != nil {
				t.Errorf("%s: %v", f.Name, err)
			}
			jobs := v.(map[string]any)
			if engine == "github" {
				jobs = jobs["jobs"].(map[string]any)
			}
			for name, job := range jobs { // the negative control: a key that no job has
				job.(map[string]any)["shards"] = 3
				if s.Validate(v) == nil {
					t.Errorf("%s: the schema takes a job %s with an unknown key", schema, name)
				}
				break
			}
		}
	}
}

// labs are engines whose client is a program: it runs here what the lab's machine would.
var labs = []struct {
	engine string
	client func(b *bench)
}{
	{"testflinger", func(b *bench) {
		b.program("ssh", `while [ "${1#-o}" != "$1" ]; do shift 2; done; shift; cd "$HOME" && exec sh -c "$*"`)
		b.program("sudo", `exec "$@"`)
		b.program("testflinger-cli", `
case $1 in
submit)
	shift $(($# - 1))
	id=$(basename "$1" .yaml)-$$
	mkdir -p "jobs/$id/attachments/test" "jobs/$id/device"
	cp gpurig-kit.tar.gz gpurig-durations.json "jobs/$id/attachments/test"
	sed -n '/^  test_cmds: |/,$ s/^    //p' "$1" >"jobs/$id/cmds"
	echo "$id" ;;
poll)
	. "$PWD/lost"
	cd "jobs/$2" && DEVICE_IP=192.0.2.1 HOME=$PWD/device sh cmds ;;
artifacts)
	[ -d "jobs/$4/artifacts" ] && tar -C "jobs/$4" -czf "$3" artifacts ;;
esac`)
		b.must("sh", "-c", "mkdir -p kit/bin && cp programs/gpurig kit/bin && tar -czf gpurig-kit.tar.gz kit")
	}},
	{"lava", func(b *bench) {
		b.program("lava-test-case", `echo "<LAVA_SIGNAL_TESTCASE $*>"`)
		b.program("lavacli", `
case "$1 $2" in
"jobs submit")
	id=$(basename "$3" .yaml)-$$
	mkdir -p "jobs/$id"
	cp "$3.steps" "jobs/$id/steps"
	echo "$id" ;;
"jobs wait")
	set -- x "$3"
	. "$PWD/lost"
	cd "jobs/$2" && sh steps >log 2>&1 || true ;;
"jobs logs") sed 's/.*/- {"lvl": "target", "msg": "&"}/' "jobs/$4/log" ;;
esac`)
	}},
}

// A lab's machines run their shards and one is lost: its shard is submitted again, and
// the report has each result once.
func TestLabs(t *testing.T) {
	for _, lab := range labs {
		t.Run(lab.engine, func(t *testing.T) {
			b := newBench(t)
			b.must("gpurig", "run", "--report", "last.json", "dgpu", "ids")
			lab.client(b)
			b.must("gpurig", "ci-matrix", "--for", lab.engine, "--shards", "3", "--durations", "last.json", "--timeout", "90s", "dgpu", "ids")
			if lab.engine == "lava" {
				for k := 1; k <= 3; k++ {
					b.write(fmt.Sprintf("shard-%d.yaml.steps", k), steps(t, filepath.Join(b.dir, fmt.Sprintf("shard-%d.yaml", k))))
				}
			}
			b.write("lost", `case $2 in shard-2-*) [ -e first ] || { touch first; exit 1; } ;; esac`+"\n")
			out := b.must("env", "GPURIG_OUT=out", "sh", "submit.sh")
			if !strings.Contains(out, " 0 failed, 0 broken, 0 skipped in ") {
				t.Errorf("it says:\n%s", out)
			}
			all, whole := read(t, b, "out/all.json"), read(t, b, "last.json")
			if !all.Complete || all.Totals != whole.Totals {
				t.Errorf("complete %v, %+v; want %+v", all.Complete, all.Totals, whole.Totals)
			}
			if _, err := os.Stat(filepath.Join(b.dir, "out/part-2-2.json")); err != nil {
				t.Error("the lost shard was not submitted again:", err)
			}
			if !read(t, b, "last-green.json").Complete {
				t.Error("the green run is not kept")
			}

			// A machine that is always lost leaves its shard missing, which is no green run.
			b.write("lost", `case $2 in shard-2-*) exit 1 ;; esac`+"\n")
			out, code := b.run("env", "GPURIG_OUT=out2", "sh", "submit.sh")
			if code != 3 || !strings.Contains(out, "shard 2 has no whole report after 3 attempts") || !strings.Contains(out, "note: shard 2/3 is missing") {
				t.Errorf("exit code %d; it says:\n%s", code, out)
			}
		})
	}
}

func read(t *testing.T, b *bench, name string) reports.Report {
	t.Helper()
	r, err := reports.Read(filepath.Join(b.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// steps are those of the test of a LAVA job, as a script.
func steps(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var job struct {
		Actions []struct {
			Test struct {
				Definitions []struct {
					Repository struct{ Run struct{ Steps []string } }
				}
			}
		}
	}
	if err := yaml.Unmarshal(data, &job); err != nil {
		t.Fatal(err)
	}
	return strings.Join(job.Actions[len(job.Actions)-1].Test.Definitions[0].Repository.Run.Steps, "\n") + "\n"
}
