package scenarios

import "bytes"

// maxNesting is far more than any file means. The YAML parser takes memory that
// grows with the square of the nesting (B11).
const maxNesting = 100

// tooDeep returns the line, from 1, at which data nests deeper than maxNesting;
// 0: nowhere. It counts brackets and list marks without reading the text, so
// that nothing is parsed before it is known to be harmless.
func tooDeep(data []byte) int {
	open, line := 0, 0
	for text := range bytes.Lines(data) {
		line++
		marks := 0
		for rest := bytes.TrimLeft(text, " "); ; marks++ {
			after, ok := bytes.CutPrefix(rest, []byte("- "))
			if !ok {
				break
			}
			rest = bytes.TrimLeft(after, " ")
		}
		for _, c := range text {
			switch c {
			case '[', '{':
				open++
			case ']', '}':
				open = max(open-1, 0)
			}
			if open+marks > maxNesting {
				return line
			}
		}
	}
	return 0
}
