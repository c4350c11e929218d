package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestBill(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d, err := bill("1.2.3+4.gabc", "1700000000", []string{self})
	if err != nil {
		t.Fatal(err)
	}
	again, err := bill("1.2.3+4.gabc", "1700000000", []string{self})
	if err != nil || !reflect.DeepEqual(d, again) {
		t.Errorf("the second bill differs: %v", err)
	}
	if d.Creation.Created != "2023-11-14T22:13:20Z" {
		t.Errorf("created %s; want the time of SOURCE_DATE_EPOCH", d.Creation.Created)
	}
	ids := map[string]bool{d.ID: true}
	std := false
	for _, p := range d.Packages {
		if ids[p.ID] || outsideID.MatchString(p.ID) {
			t.Errorf("the identifier %q is there twice, or is none", p.ID)
		}
		ids[p.ID] = true
		std = std || p.Name == "std" && p.Version != ""
	}
	if !std || d.Packages[0].Name != filepath.Base(self) || len(d.Packages[0].Checksums) != 1 {
		t.Errorf("packages %+v; want the program with its digest, and the standard library", d.Packages)
	}
	for _, r := range d.Relationships {
		if !ids[r.From] || !ids[r.To] {
			t.Errorf("%+v: no such package", r)
		}
	}
	if len(d.Relationships) < 2 {
		t.Errorf("relationships %v; want that the document describes the program, and that it has dependencies", d.Relationships)
	}
}

func TestBillRefuses(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, epoch, file, want string }{
		{"no file", "", text + "-not", "no such file"},
		{"no Go program", "", text, text + ": "},
		{"a date", "2023-11-14", text, `SOURCE_DATE_EPOCH "2023-11-14": want seconds`},
	} {
		if _, err := bill("1", tc.epoch, []string{tc.file}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want %q", tc.name, err, tc.want)
		}
	}
}
