package reports_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"

	"gpurig/fixtures/golden"
	"gpurig/reports"
)

// poison is what an image could have chosen for a name or a message.
const poison = "\x1b[2J\r\x9b\u202e\x00\xff</script><script>alert(1)</script><img src=//x.example/y onerror=alert(1)>\"'`{{.Style}}\n&lt;"

// TestA37PageKeepsEveryTextAText: a page that is poisoned in every text of the
// report has the elements and attributes of a page that is not, and not one
// control character.
func TestA37PageKeepsEveryTextAText(t *testing.T) {
	r := sample()
	for i := range r.Results {
		r.Results[i].Stations = reports.Stations{Host: "a", Spec: "b", Plan: map[string]string{"c1": "c"}, Seen: map[string]string{"c1": "d"}}
	}
	with := func(text string) []byte {
		all := deep(reflect.ValueOf(r), func(s string) string { return s + text }).Interface().(reports.Report)
		for i := range all.Results { // reading a report refuses verdicts that are not ours
			all.Results[i].Verdict = r.Results[i].Verdict
		}
		all.CI.Link = r.CI.Link // one that is poisoned is none: see TestLinksLeadToPagesAlone
		change := []reports.Change{{Key: text, Was: reports.Pass, Is: reports.Fail, Detail: []string{text}}}
		return render(t, all, &reports.Comparison{NewlyFailing: change, Gone: change, Environment: []string{text}})
	}
	bad, good := with(poison), with("x")
	if i := bytes.IndexFunc(bad, func(c rune) bool {
		return c != '\n' && unicode.IsControl(c) || c == 0x202e || c == unicode.ReplacementChar
	}); i >= 0 {
		t.Errorf("byte %d is a control character: %q", i, bad[max(0, i-60):i+10])
	}
	if n := bytes.Count(bad, []byte("alert(1)")); n < 30 {
		t.Errorf("the poison is there %d times; the test does not poison what it should", n)
	}
	for _, s := range dataOf(t, bad).Strings {
		if strings.ContainsFunc(s, func(c rune) bool { return c != '\n' && unicode.IsControl(c) || c == 0x202e }) {
			t.Errorf("a text of the data has a control character: %q", s)
		}
	}
	if got, want := skeleton(t, bad), skeleton(t, good); !slices.Equal(got, want) {
		for i := range got {
			if i >= len(want) || got[i] != want[i] {
				t.Fatalf("element %d is %s; without poison it is another, of %d", i, got[i], len(want))
			}
		}
		t.Errorf("%d elements; without poison %d", len(got), len(want))
	}
}

// TestA37NamesAreCut: a megabyte that was chosen for a name is 256 bytes in what a
// person reads, in each format, beside names that stay whole; the JSON, which is for
// programs and for comparing, has it whole, parses, and has as many cases.
func TestA37NamesAreCut(t *testing.T) {
	for _, bad := range []string{strings.Repeat("y", 1<<20), strings.Repeat("\x1b", 1<<12), strings.Repeat("\u202e", 1<<12), strings.Repeat("\xff", 1<<12)} {
		r := sample()
		short := "the host has no /dev/nvidia0"
		for i := range r.Results {
			for j := range r.Results[i].Findings {
				f := &r.Results[i].Findings[j]
				f.What, f.Want, f.Got = bad, bad+"; "+short, short+"; "+bad
			}
			if r.Results[i].Reason != "" {
				r.Results[i].Reason = bad
			}
		}
		for _, ext := range reports.Formats {
			data, err := reports.Render("r"+ext, r)
			if err != nil {
				t.Fatalf("%s: %v", ext, err)
			}
			if ext == ".json" {
				again, err := reports.Parse(data)
				if err != nil || len(again.Results) != len(r.Results) {
					t.Errorf("the JSON has %d results of %d, %v", len(again.Results), len(r.Results), err)
				}
				continue
			}
			if !bytes.Contains(data, []byte(short)) {
				t.Errorf("%s: a name beside the long one is not there", ext)
			}
			for _, run := range []string{strings.Repeat("y", 254), strings.Repeat(`\u001b`, 43), strings.Repeat(`\u202e`, 43), strings.Repeat(`\xff`, 64)} {
				if bytes.Contains(data, []byte(run)) {
					t.Errorf("%s: a name is longer than 256 bytes", ext)
				}
			}
		}
		if s := reports.Summary(r, 0); len(s) > 64<<10 {
			t.Errorf("the summary has %d bytes", len(s))
		}
	}
}

