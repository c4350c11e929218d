package reports

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxListed is how many results of one kind the summary lists in full.
const maxListed = 50

// Markdown returns a summary for a pull request: the totals, then what failed
// and why, what is broken, and the skips by reason.
func Markdown(r Report) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# gpurig: %s\n\n", headline(r))
	more, rule := "", ""
	if r.Totals.Differ > 0 {
		more, rule = " differ |", "---:|"
	}
	fmt.Fprintf(&b, "| target | pass | fail | broken | skip |%s\n|---|---:|---:|---:|---:|%s\n", more, rule)
	byTarget := map[string][]Result{}
	for _, res := range r.Results {
		byTarget[res.Target] = append(byTarget[res.Target], res)
	}
	for _, name := range slices.Sorted(maps.Keys(byTarget)) {
		t := Count(byTarget[name])
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |", cell(name), t.Pass, t.Fail, t.Broken, t.Skip)
		if more != "" {
			fmt.Fprintf(&b, " %d |", t.Differ)
		}
		fmt.Fprintln(&b)
	}
	fmt.Fprintf(&b, "\n%s\n", cell(machineLine(r)))
	for i, p := range Across(r.Results) {
		if i == 0 {
			fmt.Fprintln(&b)
		}
		fmt.Fprintf(&b, "- %s\n", cell(p.String()))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\nNote: %s.\n", cell(n))
	}
	list(&b, "Failed: the product is wrong", pick(r, Fail), findingLines)
	list(&b, "Broken: could not be judged", pick(r, Broken), brokenLines)
	list(&b, differTitle, pick(r, Differ), findingLines)
	for _, res := range r.Results {
		for _, n := range res.Notes {
			fmt.Fprintf(&b, "\n%s: %s\n", cell(res.Key()), cell(n))
		}
	}
	skips(&b, pick(r, Skip))
	return []byte(b.String())
}

// differTitle heads what is a finding about a manager, and no failure.
const differTitle = "Differ: the manager's own implementation does it another way"

func brokenLines(res Result) string {
	lines := []string{"  - " + cell(res.Reason)}
	for _, l := range res.Evidence {
		lines = append(lines, "    - "+cell(l))
	}
	return strings.Join(lines, "\n")
}

func findingLines(res Result) string {
	var lines []string
	for _, f := range res.Findings {
		lines = append(lines, "  - "+cell(f.Line()))
		if f.Next != "" {
			lines = append(lines, "    - next: "+cell(f.Next))
		}
	}
	return strings.Join(lines, "\n")
}

// words counts verdicts; what differs is only told where something does.
func (t Totals) words() string {
	s := fmt.Sprintf("%d passed, %d failed, %d broken, %d skipped", t.Pass, t.Fail, t.Broken, t.Skip)
	if t.Differ > 0 {
		s += fmt.Sprintf(", %d differ", t.Differ)
	}
	return s
}

func headline(r Report) string {
	s := r.Totals.words()
	if r.Shard != "" {
		s += ", shard " + r.Shard
	}
	if !r.Complete {
		s += " (cut short)"
	}
	return s
}

func machineLine(r Report) string {
	parts := []string{r.Tool, r.Machine.OS, "Linux " + r.Machine.Kernel, r.Machine.Arch, fmt.Sprintf("%d CPUs", r.Machine.CPUs)}
	if r.Machine.Product != "" {
		parts = slices.Insert(parts, 1, r.Machine.Product)
	}
	for _, k := range slices.Sorted(maps.Keys(r.Machine.Versions)) {
		parts = append(parts, k+" "+r.Machine.Versions[k])
	}
	return strings.Join(parts, ", ")
}

func pick(r Report, v Verdict) []Result {
	var out []Result
	for _, res := range r.Results {
		if res.Verdict == v {
			out = append(out, res)
		}
	}
	return out
}

func list(b *strings.Builder, title string, results []Result, detail func(Result) string) {
	if len(results) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s (%d)\n\n", title, len(results))
	for i, res := range results {
		if i == maxListed {
			fmt.Fprintf(b, "- and %d more\n", len(results)-maxListed)
			break
		}
		fmt.Fprintf(b, "- **%s** on %s, host %s: %s\n", cell(res.ID()), cell(res.Target), cell(res.Host), cell(res.Title))
		if d := detail(res); d != "" {
			fmt.Fprintln(b, d)
		}
	}
}

func skips(b *strings.Builder, results []Result) {
	if len(results) == 0 {
		return
	}
	byReason := map[string]int{}
	for _, res := range results {
		byReason[res.Target+": "+res.Reason]++
	}
	fmt.Fprintf(b, "\n## Skipped: this machine cannot (%d)\n\n", len(results))
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		fmt.Fprintf(b, "- %d x %s\n", byReason[reason], cell(reason))
	}
}

// cell keeps a text from being markup: names may come from a container.
func cell(s string) string {
	s = strings.NewReplacer("\n", " ", "|", `\|`, "<", "&lt;", ">", "&gt;", "`", "'", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`).Replace(clean(s))
	return s
}
