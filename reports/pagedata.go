package reports

import (
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
)

// The columns of a row of pageData, in order; page.js has the same names.
var pageColumns = []string{"verdict", "area", "name", "host", "target", "title", "tenths", "group", "place", "run", "reason"}

// results makes the data of all rows and cases, and the static parts that count them.
func (p *page) results(r Report) error {
	d := pageData{Columns: pageColumns, Rows: make([][]int, len(r.Results)), Groups: []pageGroup{}, Stations: map[int]string{}, Values: map[string]string{}, Open: openCases}
	numbers := map[string]int{}
	number := func(text string) int {
		n, ok := numbers[text]
		if !ok {
			n = len(d.Strings)
			numbers[text] = n
			d.Strings = append(d.Strings, text)
		}
		return n
	}
	filters := []pageFilter{{Name: "verdict", Column: 0}, {Name: "area", Column: 1}, {Name: "host", Column: 3}, {Name: "target", Column: 4}}
	values := []map[string]bool{{}, {}, {}, {}}
	at := make(map[string]int, len(r.Results))
	for i, res := range r.Results {
		area, name, ok := strings.Cut(oneLine(res.ID()), "/")
		if !ok {
			area, name = "", area
		}
		host, target := oneLine(res.Host), oneLine(res.Target)
		d.Rows[i] = []int{number(string(res.Verdict)), number(area), number(name), number(host), number(target), number(oneLine(res.Title)),
			int(res.DurationMS*10 + 0.5), -1, number(oneLine(res.Place())), number(oneLine(res.Run)), number(clean(res.Reason))}
		at[res.Key()] = i
		for k, v := range []string{string(res.Verdict), area, host, target} {
			if v != "" {
				values[k][v] = true
			}
		}
	}
	for k := range filters {
		filters[k].Values = slices.Sorted(maps.Keys(values[k]))
	}
	p.Filters, p.Results = filters, len(r.Results)
	for _, kind := range []struct {
		id, title string
		verdict   Verdict
	}{{"failed", "Failed: the product is wrong", Fail}, {"broken", "Broken: could not be judged", Broken}, {"differ", differTitle, Differ}} {
		bad := pick(r, kind.verdict)
		if len(bad) == 0 {
			continue
		}
		all := groups(bad)
		list := pageCases{ID: kind.id, Title: kind.title, Verdict: kind.verdict, Count: len(bad)}
		list.Causes, list.More = mainCauses(bad, len(all))
		p.Bad = append(p.Bad, list)
		for _, g := range all {
			group := groupOf(g)
			for _, res := range g {
				i := at[res.Key()]
				d.Rows[i][7] = len(d.Groups)
				if text := stationsText(res.Stations); text != "" {
					d.Stations[i] = text
				}
				group.Rows = append(group.Rows, i)
			}
			for _, v := range group.Values {
				if text, has := r.Values[v.Digest]; has {
					d.Values[oneLine(v.Digest)] = cleanAll(text)
				}
			}
			for i := range group.Values {
				group.Values[i] = Value{oneLine(group.Values[i].Name), oneLine(group.Values[i].Digest)}
			}
			d.Groups = append(d.Groups, group)
		}
	}
	data, err := json.Marshal(d) // with <, > and & escaped: nothing in it ends the element
	if err != nil {
		return fmt.Errorf("data of the page: %w", err)
	}
	p.Data = template.JS(data)
	return nil
}

// groupOf tells once what all results of a group say.
func groupOf(group []Result) pageGroup {
	res := group[0]
	g := pageGroup{Verdict: res.Verdict, Scenario: oneLine(res.Scenario), Targets: oneLine(targetsOf(group)), Reason: clean(res.Reason),
		Evidence: clean(strings.Join(res.Evidence, "\n")), Findings: []pageFinding{}, Next: []string{}, Values: []Value{}}
	for _, r := range group {
		if len(r.Values) > 0 {
			g.Values = slices.Clone(r.Values)
			break
		}
	}
	for _, f := range res.Findings {
		where := slices.DeleteFunc([]string{res.place(f.Line), f.Station, f.Container, f.Step}, func(s string) bool { return s == "" })
		g.Findings = append(g.Findings, pageFinding{Where: oneLine(strings.Join(where, ", ")), What: clean(f.What), Want: clean(f.Want), Got: clean(f.Got)})
		if next := oneLine(f.Next); next != "" && !slices.Contains(g.Next, next) {
			g.Next = append(g.Next, next)
		}
	}
	return g
}

func stationsText(s Stations) string {
	var out []string
	add := func(name, digest string) {
		if digest != "" {
			out = append(out, oneLine(name+" "+digest))
		}
	}
	add("host", s.Host)
	add("spec", s.Spec)
	for _, k := range slices.Sorted(maps.Keys(s.Plan)) {
		add("plan of "+k, s.Plan[k])
	}
	for _, k := range slices.Sorted(maps.Keys(s.Seen)) {
		add("observation of "+k, s.Seen[k])
	}
	return strings.Join(out, ", ")
}