// deep copies v with every string in it changed, keys of maps too.
func deep(v reflect.Value, change func(string) string) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.String:
		out.SetString(change(v.String()))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(deep(v.Field(i), change))
			}
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(deep(v.Index(i), change))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMap(v.Type()))
			for _, k := range v.MapKeys() {
				out.SetMapIndex(deep(k, change), deep(v.MapIndex(k), change))
			}
		}
	}
	return out
}

func render(t *testing.T, r reports.Report, since *reports.Comparison) []byte {
	t.Helper()
	data, err := reports.HTML(r, since)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// skeleton is every element of a page with the names of its attributes, and the
// text of those that are style or script.
func skeleton(t *testing.T, page []byte) []string {
	t.Helper()
	var out []string
	for n := range parse(t, page).Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		s := n.Data
		for _, a := range n.Attr {
			s += " " + a.Key
		}
		if (n.Data == "style" || n.Data == "script") && n.FirstChild != nil && !isData(n) {
			s += n.FirstChild.Data
		}
		out = append(out, s)
	}
	return out
}

// isData reports whether a script is not run: it holds what the other one reads.
func isData(n *html.Node) bool {
	return slices.Contains(n.Attr, html.Attribute{Key: "type", Val: "application/json"})
}

// A pageData is what the page's script reads.
type pageData struct {
	Strings []string
	Columns []string
	Rows    [][]int
	Groups  []struct {
		Verdict  string
		Rows     []int
		Findings []struct{ Where, What, Want, Got string }
		Values   []reports.Value
	}
	Values map[string]string
}

