package cli

import "strings"

// isRecording reports whether a host is named by the file of a recording.
func isRecording(name string) bool { return strings.HasSuffix(name, ".txtar") }
