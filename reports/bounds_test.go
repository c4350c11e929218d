package reports

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// allocated runs f and returns how many bytes it took in all, given back or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// minimal returns a report of n results that are as short as they can be.
func minimal(n int, shard string) string {
	var b strings.Builder
	b.WriteString(`{"schema":1,"complete":true,"tool":"t","shard":"` + shard + `","totals":{"pass":` + fmt.Sprint(n) + `},"results":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"scenario":"%s%x","verdict":"pass"}`, shard[:1], i)
	}
	return b.String() + "]}"
}

// A50: whatever is in a report file, reading it takes a small multiple of its size, and
// what would take more is refused with a line that says so.
func TestReadingIsBoundedByTheFile(t *testing.T) {
	const size = 4 << 20
	fill := func(before, each, after string) string {
		return before + strings.TrimSuffix(strings.Repeat(each, (size-len(before)-len(after))/len(each)), ",") + after
	}
	const one = `{"schema":1,"totals":{"pass":1},"results":[{"scenario":"a","verdict":"pass",`
	for _, tc := range []struct {
		name, text, bad string
		most            uint64 // times the file
	}{
		{"results that are nothing", fill(`{"schema":1,"results":[`, `{},`, `]}`), "objects and", 4},
		{"results without a verdict", fill(`{"schema":1,"results":[`, `{"scenario":"abcdefghijklmnopqrst"},`, `]}`), "has verdict", 4},
		{"findings that are nothing", fill(one+`"findings":[`, `{},`, `]}]}`), "objects and", 4},
		{"variants that are nothing", fill(`{"schema":1,"results":[`, `{"variant":{},"scenario":""},`, `]}`), "objects", 4},
		{"findings as short as there may be", fill(one+`"findings":[`, `{"what":"/dev/nvidia0","got":"no"},`, `]}]}`), "", 24},
		{"notes that are nothing", fill(one+`"notes":[`, `"",`, `]}]}`), "values in", 4},
		{"notes of the report", fill(`{"schema":1,"notes":[`, `"",`, `]}`), "values in", 4},
		{"notes as short as there may be", fill(`{"schema":1,"notes":[`, `"abcde",`, `]}`), "", 24},
		{"one result after another, the same", fill(`{"schema":1,"results":[`, `{"scenario":"a","verdict":"pass"},`, `]}`), "is there twice", 16},
		{"brackets", fill(`{"schema":1,"x":[`, `[],`, `]}`), "values in", 4},
		{"too many results", minimal(MaxResults+1, "1/1"), "more than 100000 results", 24},
		{"as many results as may be", minimal(MaxResults, "1/1"), "", 24},
		{"another document", strings.Repeat("{", size), "objects and", 4},
		{"a text that does not end", `{"schema":1,"tool":"` + strings.Repeat("a", size), "ends in the middle", 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "r.json")
			if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var err error
			took := allocated(func() { _, err = Read(file) })
			if tc.bad == "" && err != nil || tc.bad != "" && (!errors.Is(err, ErrNotReport) || !strings.Contains(err.Error(), tc.bad) || len(err.Error()) > 400) {
				t.Errorf("Read() = %.400v; want %q", err, tc.bad)
			}
			if limit := tc.most * uint64(len(tc.text)); took > limit {
				t.Errorf("a file of %d bytes took %d, %d times as much; want %d at most", len(tc.text), took, took/uint64(len(tc.text)), tc.most)
			}
			t.Logf("%.1f times the file", float64(took)/float64(len(tc.text)))
		})
	}
}

// A50: joining and comparing take a small multiple of what is joined, however many parts
// there are, and no more results than a report may have.
func TestJoiningIsBounded(t *testing.T) {
	parts := func(n, each int) (out []Report, size uint64) {
		for i := range n {
			text := minimal(each, fmt.Sprintf("%d/%d", i+1, n))
			text = strings.ReplaceAll(text, `{"scenario":"`, fmt.Sprintf(`{"scenario":"%d-`, i))
			r, err := Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			out, size = append(out, r), size+uint64(len(text))
		}
		return out, size
	}
	var all Report
	for _, n := range []int{10, 1000} {
		list, size := parts(n, 20_000/n)
		var err error
		took := allocated(func() { all, err = Merge(list) })
		if err != nil || len(all.Results) != 20_000 || took > 24*size {
			t.Errorf("%d parts of %d bytes took %d: %v", n, size, took, err)
		}
		t.Logf("%d parts: %.1f times the files", n, float64(took)/float64(size))
	}
	data, err := JSON(all)
	if err != nil {
		t.Fatal(err)
	}
	if took := allocated(func() { Compare(all, all) }); took > 8*uint64(len(data)) {
		t.Errorf("comparing two reports of %d bytes took %d", len(data), took)
	}
	worse := all
	worse.Results = slices.Clone(all.Results)
	for i := range worse.Results {
		worse.Results[i].Verdict, worse.Results[i].Findings = Fail, []Finding{{Station: "plan", What: fmt.Sprint("/dev/", i), Want: "a node", Got: "nothing"}}
	}
	if text := Compare(all, worse).Text(); len(text) > 16<<10 || !strings.Contains(text, "newly failing: 20000\n") {
		t.Errorf("a comparison of 20,000 results that fail has %d bytes: %.200s", len(text), text)
	}
	too, _ := parts(2, MaxResults/2+1)
	if _, err := Merge(too); !errors.Is(err, ErrMerge) || !strings.Contains(err.Error(), "more than 100000 results") {
		t.Errorf("Merge() = %v", err)
	}
}
