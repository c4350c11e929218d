package nvidia

import (
	"bufio"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
)

// A csvLine is one line of a CSV file that nvcdi carries out.
type csvLine struct {
	Number int    // from 1
	Type   string // "dev", "dir", "lib" or "sym"
	Path   string // absolute, may be a pattern
}

// A csvProblem is a line that is wrong. Fatal: nvcdi would carry it out all the
// same, or lose what comes after it.
type csvProblem struct {
	Number int
	Msg    string
	Fatal  bool
}

var csvTypes = []string{"dev", "dir", "lib", "sym"}

// kernelMemory are device nodes that no container gets, whoever wrote the file.
var kernelMemory = []string{"/dev/mem", "/dev/kmem", "/dev/port"}

// parseCSV reads the lines "type, path" of a CSV file as nvcdi does: split at
// the first comma, both halves trimmed. nvcdi drops a line that is none without
// a word, and at one of 64 KiB it stops, keeping what it has; here both are
// problems. Empty lines and comments are neither.
func parseCSV(data []byte) (lines []csvLine, problems []csvProblem) {
	n := 0
	for text := range strings.Lines(string(data)) {
		n++
		if len(text) >= bufio.MaxScanTokenSize {
			return lines, append(problems, csvProblem{n, fmt.Sprintf("is longer than %d bytes: the generator would not read on", bufio.MaxScanTokenSize-1), true})
		}
		if text = strings.TrimSpace(text); text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		l := csvLine{Number: n}
		kind, at, ok := strings.Cut(text, ",")
		l.Type, l.Path = strings.TrimSpace(kind), strings.TrimSpace(at)
		if msg, fatal := l.judge(ok); msg != "" {
			problems = append(problems, csvProblem{n, msg, fatal})
			continue
		}
		lines = append(lines, l)
	}
	return lines, problems
}

// judge says what is wrong with a line; nothing is wrong with most.
func (l csvLine) judge(comma bool) (msg string, fatal bool) {
	switch {
	case !comma:
		return fmt.Sprintf("has no comma: %.80q", l.Type), false
	case strings.HasPrefix(l.Type, "\ufeff"):
		return "begins with a byte order mark, which hides its type", false
	case !slices.Contains(csvTypes, l.Type):
		return fmt.Sprintf("has the type %.40q, not one of %s", l.Type, strings.Join(csvTypes, ", ")), false
	case l.Path == "":
		return "has no path", false
	case !strings.HasPrefix(l.Path, "/") || strings.ContainsFunc(l.Path, unicode.IsControl):
		return fmt.Sprintf("has %.80q, which is no absolute path", l.Path), true
	case slices.Contains(strings.Split(l.Path, "/"), ".."):
		return fmt.Sprintf("has %.80q, which leads upwards", l.Path), true
	case path.Clean(l.Path) == "/":
		return "would pass the host's whole file system", true
	case slices.Contains(kernelMemory, path.Clean(l.Path)):
		return fmt.Sprintf("would pass %s, the memory of the host", l.Path), true
	}
	return "", false
}
