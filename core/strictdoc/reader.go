// Package strictdoc reads documents that people and other programs write for
// this project, YAML and JSON, and reports where in the file a mistake is.
//
// It reads a subset of YAML: one document of plain data, in UTF-8. Anchors, aliases,
// tags, merge keys, invisible characters, more than 1 MiB, more than
// 150,000 values and deep nesting are refused, so that a file means what it shows and
// is cheap to read.
//
// Parse returns the document as a tree, from which package cdi reads Specs. A Reader
// fills Go values from it and reports all mistakes at once, unknown and duplicate keys
// included, each with its position, its line and a hint. Checking what values mean is
// left to the caller: the Doc knows the position of each value.
package strictdoc

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// Options say how a kind of file is written. A limit of 0 is none.
type Options struct {
	What    string // what one file holds: "policy"
	Bytes   int    // limit of a file, less than MaxBytes
	Entries int    // limit of a list or a set of keys, where the field has none
	Text    int    // limit of one text, in bytes
	Empty   bool   // a file without anything in it is one
	Words   bool   // 0660, 550.10 and true are texts too, as they are written; else those need quotes
	Lines   bool   // texts may have line breaks and control characters
}

// A Reader reads files of one kind into a T: a struct whose fields have tags.
//
//	yaml:"key"         the field's key; "-" or none: no key sets it
//	yaml:"key,single"  a list of one may be written without the list
//	range:"0..63"      bounds of a number, or of each of a list or map
//	words:"a b"        all that a text may be, or each of a list or map
//	max:"64"           most entries of a list or map
//
// Fields are texts, bool, int, uint32, what has UnmarshalText, and structs,
// pointers, slices and maps of them. Embedded structs add their keys.
type Reader[T any] struct {
	opts   Options
	fields func() map[reflect.Type][]Field
}

// New returns a reader. T is looked at when it is first used, so that a program
// which reads no such file does not wait for it; there a field that cannot be read
// panics.
func New[T any](opts Options) *Reader[T] {
	return &Reader[T]{opts: opts, fields: sync.OnceValue(func() map[reflect.Type][]Field {
		all := map[reflect.Type][]Field{}
		collect(reflect.TypeFor[T](), all)
		return all
	})}
}

// Fields returns the keys of a struct that is part of T, in order.
func (r *Reader[T]) Fields(t reflect.Type) []Field { return r.fields()[t] }

// Read fills v. What is wrong is in the Doc, to which the caller adds what its
// own checks find; ok says that there is a document for them to look at.
func (r *Reader[T]) Read(file string, data []byte, v *T) (d *Doc, ok bool) {
	d = &Doc{file: file, data: data, opts: r.opts, fields: r.fields(), spots: map[Path]spot{}}
	body := d.body()
	if body != nil {
		d.value(body, reflect.ValueOf(v).Elem(), "", nil)
	}
	return d, body != nil && !d.failed[""] || len(d.problems) == 0
}

// body returns the document, or nil: after a report, or where an empty file is one.
func (d *Doc) body() *Node {
	if n := len(d.data); d.opts.Bytes > 0 && n > d.opts.Bytes {
		d.report(Place{}, "", "has %d bytes; a %s has at most %d", n, d.opts.What, d.opts.Bytes)
		return nil
	}
	n, fault := Parse(d.data, path.Ext(d.file) == ".json")
	switch {
	case fault != nil:
		d.report(fault.At, fault.Hint, "%s", fault.Msg)
	case n != nil && n.Kind != Null:
		return n
	case !d.opts.Empty:
		d.report(Place{1, 1}, "", "holds no %s", d.opts.What)
	}
	return nil
}

// A Path leads to a value: "gpus[0].product". The empty one is the whole file.
type Path string

// Key returns the path of what a key holds.
func (p Path) Key(key string) Path {
	if p == "" {
		return Path(key)
	}
	return p + "." + Path(key)
}

