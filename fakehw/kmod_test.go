package fakehw

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// look finds a key in an index as libkmod does: node by node, from the root.
func look(index []byte, key string) (value string, ok bool) {
	at := binary.BigEndian.Uint32(index[8:])
	for {
		p := at & 0x0fffffff
		var first, last byte
		children := p + 2
		if at&nodeChildren != 0 {
			first, last = index[p], index[p+1]
			p = children + 4*uint32(last-first+1)
		}
		switch {
		case key == "" && at&nodeValues == 0:
			return "", false
		case key == "":
			text := index[p+8:]
			return string(text[:bytes.IndexByte(text, 0)]), true
		case at&nodeChildren == 0 || key[0] < first || key[0] > last:
			return "", false
		}
		if at = binary.BigEndian.Uint32(index[children+4*uint32(key[0]-first):]); at == 0 {
			return "", false
		}
		key = key[1:]
	}
}

func TestIndexOfModules(t *testing.T) {
	var x trie
	words := map[string]string{"nvidia": "updates/nvidia.ko:", "nvidia_uvm": "updates/nvidia-uvm.ko: updates/nvidia.ko", "vfio": "kernel/vfio.ko:"}
	for k, v := range words {
		x.put(k, v)
	}
	index := []byte(x.index())
	if magic := binary.BigEndian.Uint32(index); magic != indexMagic {
		t.Errorf("magic %x", magic)
	}
	for k, v := range words {
		if got, ok := look(index, k); !ok || got != v {
			t.Errorf("%s: %q, %v, want %q", k, got, ok, v)
		}
	}
	for _, k := range []string{"", "nvid", "nvidia_", "vfio_pci", "z"} {
		if got, ok := look(index, k); ok {
			t.Errorf("%q is there: %q", k, got)
		}
	}
}
