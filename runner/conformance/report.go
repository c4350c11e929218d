package conformance

import (
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"gpurig/core/show"
)

// A Report is the columns of several consumers over the same cases.
type Report struct {
	Date    string   `json:"date"` // "2026-11-22"
	Columns []Column `json:"columns"`
}

// Formats are the ends of file names that Write knows.
var Formats = []string{".md", ".html", ".json"}

// CheckFile says why a report cannot be written to a file of that name.
func CheckFile(name string) error {
	if !slices.Contains(Formats, filepath.Ext(name)) {
		return fmt.Errorf("report %q: want a name that ends in %s", name, strings.Join(Formats, ", "))
	}
	return nil
}

// Read reads a report in JSON. Its text is as show.Line has it.
func Read(data []byte) (Report, error) {
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return Report{}, err
	}
	r.Date = show.Line(r.Date)
	for i := range r.Columns {
		c := &r.Columns[i]
		c.Consumer, c.Version = show.Line(c.Consumer), show.Line(c.Version)
		for j, x := range c.Results {
			c.Results[j] = Result{show.Line(x.Case), show.Line(x.Field), show.Line(x.Note), Outcome(show.Line(string(x.Outcome))), show.Line(x.Why)}
		}
	}
	return r, nil
}

// Write writes it in the format of a file name.
func (r Report) Write(w io.Writer, name string) error {
	switch filepath.Ext(name) {
	case ".json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(r)
	case ".html":
		return page.Execute(w, r)
	}
	_, err := io.WriteString(w, r.markdown())
	return err
}

// Head is a consumer with its version.
func (c Column) Head() string { return c.Consumer + " " + c.Version }

// Of is what became of a case; the zero Result where it was not asked for.
func (c Column) Of(name string) Result {
	for _, r := range c.Results {
		if r.Case == name {
			return r
		}
	}
	return Result{}
}

// Rows are the cases, in the order of the first column.
func (r Report) Rows() []Result {
	if len(r.Columns) == 0 {
		return nil
	}
	return r.Columns[0].Results
}

// A Remark is what is said of one outcome that is not Applied.
type Remark struct {
	Text  string
	Cases []string
}

// Remarks are those of a consumer, equal ones together.
func (c Column) Remarks() []Remark {
	var out []Remark
	for _, r := range c.Results {
		if r.Outcome == Applied {
			continue
		}
		// Its own path and name are in what a consumer says.
		text := strings.ReplaceAll(string(r.Outcome)+": "+r.Why, r.Case, "CASE")
		if at, after, ok := strings.Cut(text, "gpurig-conformance-"); ok {
			_, rest, _ := strings.Cut(after, "/")
			text = at[:strings.LastIndex(at, "/")+1] + rest
		}
		i := slices.IndexFunc(out, func(x Remark) bool { return x.Text == text })
		if i < 0 {
			i, out = len(out), append(out, Remark{Text: text})
		}
		out[i].Cases = append(out[i].Cases, r.Case)
	}
	return out
}

func (r Report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "As of %s.\n\n| field | case |", r.Date)
	rule := "|---|---|"
	for _, c := range r.Columns {
		fmt.Fprintf(&b, " %s |", c.Head())
		rule += "---|"
	}
	b.WriteString("\n" + rule + "\n")
	for _, row := range r.Rows() {
		fmt.Fprintf(&b, "| %s | `%s` |", row.Field, row.Case)
		for _, c := range r.Columns {
			o := string(c.Of(row.Case).Outcome)
			if o != string(Applied) {
				o = "**" + o + "**"
			}
			fmt.Fprintf(&b, " %s |", o)
		}
		b.WriteString("\n")
	}
	for _, c := range r.Columns {
		fmt.Fprintf(&b, "\n### %s\n\n", c.Head())
		for _, m := range c.Remarks() {
			fmt.Fprintf(&b, "- `%s`: %s\n", strings.Join(m.Cases, "`, `"), strings.NewReplacer("<", "&lt;", "|", `\|`).Replace(m.Text))
		}
	}
	return b.String()
}

var page = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>Conformance of CDI consumers</title>
<style>body{font-family:sans-serif}table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2em .5em;text-align:left}
.applied{background:#dfd}.dropped,.wrong{background:#fdd}.refused{background:#ffd}.broken{background:#ddd}</style>
<h1>Conformance of CDI consumers</h1><p>As of {{.Date}}.</p>
{{$all := .Columns}}<table><tr><th>field<th>case{{range $all}}<th>{{.Head}}{{end}}</tr>
{{range $row := .Rows}}<tr><td>{{$row.Field}}<td>{{$row.Case}}{{range $all}}{{with .Of $row.Case}}<td class="{{.Outcome}}" title="{{.Why}}">{{.Outcome}}{{end}}{{end}}</tr>
{{end}}</table>
{{range $all}}<h2>{{.Head}}</h2><ul>{{range .Remarks}}<li>{{range .Cases}}<code>{{.}}</code> {{end}}: {{.Text}}</li>{{end}}</ul>
{{end}}</html>
`))
