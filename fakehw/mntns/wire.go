package mntns

import (
	"encoding/binary"
	"fmt"
	"io"
)

// The wire between parent and child: frames of a head (one byte of status, two
// lengths of four bytes, little-endian), a word and a body. A request's word is
// its kind; a reply's word is a hint.
type frame struct {
	status byte
	word   string
	body   []byte
}

const (
	statusOK    byte = iota // a request, or a reply
	statusError             // the body is an error text
	statusSetup             // the child cannot serve at all; the body says why
	headSize    = 9
	maxWord     = 4 << 10
	maxBody     = 256 << 20
)

func writeFrame(w io.Writer, f frame) error {
	if len(f.word) > maxWord || len(f.body) > maxBody {
		return fmt.Errorf("message of %d and %d bytes: the limits are %d and %d", len(f.word), len(f.body), maxWord, maxBody)
	}
	buf := make([]byte, headSize, headSize+len(f.word)+len(f.body))
	buf[0] = f.status
	binary.LittleEndian.PutUint32(buf[1:], uint32(len(f.word)))
	binary.LittleEndian.PutUint32(buf[5:], uint32(len(f.body)))
	buf = append(append(buf, f.word...), f.body...)
	_, err := w.Write(buf)
	return err
}

// readFrame reads one frame; io.EOF says that none begins any more.
func readFrame(r io.Reader) (frame, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	word, body := binary.LittleEndian.Uint32(head[1:]), binary.LittleEndian.Uint32(head[5:])
	if head[0] > statusSetup || word > maxWord || body > maxBody {
		return frame{}, fmt.Errorf("message head %x: not one of ours", head)
	}
	buf := make([]byte, int(word)+int(body))
	if _, err := io.ReadFull(r, buf); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	return frame{status: head[0], word: string(buf[:word]), body: buf[word:]}, nil
}
