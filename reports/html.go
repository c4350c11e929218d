package reports

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the parts of the page
	"encoding/base64"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"
)

//go:embed page/page.html
var pageText string

//go:embed page/page.css
var pageStyle string

//go:embed page/page.js
var pageScript string

var pageTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(pageText)) })

// openCases is how many groups of failed results, and of broken ones, a page shows unfolded.
const openCases = 5

// maxItems is how many changes of one kind a page has.
const maxItems = 200

// HTML returns the report as one page that needs nothing else: style and script
// are in it, and its policy lets a browser load and run no more than those. With
// since, it has what changed since another report.
//
// Every text of the report is cleaned of control characters here, and escaped
// by the template: names and messages may come from a container (A37).
//
// Reference: https://www.w3.org/TR/CSP3/
func HTML(r Report, since *Comparison) ([]byte, error) {
	p := page{
		Policy:   template.HTMLAttr(`content="default-src 'none'; base-uri 'none'; form-action 'none'; style-src ` + source(pageStyle) + `; script-src ` + source(pageScript) + `"`),
		Style:    template.CSS(pageStyle),
		Script:   template.JS(pageScript),
		Headline: headline(Report{Totals: r.Totals, Complete: r.Complete, Shard: oneLine(r.Shard), Degraded: r.Degraded}),
		Degraded: lines(r.Degraded),
		Started:  r.Started.UTC().Format(time.DateTime) + " UTC",
		State:    worst(r),
		CutShort: !r.Complete,
		Notes:    lines(r.Notes),
		Warnings: warned(r),
		Compared: since != nil,
		Skipped:  len(pick(r, Skip)),
	}
	if r.TookMS > 0 {
		p.Took = time.Duration(r.TookMS * float64(time.Millisecond)).Round(100 * time.Millisecond).String()
	}
	p.Commit = oneLine(r.CI.Commit)
	if u, err := url.Parse(r.CI.Link); err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" {
		p.Link = u.String()
	}
	p.targets(r)
	if since != nil {
		p.Regression, p.Base = since.Regression(), oneLine(since.Base)
		p.since(*since, r)
	}
	if err := p.results(r); err != nil {
		return nil, err
	}
	p.skips(r)
	p.machine(r)
	var b bytes.Buffer
	if err := pageTemplate().Execute(&b, p); err != nil {
		return nil, fmt.Errorf("report as HTML: %w", err)
	}
	return b.Bytes(), nil
}

// worst is what a run ends as: see the exit codes.
func worst(r Report) Verdict {
	switch t := r.Totals; {
	case t.Fail > 0:
		return Fail
	case t.Broken > 0 || !r.Complete || len(r.Degraded) > 0 && !r.Allowed:
		return Broken
	case t.Pass+t.Differ > 0:
		return Pass
	}
	return Skip
}

// source names an inline style or script in a page's policy: by its digest.
func source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func lines(texts []string) []string {
	var out []string
	for _, t := range texts {
		out = append(out, oneLine(t))
	}
	return out
}

func (p *page) targets(r Report) {
	p.Differ = r.Totals.Differ > 0
	byTarget := map[string][]Result{}
	for _, res := range r.Results {
		byTarget[res.Target] = append(byTarget[res.Target], res)
	}
	for _, name := range slices.Sorted(maps.Keys(byTarget)) {
		t := Count(byTarget[name])
		row := pageTarget{Name: oneLine(name), All: t.All()}
		from := 0
		for _, n := range []pageCount{{Verdict: Pass, Count: t.Pass}, {Verdict: Fail, Count: t.Fail}, {Verdict: Broken, Count: t.Broken}, {Verdict: Skip, Count: t.Skip}, {Verdict: Differ, Count: t.Differ}} {
			if n.Verdict == Differ && r.Totals.Differ == 0 {
				continue
			}
			n.From = from
			from += n.Count
			row.Counts = append(row.Counts, n)
			if n.Count > 0 {
				row.Bars = append(row.Bars, n)
			}
		}
		p.Targets = append(p.Targets, row)
	}
	for _, a := range Across(r.Results) {
		a.A, a.B = oneLine(a.A), oneLine(a.B)
		p.Pairs = append(p.Pairs, pagePair{Pair: a, Differ: a.Entries - a.Agree})
	}
}

func (p *page) since(c Comparison, r Report) {
	told := map[string]int{} // in full, further down
	for i, res := range r.Results {
		if res.Verdict == Fail || res.Verdict == Broken || res.Verdict == Differ {
			told[res.Key()] = i + 1
		}
	}
	for _, part := range []struct {
		title string
		list  []Change
		open  bool // it makes a regression
	}{
		{"newly failing", c.NewlyFailing, true},
		{"newly broken", c.NewlyBroken, true},
		{"no longer judged", c.NewlySkipped, true},
		{"gone", c.Gone, true},
		{"fixed", c.Fixed, false},
		{"added", c.Added, false},
		{"newly differing", c.Differing, false},
		{"same verdict, but changed on the way", c.Changed, false},
	} {
		sec := pagePart{Title: part.title, Open: part.open, Count: len(part.list)}
		for i, group := range alikeChanges(part.list) {
			if i == maxItems {
				sec.Items = append(sec.Items, pageItem{Head: "and more: gpurig compare --output json has all"})
				break
			}
			ch := group[0]
			item := pageItem{Head: oneLine(changeNames(group)), Detail: lines(ch.Detail)}
			if item.Number = told[ch.Key]; item.Number > 0 && ch.Was != ch.Is {
				item.Detail = nil
			}
			if ch.Was != "" && ch.Is != "" && ch.Was != ch.Is {
				item.Change = fmt.Sprintf("(%s → %s)", ch.Was, ch.Is)
			}
			sec.Items = append(sec.Items, item)
		}
		if len(sec.Items) > 0 {
			p.Since = append(p.Since, sec)
		}
	}
	sec := pagePart{Title: "environment", Open: true, Count: len(c.Environment)}
	for _, e := range lines(c.Environment) {
		sec.Items = append(sec.Items, pageItem{Head: e})
	}
	if len(sec.Items) > 0 {
		p.Since = append(p.Since, sec)
	}
}

func (p *page) skips(r Report) {
	byReason := map[[2]string][]string{}
	for _, res := range pick(r, Skip) {
		key := [2]string{oneLine(res.Target), oneLine(res.Reason)}
		byReason[key] = append(byReason[key], oneLine(res.ID()))
	}
	for key, ids := range byReason {
		skip := pageSkip{Target: key[0], Reason: key[1], Count: len(ids), IDs: ids[:min(len(ids), maxItems)]}
		skip.More = len(ids) - len(skip.IDs)
		p.Skips = append(p.Skips, skip)
	}
	slices.SortFunc(p.Skips, func(a, b pageSkip) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
}

func (p *page) machine(r Report) {
	m := r.Machine
	add := func(name, value string) {
		if value != "" {
			p.Machine = append(p.Machine, pageFact{oneLine(name), oneLine(value)})
		}
	}
	add("made by", r.Tool)
	add("product", m.Product)
	add("system", m.OS)
	add("kernel", m.Kernel)
	add("architecture", m.Arch)
	add("CPUs", fmt.Sprint(m.CPUs))
	for i, g := range m.GPUs {
		add(fmt.Sprintf("GPU %d of %d", i+1, len(m.GPUs)), g)
	}
	for _, k := range slices.Sorted(maps.Keys(m.Versions)) {
		add(k, m.Versions[k])
	}
}
