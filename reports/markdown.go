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
	if r.CI.Commit != "" {
		fmt.Fprintf(&b, "\ncommit %s, %s\n", cell(r.CI.Commit), cell(r.CI.Link))
	}
	for i, p := range Across(r.Results) {
		if i == 0 {
			fmt.Fprintln(&b)
		}
		fmt.Fprintf(&b, "- %s\n", cell(p.String()))
	}
	for _, d := range r.Degraded {
		fmt.Fprintf(&b, "\n**%s:** %s\n", degradedTitle, cell(d))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\nNote: %s.\n", cell(n))
	}
	list(&b, "Failed: the product is wrong", pick(r, Fail), findingLines)
	list(&b, "Broken: could not be judged", pick(r, Broken), brokenLines)
	list(&b, differTitle, pick(r, Differ), findingLines)
	texts(&b, "Warnings", warned(r))
	texts(&b, "Noted", noted(r))
	skips(&b, pick(r, Skip))
	return shorten(b.String())
}

func texts(b *strings.Builder, title string, list []cause) {
	for i, c := range list {
		if i == 0 {
			fmt.Fprintf(b, "\n## %s\n\n", title)
		}
		fmt.Fprintf(b, "- %s: %s\n", times(c.Count), cell(c.Text))
	}
}

// maxMarkdown is what GitHub takes as the summary of a step.
//
// Reference: https://docs.github.com/actions, "Step isolation and limits"
const maxMarkdown = 1 << 20

// shorten cuts a summary that is too long at the end of a line, and says so.
func shorten(s string) []byte {
	if len(s) <= maxMarkdown {
		return []byte(s)
	}
	const rest = "\nThe rest is left out: a summary has at most 1 MiB. The other reports have all of it.\n"
	s = s[:maxMarkdown-len(rest)]
	return []byte(s[:strings.LastIndexByte(s, '\n')+1] + rest)
}

// degradedTitle heads what is lost or broken on the machine.
const degradedTitle = "Degraded machine"

// differTitle heads what is a finding about a manager, and no failure.
const differTitle = "Differ: the manager's own implementation does it another way"

func brokenLines(res Result) string {
	lines := []string{"  - " + cell(prefixed(res.Place(), res.Reason))}
	for _, l := range res.Evidence {
		lines = append(lines, "    - "+cell(l))
	}
	return strings.Join(lines, "\n")
}

func findingLines(res Result) string {
	var lines []string
	for i, f := range res.Findings {
		lines = append(lines, "  - "+cell(res.at(f)))
		if again := i+1 < len(res.Findings) && res.Findings[i+1].Next == f.Next; f.Next != "" && !again {
			lines = append(lines, "    - next: "+code(f.Next))
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
	if n := flaky(r.Results); n > 0 {
		s += fmt.Sprintf(", %d flaky", n)
	}
	if len(r.Degraded) > 0 {
		s += ", on a degraded machine"
	}
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
	all := groups(results)
	first, more := mainCauses(results, len(all))
	for i, c := range first {
		if i == 0 {
			fmt.Fprint(b, "| results | first finding |\n|---:|---|\n")
		}
		fmt.Fprintf(b, "| %d | %s |\n", c.Count, cell(c.Text))
	}
	if more > 0 {
		fmt.Fprintf(b, "| | and %d more |\n", more)
	}
	if len(first) > 0 {
		fmt.Fprintln(b)
	}
	listed := 0
	for i, group := range all {
		if i == maxListed {
			fmt.Fprintf(b, "- and %d more\n", len(results)-listed)
			break
		}
		listed += len(group)
		res, also := group[0], ""
		if n := len(group) - 1; n > 0 {
			also = fmt.Sprintf(", and %d more like it on %s", n, cell(targetsOf(group)))
		}
		fmt.Fprintf(b, "- **%s** on %s, host %s%s: %s\n", cell(res.ID()), cell(res.Target), cell(res.Host), also, cell(res.Title))
		if d := detail(res); d != "" {
			fmt.Fprintln(b, d)
		}
		if res.Run != "" {
			fmt.Fprintf(b, "  - again: %s\n", code(res.Run))
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

// code is a command that can be copied.
func code(s string) string { return "`" + strings.ReplaceAll(oneLine(s), "`", "'") + "`" }

// cell keeps a text from being markup: names may come from a container.
func cell(s string) string {
	s = strings.NewReplacer("\n", " ", "|", `\|`, "<", "&lt;", ">", "&gt;", "`", "'", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`).Replace(clean(s))
	return s
}
