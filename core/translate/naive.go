//go:build naive

package translate

// The negative control: every text is good, every option is passed on, and
// nothing is ever mounted below a directory. The tests of the attacks must fail
// with it; no program is built of it.

func textProblem(string) string { return "" }

func (l *look) submount(string) (string, error) { return "", nil }

func (p *part) known(string) bool { return true }
