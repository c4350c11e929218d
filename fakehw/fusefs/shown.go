package fusefs

import "github.com/hanwen/go-fuse/v2/fuse"

// A shown is an open file of the kernel's that has a content of the moment: what is
// read on is of the content that the read before was of, so that nobody sees the
// start of one and the end of another. From the start, or after a seek, it is that of
// now (seq_read_iter in fs/seq_file.c). The lock of the tree must be held.
type shown struct {
	data []byte
	next int64 // where the last read ended
}

func (s *shown) read(now, dest []byte, off int64) fuse.ReadResult {
	if off == 0 || off != s.next {
		s.data = now
	}
	got := part(s.data, dest, off)
	s.next = off + int64(len(got))
	return fuse.ReadResultData(got)
}
