package clib_test

import (
	"strings"
	"testing"

	"gpurig/fakehw/clib"
)

func TestParseSymbols(t *testing.T) {
	s := clib.ParseSymbols("# A comment of 3 words\n\nnvmlInit 418\ncudbgMain 470 data\nbad\n")
	if len(s) != 2 || s["nvmlInit"] != 418 || s["cudbgMain"] != 470 {
		t.Errorf("symbols are %v", s)
	}
}

func TestSymbolsOfWhatIsNoLibrary(t *testing.T) {
	for _, text := range []string{"", "text", "\x7fELF" + strings.Repeat("\x00", 100)} {
		if out, err := (clib.Symbols{}).Of(550, []byte(text)); err == nil || out != nil {
			t.Errorf("%q: %d bytes, %v", text, len(out), err)
		}
	}
}
