package clib

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Symbols are the names that the releases of a library export, each with the first
// branch of the driver that has it.
type Symbols map[string]int

// ParseSymbols reads lines "NAME BRANCH"; more words, and lines that begin with "#",
// are for others.
func ParseSymbols(text string) Symbols {
	out := Symbols{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] == "#" {
			continue
		}
		if branch, err := strconv.Atoi(words[1]); err == nil {
			out[words[0]] = branch
		}
	}
	return out
}

// Of returns the library with the exported names of one branch: a name that came later, or
// that is not among s, is an undefined weak symbol, which loaders pass over. The argument
// stays as it is. An error says that it is no 64-bit library of this machine's byte order.
func (s Symbols) Of(branch int, library []byte) ([]byte, error) {
	f, err := elf.NewFile(bytes.NewReader(library))
	if err != nil {
		return nil, err
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	table := f.SectionByType(elf.SHT_DYNSYM)
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB || table == nil {
		return nil, fmt.Errorf("symbols of a library of %v, %v: want 64 bits and little endian", f.Class, f.Data)
	}
	out := slices.Clone(library)
	for i, sym := range symbols {
		if since, ok := s[sym.Name]; sym.Section == elf.SHN_UNDEF || ok && since <= branch {
			continue
		}
		at := table.Offset + uint64(i+1)*elf.Sym64Size // the first entry is not in symbols
		entry := out[at : at+elf.Sym64Size]
		entry[4] = elf.ST_INFO(elf.STB_WEAK, elf.STT_FUNC)
		binary.LittleEndian.PutUint16(entry[6:], uint16(elf.SHN_UNDEF))
		clear(entry[8:24]) // address and size
	}
	return out, nil
}
