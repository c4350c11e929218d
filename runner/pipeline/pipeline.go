// Package pipeline writes the files by which an engine that others have made runs the
// shards of one run on many machines: GitHub, GitLab, Slurm, Kubernetes, Testflinger and
// LAVA. The files hold commands of gpurig only, and do not need this package any more.
//
// A shard's report is written whole or not at all, and under a name of its own for each
// attempt. So a machine that is lost, and comes back after another has done its work,
// takes nothing away: gpurig merge counts each result once and names shards that are
// missing.
package pipeline

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template"

	"gpurig/core/show"
)

// Durations is the name of the report by which shards take equally long.
const Durations = "gpurig-durations.json"

// Mark stands in each file that is made, but in Durations.
const Mark = "Made by gpurig ci-matrix"

// A Pipeline is one run on many machines.
type Pipeline struct {
	Groups    []Group
	N         int      // shards of all groups together
	Scenarios int      // variants
	Arguments []string // of gpurig run, which all shards have
	Measured  []byte   // Durations, a report; nil: none
	Hardware  bool     // on the machines' own GPUs
	Root      bool     // real containers are made, which takes root

	Program string // gpurig, as the machines call it
	Setup   string // shell command that makes it available; empty: it is there
	Image   string // of containers that the shards run in: GitLab, Kubernetes
	Queue   string // of Testflinger, or device type of LAVA

	durations string // folder of Durations, with a slash; empty: where the shards run
}

// A Group is shards that want the same kind of machine.
type Group struct {
	Name        string // "nvidia-2-or-more"; "any"
	First, Last int    // shards, from 1
	Features    []string
	Minutes     int  // that a shard may take
	Needy       bool // it needs hardware of a kind, and not only programs
}

// Numbers are those of the group's shards.
func (g Group) Numbers() []int {
	var out []int
	for k := g.First; k <= g.Last; k++ {
		out = append(out, k)
	}
	return out
}

// Count is how many shards it has.
func (g Group) Count() int { return g.Last - g.First + 1 }

// Seconds is the time that a shard may take.
func (g Group) Seconds() int { return 60 * g.Minutes }

// Seconds is the time that each shard has three times, and an hour.
func (p Pipeline) Seconds() int {
	longest := 0
	for _, g := range p.Groups {
		longest = max(longest, g.Seconds())
	}
	return 3*longest + 3600
}

// Packed is Measured by gzip and base64, in one line.
func (p Pipeline) Packed() (string, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(p.Measured); err != nil {
		return "", err
	}
	err := z.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes()), err
}

// Run is the command of one shard, whose number is a word of a shell.
func (p Pipeline) Run(k string) string {
	at := ""
	if p.Measured != nil {
		at = "@" + p.durations + Durations
	}
	return fmt.Sprintf(`%s run %s --shard "%s/%d%s"`, p.Program, show.Command(p.Arguments...), k, p.N, at)
}

// A File is one file of a pipeline.
type File struct {
	Name string // below the folder, with slashes
	Data []byte
	Exec bool
}

//go:embed files
var templates embed.FS

// names are the files of each engine by their templates. One with %d is made for each
// shard.
var names = map[string]map[string]string{
	"github":      {"github.yml": ".github/workflows/gpurig.yml"},
	"gitlab":      {"gitlab.yml": "gpurig.gitlab-ci.yml"},
	"slurm":       {"slurm-submit.sh": "submit.sh", "slurm-shard.sh": "shard.sh", "slurm-merge.sh": "merge.sh"},
	"kubernetes":  {"kubernetes.yaml": "gpurig.yaml"},
	"testflinger": {"testflinger-submit.sh": "submit.sh", "testflinger.yaml": "shard-%d.yaml"},
	"lava":        {"lava-submit.sh": "submit.sh", "lava.yaml": "shard-%d.yaml"},
}

// Engines are what files can be made for.
var Engines = []string{"github", "gitlab", "slurm", "kubernetes", "testflinger", "lava"}

// Files returns the files for one of Engines, by name.
func (p Pipeline) Files(engine string) ([]File, error) {
	var out []File
	if !slices.Contains(Engines, engine) {
		return nil, fmt.Errorf("engine %q: want %s", engine, strings.Join(Engines, ", "))
	}
	if engine == "kubernetes" {
		p.durations = "/tmp/"
	}
	all, err := template.New("").Funcs(template.FuncMap{
		"json":   func(v any) (string, error) { data, err := json.Marshal(v); return string(data), err },
		"join":   func(sep string, list []string) string { return strings.Join(list, sep) },
		"indent": func(n int, s string) string { return strings.ReplaceAll(s, "\n", "\n"+strings.Repeat(" ", n)) },
		"mark":   func() string { return Mark + " --for " + engine },
		"add":    func(a, b int) int { return a + b },
	}).ParseFS(templates, "files/*")
	if err != nil {
		return nil, err
	}
	make := func(from, name string, data any) error {
		var b bytes.Buffer
		if err := all.ExecuteTemplate(&b, from, data); err != nil {
			return err
		}
		out = append(out, File{Name: name, Data: b.Bytes(), Exec: path.Ext(name) == ".sh"})
		return nil
	}
	for from, name := range names[engine] {
		if !strings.Contains(name, "%d") {
			if err := make(from, name, p); err != nil {
				return nil, err
			}
			continue
		}
		for _, g := range p.Groups {
			for _, k := range g.Numbers() {
				if err := make(from, fmt.Sprintf(name, k), shard{p, g, k}); err != nil {
					return nil, err
				}
			}
		}
	}
	if p.Measured != nil && !slices.Contains([]string{"kubernetes", "lava"}, engine) { // which have it in them
		out = append(out, File{Name: Durations, Data: p.Measured})
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// A shard is one of a pipeline.
type shard struct {
	Pipeline
	Group
	K int
}

// JobQueue is where machines take the shard from: those with what it needs have a queue
// of their own.
func (s shard) JobQueue() string {
	if s.Needy {
		return s.Queue + "-" + s.Name
	}
	return s.Queue
}

// Seconds is that of the group.
func (s shard) Seconds() int { return s.Group.Seconds() }
