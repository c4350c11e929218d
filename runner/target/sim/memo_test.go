package sim

import (
	"reflect"
	"testing"

	"gpurig/core/plan"
)

// A field that is added to a plan and forgotten here would make two plans one.
func TestEveryFieldOfAPlanIsInItsKey(t *testing.T) {
	p := plan.Plan{}
	fill(reflect.ValueOf(&p).Elem())
	key := func() string { d := newDigest(); d.plan(p); return d.key() }
	base, n := key(), 0
	each(reflect.ValueOf(&p).Elem(), "Plan", func(path string, change func() (undo func())) {
		undo := change()
		if key() == base {
			t.Errorf("%s is not in the key", path)
		}
		undo()
		n++
	})
	if n < 35 || key() != base {
		t.Fatalf("%d fields were tried", n)
	}
}

// fill gives every slice one element.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	}
}

// each calls f for every value that is no struct.
func each(v reflect.Value, path string, f func(string, func() func())) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			each(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
		return
	case reflect.Slice:
		each(v.Index(0), path+"[0]", f)
	}
	f(path, func() func() {
		old := reflect.ValueOf(v.Interface())
		switch v.Kind() {
		case reflect.Slice:
			v.Set(reflect.Append(v, v.Index(0)))
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		default:
			v.SetUint(7)
		}
		return func() { v.Set(old) }
	})
}
