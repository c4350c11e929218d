package legacy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// facts are what requirements are about: cuda, driver, arch and brand. A fact that is
// empty or missing is not known and fulfils every condition.
type facts map[string]string

// conditionNames are the names that a condition can have.
var conditionNames = []string{"cuda", "driver", "arch", "brand"}

// fulfil reports which part of a requirement the facts do not fulfil; empty: all.
// Alternatives have blanks between them, the conditions of one have commas.
func (f facts) fulfil(text string) (why string, err error) {
	alternatives := strings.Fields(text)
	if len(alternatives) == 0 {
		return "", nil
	}
	fulfilled := false
	for _, a := range alternatives {
		missing := ""
		for _, condition := range strings.Split(a, ",") {
			ok, err := f.holds(condition)
			if err != nil {
				return "", err
			}
			if !ok && missing == "" {
				missing = condition
			}
		}
		fulfilled = fulfilled || missing == ""
		why = cmp.Or(why, missing)
	}
	if fulfilled {
		return "", nil
	}
	if len(alternatives) > 1 {
		return text, nil
	}
	return why, nil
}

func (f facts) holds(condition string) (bool, error) {
	at := strings.IndexAny(condition, "=!<>")
	if at < 0 {
		return false, fmt.Errorf("condition %q has no comparison", condition)
	}
	name := condition[:at]
	op := condition[at : at+1]
	if at+1 < len(condition) && condition[at+1] == '=' {
		op = condition[at : at+2]
	}
	value := condition[at+len(op):]
	if !slices.Contains(conditionNames, name) {
		return false, fmt.Errorf("condition %q is about %q", condition, name)
	}
	if op == "!" || op == "==" || value == "" || name == "brand" && op != "=" && op != "!=" {
		return false, fmt.Errorf("condition %q cannot be read", condition)
	}
	have := f[name]
	if name == "brand" {
		return have == "" || strings.EqualFold(have, value) == (op == "="), nil
	}
	want, err := version(value)
	if err != nil {
		return false, fmt.Errorf("condition %q: %w", condition, err)
	}
	if have == "" {
		return true, nil
	}
	is, err := version(have)
	if err != nil {
		return false, fmt.Errorf("%s of this host: %w", name, err)
	}
	c := slices.Compare(is, want)
	switch op {
	case "=":
		return c == 0, nil
	case "!=":
		return c != 0, nil
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	}
	return c >= 0, nil
}

// version reads "12.4" and "535.113.01"; trailing zeros mean nothing.
func version(text string) ([]uint64, error) {
	var out []uint64
	for _, part := range strings.Split(text, ".") {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("version %q: not numbers with dots between", text)
		}
		out = append(out, n)
	}
	for len(out) > 0 && out[len(out)-1] == 0 {
		out = out[:len(out)-1]
	}
	return out, nil
}