func dataOf(t *testing.T, page []byte) (d pageData) {
	t.Helper()
	for n := range parse(t, page).Descendants() {
		if n.Data == "script" && isData(n) {
			if strings.ContainsAny(n.FirstChild.Data, "<>&") {
				t.Error("the data have a character that is markup")
			}
			if err := json.Unmarshal([]byte(n.FirstChild.Data), &d); err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatal("the page has no data")
	return d
}

func parse(t *testing.T, page []byte) *html.Node {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// balanced says what is wrong with the nesting of a page, which html.Parse
// would mend in silence.
func balanced(page []byte) string {
	void := []string{"meta", "input", "br"}
	var open []string
	z := html.NewTokenizer(bytes.NewReader(page))
	for {
		switch tt := z.Next(); tt {
		case html.ErrorToken:
			if len(open) > 0 {
				return "not closed: " + strings.Join(open, ", ")
			}
			return ""
		case html.StartTagToken:
			if name, _ := z.TagName(); !slices.Contains(void, string(name)) {
				open = append(open, string(name))
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			if len(open) == 0 || open[len(open)-1] != string(name) {
				return "</" + string(name) + "> within " + strings.Join(open, ", ")
			}
			open = open[:len(open)-1]
		}
	}
}

// ciLink is the one link out of a page that there may be.
const ciLink = "https://ci.example/jobs/7"

// outside says what a page would load, or lead to, outside of itself.
func outside(root *html.Node) []string {
	var out []string
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if slices.Contains([]string{"link", "img", "iframe", "object", "embed", "base", "audio", "video", "source"}, n.Data) {
			out = append(out, n.Data)
		}
		for _, a := range n.Attr {
			if slices.Contains([]string{"src", "srcset", "href", "action", "data", "poster", "style"}, a.Key) && !strings.HasPrefix(a.Val, "#") && a.Val != ciLink || strings.HasPrefix(a.Key, "on") {
				out = append(out, n.Data+" "+a.Key)
			}
		}
		if n.Data == "style" && (strings.Contains(n.FirstChild.Data, "url(") || strings.Contains(n.FirstChild.Data, "@import")) {
			out = append(out, "style")
		}
	}
	return out
}

func TestPageIsWholeAndAlone(t *testing.T) {
	cut := sample()
	cut.Finish(false)
	same := reports.Compare(cut, cut)
	for name, page := range map[string][]byte{
		"a run":         render(t, sample(), nil),
		"cut short":     render(t, cut, nil),
		"no difference": render(t, cut, &same),
		"nothing":       render(t, reports.Report{}, nil),
	} {
		if problem := balanced(page); problem != "" {
			t.Errorf("%s: %s", name, problem)
		}
		if refs := outside(parse(t, page)); len(refs) > 0 {
			t.Errorf("%s: it leads outside: %q", name, refs)
		}
		ids := map[string]bool{}
		for n := range parse(t, page).Descendants() {
			for _, a := range n.Attr {
				if a.Key == "id" && ids[a.Val] {
					t.Errorf("%s: id %s twice", name, a.Val)
				}
				ids[a.Val] = ids[a.Val] || a.Key == "id"
			}
		}
		if bytes.Contains(page, []byte("ZgotmplZ")) {
			t.Errorf("%s: the template refused a value", name)
		}
	}
	// The checks can fail.
	if balanced([]byte("<p><b>x</p>")) == "" || balanced([]byte("<p>")) == "" {
		t.Error("balanced takes any page")
	}
	for _, s := range []string{"<img src=x>", "<a href=//x>y</a>", "<p onclick=x>", "<style>a{b:url(x)}</style>"} {
		if len(outside(parse(t, []byte(s)))) == 0 {
			t.Errorf("outside finds nothing in %s", s)
		}
	}
}

// TestPageHasEveryResult: each is a row of the data, and each that failed or is broken
// is told in a group, with the values that it went through.
func TestPageHasEveryResult(t *testing.T) {
	d := dataOf(t, render(t, sample(), nil))
	told := 0
	for i, row := range d.Rows {
		if len(row) != len(d.Columns) {
			t.Fatalf("row %d has %d columns of %d", i, len(row), len(d.Columns))
		}
		verdict, group := d.Strings[row[0]], row[slices.Index(d.Columns, "group")]
		if (group >= 0) != (verdict == "fail" || verdict == "broken") {
			t.Errorf("row %d, %s, is in group %d", i, verdict, group)
		}
		if group >= 0 {
			told++
			if g := d.Groups[group]; g.Verdict != verdict || !slices.Contains(g.Rows, i) {
				t.Errorf("row %d is not in its group %+v", i, g)
			}
		}
	}
	if len(d.Rows) != 4 || told != 2 {
		t.Errorf("%d rows, %d of them told; want 4 and 2", len(d.Rows), told)
	}
	for _, g := range d.Groups {
		if g.Verdict == "fail" && (len(g.Findings) != 1 || len(g.Values) != 1 || d.Values[g.Values[0].Digest] != "nodes:\n- /dev/x </script>\n") {
			t.Errorf("the failure lacks its finding or its plan: %+v, %q", g, d.Values)
		}
	}
}

// TestLinksLeadToPagesAlone: a link of a report is shown only if it is one of the web.
func TestLinksLeadToPagesAlone(t *testing.T) {
	r := sample()
	r.CI.Link = "javascript:alert(1)"
	if page := render(t, r, nil); bytes.Contains(page, []byte("javascript:")) || bytes.Contains(page, []byte("its job")) {
		t.Error("the page has a link that is a script")
	}
}

func TestPageOfAComparison(t *testing.T) {
	base, now := sample(), sample()
	now.Tool = "gpurig v0.2.0"
	now.Results[0].Verdict = reports.Fail
	now.Results[0].Findings = []reports.Finding{{Station: "across", What: "node /dev/x", Want: "there on sim", Got: "nothing on lxc"}}
	now.Finish(true)
	c := reports.Compare(base, now)
	golden.Equal(t, "testdata/compare.html", render(t, now, &c))
}
