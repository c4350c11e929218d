package seen_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpurig/core/host"
	"gpurig/fakehw/catalog"
	"gpurig/fakehw/profiles"
	"gpurig/fakehw/seen"
	"gpurig/fixtures/records"
)

func all(t *testing.T) []*records.File {
	t.Helper()
	files, err := records.All()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func look(t *testing.T, m host.Model) *seen.Host {
	t.Helper()
	h, err := seen.Look(m)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// alone is a plain host that has one board, with the driver of the record.
func alone(t *testing.T, board string, f *records.File) *seen.Host {
	t.Helper()
	p, err := catalog.Find(board)
	if err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	driver := f.Driver
	if driver == "" {
		driver = "595"
	}
	kernel, mig := cmp.Or(f.Host.Kernel, "6.8.0-60-generic"), ""
	if f.Host.MIG {
		mig = ", mig: []"
	}
	text := fmt.Sprintf("kernel: %s\nos: {id: ubuntu, version: \"24.04\"}\ndriver: {version: \"%s\", open: %v}\nuserspace: {persistenced: %v, fabric-manager: true}\ngpus:\n  - {product: %s, at: \"06:00.0\", numa: 0%s}\n",
		kernel, driver, !f.Host.Closed, !f.Host.NoPersist, p.Key, mig)
	profile, err := profiles.Parse(board, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m, err := profile.Model()
	if err != nil {
		t.Fatal(err)
	}
	return look(t, m)
}

// compared holds every shipped profile against the records of its machine and of its
// boards, and every board on a host of its own. The name is the host's.
func compared(t *testing.T, files []*records.File) map[string][]records.Result {
	t.Helper()
	out := map[string][]records.Result{}
	for _, name := range profiles.Names() {
		p, err := profiles.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := p.Model()
		if err != nil {
			t.Fatal(err)
		}
		h := look(t, m)
		for _, f := range files {
			if f.About(name) {
				out[name] = append(out[name], f.Compare("", name, h.Machine)...)
			}
		}
		for _, board := range h.Boards() {
			says, ok := h.Board(board)
			if !ok {
				continue
			}
			for _, f := range h.Records(files, board) {
				out[name] = append(out[name], f.Compare(board, name, says)...)
			}
		}
	}
	for _, f := range files {
		for _, board := range f.Boards {
			says, ok := alone(t, board, f).Board(board)
			if !ok {
				t.Fatalf("%s: a host with %s has none", f.Name, board)
			}
			name := "board-" + board
			out[name] = append(out[name], f.Compare(board, name, says)...)
		}
	}
	return out
}

// Every fake host says what the records of real machines say, or the record's file
// has the reason why not.
func TestHostsSayWhatRealMachinesSaid(t *testing.T) {
	files := all(t)
	results := compared(t, files)
	var every []records.Result
	for name, of := range results {
		every = append(every, of...)
		for _, r := range of {
			if !r.Equal && r.Why == nil {
				t.Errorf("%s: %v, and nothing says why", name, r)
			}
		}
	}
	for _, f := range files {
		for _, d := range f.Stale(every) {
			t.Errorf("%s:%d: no host of %v differs in %s: take the line out", f.Name, d.Line, d.Hosts, d.Field)
		}
	}
	t.Log("\n" + counts(results))
}

// counts is a table: fields compared, equal, different for a reason, wrong.
func counts(results map[string][]records.Result) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%-26s %9s %6s %8s %6s\n", "HOST OR BOARD", "COMPARED", "EQUAL", "DIFFERS", "WRONG")
	var sum [4]int
	var names []string
	for name := range results {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		n := tally(results[name])
		for i := range n {
			sum[i] += n[i]
		}
		fmt.Fprintf(&s, "%-26s %9d %6d %8d %6d\n", name, n[0], n[1], n[2], n[3])
	}
	fmt.Fprintf(&s, "%-26s %9d %6d %8d %6d\n", "all", sum[0], sum[1], sum[2], sum[3])
	return s.String()
}

func tally(results []records.Result) (n [4]int) {
	for _, r := range results {
		n[0]++
		switch {
		case r.Equal:
			n[1]++
		case r.Why != nil && !r.Why.Wrong:
			n[2]++
		default:
			n[3]++
		}
	}
	return n
}

// A record whose value is changed is a difference that nothing explains: without
// this the test above could never fail.
func TestAChangedRecordIsFound(t *testing.T) {
	for _, f := range all(t) {
		if f.Name != "t4" {
			continue
		}
		says, _ := alone(t, "t4", f).Board("t4")
		changed := *f
		changed.Facts = slices.Clone(f.Facts)
		i := slices.IndexFunc(changed.Facts, func(x records.Fact) bool { return x.Field == "fb_memory_usage/total" })
		changed.Facts[i].Value = "15361"
		bad := 0
		for _, r := range changed.Compare("t4", "t4", says) {
			if !r.Equal && r.Why == nil {
				bad++
			}
		}
		if bad != 1 {
			t.Errorf("%d facts are red after one was changed", bad)
		}
	}
}
