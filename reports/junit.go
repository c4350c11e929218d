package reports

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The JUnit dialect that GitLab, Jenkins and GitHub's test reporters read: a
// suite for each target, <failure> for fail, <error> for broken, <skipped>.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     string      `xml:"time,attr"`
		Stamp    string      `xml:"timestamp,attr"`
		Facts    *junitFacts `xml:"properties,omitempty"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitFacts struct {
		Property []junitFact `xml:"property"`
	}
	junitFact struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string      `xml:"classname,attr"`
		Name    string      `xml:"name,attr"`
		Time    string      `xml:"time,attr"`
		File    string      `xml:"file,attr,omitempty"`
		Line    int         `xml:"line,attr,omitempty"`
		Facts   *junitFacts `xml:"properties,omitempty"`
		Failure *junitText  `xml:"failure,omitempty"`
		Error   *junitText  `xml:"error,omitempty"`
		Skipped *junitText  `xml:"skipped,omitempty"`
		Out     string      `xml:"system-out,omitempty"`
	}
	junitText struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// JUnit returns the report as JUnit XML. A run that was cut short has one more
// case, in error, so that it never reads as a whole one.
func JUnit(r Report) ([]byte, error) {
	all := junitSuites{Name: "gpurig"}
	byTarget := map[string]int{}
	var total float64
	for _, res := range r.Results {
		i, ok := byTarget[res.Target]
		if !ok {
			i = len(all.Suites)
			byTarget[res.Target] = i
			all.Suites = append(all.Suites, junitSuite{Name: "gpurig " + res.Target, Stamp: r.Started.UTC().Format("2006-01-02T15:04:05")})
		}
		all.Suites[i].Cases = append(all.Suites[i].Cases, junitOf(res))
		total += res.DurationMS
	}
	if !r.Complete {
		all.Suites = append(all.Suites, junitSuite{Name: "gpurig run", Stamp: r.Started.UTC().Format("2006-01-02T15:04:05"),
			Cases: []junitCase{{Class: "gpurig", Name: "the run was cut short", Time: "0", Error: &junitText{
				Message: fmt.Sprintf("%d results were made before it ended", len(r.Results)), Type: "incomplete"}}}})
	}
	if len(r.Degraded) > 0 {
		c := junitCase{Class: "gpurig", Name: "the machine is whole", Time: "0"}
		text := clean(strings.Join(r.Degraded, "\n"))
		if c.Error = (&junitText{Message: degradedTitle, Type: "degraded", Text: text}); r.Allowed {
			c.Error, c.Skipped, c.Out = nil, &junitText{Message: degradedTitle + ", which is allowed"}, text
		}
		all.Suites = append(all.Suites, junitSuite{Name: "gpurig machine", Stamp: r.Started.UTC().Format("2006-01-02T15:04:05"), Cases: []junitCase{c}})
	}
	for i := range all.Suites {
		s := &all.Suites[i]
		for _, p := range Across(r.Results) {
			if s.Name == "gpurig "+p.A || s.Name == "gpurig "+p.B {
				if s.Facts == nil {
					s.Facts = &junitFacts{}
				}
				s.Facts.Property = append(s.Facts.Property, junitFact{"across", clean(p.String())})
			}
		}
		var ms float64
		for _, c := range s.Cases {
			s.Tests++
			switch {
			case c.Failure != nil:
				s.Failures++
			case c.Error != nil:
				s.Errors++
			case c.Skipped != nil:
				s.Skipped++
			}
		}
		for _, res := range r.Results {
			if "gpurig "+res.Target == s.Name {
				ms += res.DurationMS
			}
		}
		s.Time = seconds(ms)
		all.Tests, all.Failures, all.Errors, all.Skipped = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors, all.Skipped+s.Skipped
	}
	all.Time = seconds(total)
	body, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("report as JUnit: %w", err)
	}
	return bytes.Join([][]byte{[]byte(strings.TrimSpace(xml.Header)), body, nil}, []byte("\n")), nil
}

func junitOf(r Result) junitCase {
	area, _, ok := strings.Cut(r.Scenario, "/")
	if !ok {
		area = "scenarios"
	}
	c := junitCase{Class: "gpurig." + r.Target + "." + area, Name: clean(r.ID()), Time: seconds(r.DurationMS), File: clean(r.File), Line: r.Line}
	if r.Run != "" {
		c.Facts = &junitFacts{[]junitFact{{"run", clean(r.Run)}}}
	}
	switch r.Verdict {
	case Fail:
		first := Finding{What: "no finding was recorded"}
		if len(r.Findings) > 0 {
			first = r.Findings[0]
		}
		c.Failure = &junitText{Message: clean(first.Text()), Type: first.Station, Text: clean(findingsText(r))}
	case Broken:
		c.Error = &junitText{Message: clean(r.Reason), Type: "broken", Text: clean(strings.Join(append(slices.Clip(r.Evidence), r.Place(), r.Run), "\n"))}
	case Differ: // no failure of the product: a passed case that says so
		c.Out = clean(differTitle + "\n" + findingsText(r))
	case Skip:
		c.Skipped = &junitText{Message: clean(r.Reason)}
	}
	for _, w := range r.warnings() {
		c.Out = strings.TrimSpace(c.Out + "\n" + clean("warning: "+w))
	}
	return c
}

func seconds(ms float64) string { return fmt.Sprintf("%.3f", ms/1000) }

func findingsText(r Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Title)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "\n%s\n", r.at(f))
		if f.Next != "" {
			fmt.Fprintf(&b, "  next: %s\n", f.Next)
		}
	}
	if r.Run != "" {
		fmt.Fprintf(&b, "\nagain: %s\n", r.Run)
	}
	return b.String()
}

// Text says a finding in one line: where it differs, what was wanted and seen.
func (f Finding) Text() string {
	var where []string
	for _, s := range []string{f.Station, f.Container, f.Step} {
		if s != "" {
			where = append(where, s)
		}
	}
	return fmt.Sprintf("%s: %s: want %s, got %s", strings.Join(where, ", "), f.What, f.Want, f.Got)
}

// A name is cut to mostName bytes, and a text that is made of several to mostText.
const mostName, mostText = 256, 4096

// cleanAll is clean for a text of many lines, each of which is cut by itself.
func cleanAll(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = clean(l)
	}
	return strings.Join(lines, "\n")
}

// clean makes a text that XML, Markdown and terminals can carry: control
// characters are written as escapes, and each part of it that may be a name out of
// a container, which ends with its line or at "; " or ", ", is cut (A37).
func clean(s string) string {
	var b strings.Builder
	part, prev := 0, rune(0)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		text := s[i : i+n]
		switch {
		case r == utf8.RuneError && n == 1:
			text = fmt.Sprintf(`\x%02x`, s[i])
		case r == '\n' || r == '\t':
		case r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0xfffe || r == 0xffff:
			text = fmt.Sprintf(`\u%04x`, r)
		}
		if r == '\n' || r == ' ' && (prev == ';' || prev == ',') {
			part = -len(text)
		}
		switch {
		case b.Len() > mostText-len("...")-mostName:
			return b.String() + "..."
		case part+len(text) <= mostName-len("..."):
			b.WriteString(text)
			part += len(text)
		case part <= mostName:
			b.WriteString("...")
			part = mostName + 1
		}
		prev = r
		i += n
	}
	return b.String()
}
