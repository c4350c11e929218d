package nvidia

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpurig/fakehw/tree"
)

type csvText struct {
	name, in string
	want     string // lines as number:type:path, then problems as number!fatal
}

// csvTexts are the cases of TestParseCSV_B43, which the fuzz target begins with.
func csvTexts() []csvText {
	long := "lib, /usr/lib/" + strings.Repeat("a", 70<<10)
	return []csvText{
		{"a file as NVIDIA ships it", "dev, /dev/nvmap\ndir, /dev/dri/by-path\nsym, /etc/a\n", "1:dev:/dev/nvmap 2:dir:/dev/dri/by-path 3:sym:/etc/a"},
		{"no newline at the end", "dev, /dev/nvmap", "1:dev:/dev/nvmap"},
		{"CRLF", "dev, /dev/nvmap\r\nlib,/a\r\n", "1:dev:/dev/nvmap 2:lib:/a"},
		{"a byte order mark", "\ufeffdev, /dev/nvmap\ndev, /dev/fb0\n", "2:dev:/dev/fb0 1!false"},
		{"no comma", "dev /dev/nvmap\n", "1!false"},
		{"more commas belong to the path", "lib, /a,b\n", "1:lib:/a,b"},
		{"spaces inside a path", "lib ,  /a b \n", "1:lib:/a b"},
		{"quotes", "dev, \"/dev/nvmap\"\n", "1!true"},
		{"comments and empty lines", "# dev, /dev/nvmap\n\n  \n\t# x\n", ""},
		{"an unknown type", "file, /a\nDEV, /b\n", "1!false 2!false"},
		{"no path", "dev,\n", "1!false"},
		{"a pattern", "dev, /dev/dri/card*\n", "1:dev:/dev/dri/card*"},
		{"the whole host", "dir, /\ndir, //.\n", "1!true 2!true"},
		{"the host's memory", "dev, /dev/mem\n", "1!true"},
		{"a path upwards", "sym, /usr/../../etc/shadow\n", "1!true"},
		{"a relative path", "lib, usr/lib/a\n", "1!true"},
		{"a line that ends the usual scanner", "dev, /a\n" + long + "\ndev, /b\n", "1:dev:/a 2!true"},
		{"an empty file", "", ""},
	}
}

func TestParseCSV_B43(t *testing.T) {
	for _, tc := range csvTexts() {
		t.Run(tc.name, func(t *testing.T) {
			lines, problems := parseCSV([]byte(tc.in))
			var got []string
			for _, l := range lines {
				got = append(got, fmt.Sprintf("%d:%s:%s", l.Number, l.Type, l.Path))
			}
			for _, p := range problems {
				got = append(got, fmt.Sprintf("%d!%v", p.Number, p.Fatal))
			}
			if text := strings.Join(got, " "); text != tc.want {
				t.Errorf("parseCSV(%.60q) = %s, want %s", tc.in, text, tc.want)
			}
		})
	}
}

func TestBadCSVLinesAreNamed_B43(t *testing.T) {
	root := tree.New()
	if err := root.WriteFile(csvDir+"/devices.csv", []byte("dev /dev/nvmap\ndir, /\ndev, /dev/mem\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	g := &generator{log: &collector{}, root: root, csv: []string{csvDir + "/devices.csv"}}
	err := g.checkCSV()
	for _, want := range []string{"devices.csv:2: this line would pass the host's whole file system", "devices.csv:3: this line would pass /dev/mem"} {
		if !errors.Is(err, ReasonBadCSV) || !strings.Contains(err.Error(), want) {
			t.Errorf("checkCSV() = %v, want %q", err, want)
		}
	}
	if w := g.log.warnings(); len(w) != 1 || !strings.Contains(w[0].Msg, "devices.csv:1: left out: this line has no comma") {
		t.Errorf("warnings %v", w)
	}
}

func FuzzParseCSV(f *testing.F) {
	for _, seed := range []string{"dev, /dev/nvmap\n", "\ufeffdir,/\r\n", "sym,/a,b", ",", "#", "lib, /../x\n\n"} {
		f.Add(seed)
	}
	for _, tc := range csvTexts() {
		if len(tc.in) < 1<<16 {
			f.Add(tc.in)
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		lines, problems := parseCSV([]byte(s))
		total := strings.Count(s, "\n") + 1
		last := 0
		for _, l := range lines {
			if l.Number <= last || l.Number > total || !slices.Contains(csvTypes, l.Type) || l.Path[0] != '/' || strings.ContainsRune(l.Path, '\n') {
				t.Fatalf("%q: line %+v", s, l)
			}
			last = l.Number
		}
		for _, p := range problems {
			if p.Number < 1 || p.Number > total || p.Msg == "" {
				t.Fatalf("%q: problem %+v", s, p)
			}
		}
	})
}