// Item returns the path of an entry of a list.
func (p Path) Item(i int) Path { return p + "[" + Path(strconv.Itoa(i)) + "]" }

// up returns the path above, or one of them: a key may have a dot.
func (p Path) up() Path {
	return p[:max(strings.LastIndexAny(string(p), ".["), 0)]
}

func (p Path) String() string {
	if p == "" {
		return "the file"
	}
	return string(p)
}

// A spot is where a key and its value stand.
type spot struct{ key, value Place }

// A Doc is one file that was read: where everything stands in it, and what is
// wrong.
type Doc struct {
	file     string
	data     []byte
	lines    []string // of data, once one is needed
	opts     Options
	fields   map[reflect.Type][]Field
	spots    map[Path]spot
	failed   map[Path]bool // what could not be read: nothing more is said of it
	problems Problems
	untold   int // problems beyond maxProblems
}

// Has reports whether the file has something at p.
func (d *Doc) Has(p Path) bool { _, ok := d.spots[p]; return ok }

// Lines returns the line of each value that the file has, that of its key where it has
// one, by its path.
func (d *Doc) Lines() map[Path]int {
	out := make(map[Path]int, len(d.spots))
	for p, s := range d.spots {
		out[p] = s.key.Line
	}
	return out
}

// Failed reports whether the value at p could not be read, which was reported.
func (d *Doc) Failed(p Path) bool { return d.failed[p] }

// FailedBelow reports whether something in the value at p could not be read.
func (d *Doc) FailedBelow(p Path) bool {
	for f := range d.failed {
		if strings.HasPrefix(string(f), string(p)+".") || strings.HasPrefix(string(f), string(p)+"[") {
			return true
		}
	}
	return false
}

// At reports a problem with the value at p, or with the closest thing above it
// that stands in the file. Of a value that could not be read, nothing more is
// said. An error formatted with %w is the problem's cause.
func (d *Doc) At(p Path, hint, format string, args ...any) {
	if !d.failed[p] {
		d.report(d.find(p).value, hint, format, args...)
	}
}

// AtKey reports a problem with the key at p.
func (d *Doc) AtKey(p Path, hint, format string, args ...any) {
	d.report(d.find(p).key, hint, format, args...)
}

// maxProblems is how many of one file are told; what is beyond is counted.
const maxProblems = 200

// Err returns Problems, by line and column, or nil when there is none.
func (d *Doc) Err() error {
	err := d.problems.Err()
	if d.untold > 0 {
		err = append(err.(Problems), &Problem{File: d.file, Msg: fmt.Sprintf("%d more problems", d.untold)})
	}
	return err
}

func (d *Doc) find(p Path) spot {
	for ; p != ""; p = p.up() {
		if s, ok := d.spots[p]; ok {
			return s
		}
	}
	return spot{Place{1, 1}, Place{1, 1}}
}

// fail reports a value that could not be read.
func (d *Doc) fail(at Place, p Path, hint, format string, args ...any) {
	d.report(at, hint, format, args...)
	d.forget(p)
}

func (d *Doc) forget(p Path) {
	if d.failed == nil {
		d.failed = map[Path]bool{}
	}
	d.failed[p] = true
}

func (d *Doc) report(at Place, hint, format string, args ...any) {
	if len(d.problems) == maxProblems {
		d.untold++
		return
	}
	err := fmt.Errorf(format, args...)
	p := &Problem{File: d.file, Line: at.Line, Column: at.Column, Hint: hint, Msg: oneLine(err.Error()), Err: errors.Unwrap(err)}
	if d.lines == nil {
		d.lines = strings.Split(strings.TrimPrefix(string(d.data), "\ufeff"), "\n")
	}
	if at.Line > 0 && at.Line <= len(d.lines) {
		p.source = strings.TrimRight(d.lines[at.Line-1], "\r")
	}
	d.problems = append(d.problems, p)
}
