package vfiouser

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/host"
	"gpurig/core/pci"
)

var bdf = pci.BDF{Bus: 0xd0}

// files are a host's, by the last part of their names.
type files map[string]string

func (f files) ReadFile(p string) ([]byte, error) {
	if text, ok := f[filepath.Base(p)]; ok {
		return []byte(text), nil
	}
	return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrNotExist}
}
func (f files) Lstat(string) (host.Info, error)  { return host.Info{}, fs.ErrNotExist }
func (f files) Readlink(string) (string, error)  { return "", fs.ErrNotExist }
func (f files) ReadDir(string) ([]string, error) { return nil, fs.ErrNotExist }

// board are the files of a function with a BAR of 16 MiB, one of 32 GiB, ports, a ROM,
// MSI, MSI-X and a reset of its own.
func board() files {
	c := make([]byte, 4096)
	le.PutUint32(c, 0x20b9_10de)
	le.PutUint16(c[offCommand:], 0x0406)
	c[offCaps], c[offPin] = 0x68, 1
	copy(c[0x68:], []byte{capMSI, 0x78, 0x86, 0})
	copy(c[0x78:], []byte{capExpress, 0xc8, 0x02, 0, 0, 0, 0, 0x10})
	copy(c[0xc8:], []byte{capMSIX, 0, 5, 0})
	return files{"config": string(c), "vendor": "0x10de\n", "device": "0x20b9\n", "rom": "\x55\xaa",
		"resource": "0xe7000000 0xe7ffffff 0x40200\n0x222800000000 0x222fffffffff 0x14220c\n0x0 0x0 0x0\n" +
			"0x0 0x0 0x0\n0x0 0x0 0x0\n0x3000 0x307f 0x40101\n0xe8000000 0xe807ffff 0x4e200\n"}
}

func made(t testing.TB) *Function {
	t.Helper()
	f, err := Open(board(), bdf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// A talk is a vfio-user client, which stands in for QEMU here; package qemu boots the real
// one.
type talk struct {
	t    *testing.T
	conn *net.UnixConn
	id   uint16
}

// connect has a server of f and a client that has greeted it.
func connect(t *testing.T, f *Function) *talk {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- f.Serve(l, nil) }()
	t.Cleanup(func() {
		if err := errors.Join(l.Close(), f.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
	conn, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	k := &talk{t: t, conn: conn}
	got := k.ask(cmdVersion, append(words(0x0003_0000), "{}\x00"...))
	if len(got) < 5 || le.Uint16(got) != 0 || le.Uint16(got[2:]) != 1 || got[len(got)-1] != 0 {
		t.Fatalf("version %q; want 0.1 with a text that ends in NUL", got)
	}
	return k
}

// tell sends a message and reads the reply.
func (k *talk) tell(command uint16, body []byte, fds ...int) (header, []byte) {
	k.t.Helper()
	k.id++
	h := header{ID: k.id, Command: command, Size: uint32(headerSize + len(body))}
	if _, _, err := k.conn.WriteMsgUnix(append(h.append(nil), body...), unix.UnixRights(fds...), nil); err != nil {
		k.t.Fatal(err)
	}
	var head [headerSize]byte
	if _, err := io.ReadFull(k.conn, head[:]); err != nil {
		k.t.Fatal(err)
	}
	r := header{le.Uint16(head[:]), le.Uint16(head[2:]), le.Uint32(head[4:]), le.Uint32(head[8:]), le.Uint32(head[12:])}
	if r.ID != k.id || r.Command != command || r.Flags&maskType != flagReply {
		k.t.Fatalf("reply %+v to message %d", r, k.id)
	}
	out := make([]byte, r.Size-headerSize)
	if _, err := io.ReadFull(k.conn, out); err != nil {
		k.t.Fatal(err)
	}
	return r, out
}

func (k *talk) ask(command uint16, body []byte, fds ...int) []byte {
	k.t.Helper()
	h, out := k.tell(command, body, fds...)
	if h.Flags&flagError != 0 {
		k.t.Fatalf("command %d: %v", command, unix.Errno(h.Errno))
	}
	return out
}

func (k *talk) refused(want unix.Errno, command uint16, body []byte) {
	k.t.Helper()
	if h, _ := k.tell(command, body); h.Flags&flagError == 0 || unix.Errno(h.Errno) != want {
		k.t.Errorf("command %d: %v; want %v", command, unix.Errno(h.Errno), want)
	}
}

func (k *talk) read(region uint32, off uint64, n uint32) []byte {
	k.t.Helper()
	return k.ask(cmdRead, transfer{off, region, n}.append(nil))[16:]
}

func (k *talk) write(region uint32, off uint64, data ...byte) {
	k.t.Helper()
	k.ask(cmdWrite, append(transfer{off, region, uint32(len(data))}.append(nil), data...))
}

// sized is what a guest finds when it writes ones to a register.
func (k *talk) sized(off uint64) uint32 {
	k.t.Helper()
	k.write(confRegion, off, 0xff, 0xff, 0xff, 0xff)
	return le.Uint32(k.read(confRegion, off, 4))
}

func TestAClientSeesTheFunction(t *testing.T) {
	k := connect(t, made(t))
	if got := k.ask(cmdInfo, words(16, 0, 0, 0)); !bytes.Equal(got, words(16, 3, regions, irqs)) {
		t.Errorf("device %x", got)
	}
	for region, want := range map[uint32]uint64{0: 16 << 20, 1: 32 << 30, 2: 0, 5: 128, romRegion: 512 << 10, confRegion: 4096, 8: 0} {
		got := k.ask(cmdRegionInfo, words(32, 0, region, 0, 0, 0, 0, 0))
		if len(got) != 32 || le.Uint64(got[16:]) != want || (le.Uint32(got[4:]) != 0) != (want > 0) {
			t.Errorf("region %d: %x; want %d bytes", region, got, want)
		}
	}
	for kind, want := range map[uint32]uint32{irqIntx: 1, irqMSI: 8, irqMSIX: 6, irqError: 1, 4: 0} {
		if got := k.ask(cmdIRQInfo, words(16, 0, kind, 0)); le.Uint32(got[12:]) != want {
			t.Errorf("interrupts of kind %d: %x; want %d", kind, got, want)
		}
	}
	for off, want := range map[uint64]uint32{offBAR: 0xff00_0000, offBAR + 4: 0xc, offBAR + 8: 0xffff_fff8, offBAR + 12: 0, offBAR + 20: 0xffff_ff81, offROM: 0xfff8_0001, 0: 0x20b9_10de} {
		if got := k.sized(off); got != want {
			t.Errorf("ones at %#x read as %#x, want %#x", off, got, want)
		}
	}
	if got := k.read(romRegion, 0, 2); string(got) != "\x55\xaa" {
		t.Errorf("ROM %x", got)
	}
	k.refused(unix.EINVAL, cmdRead, transfer{4090, confRegion, 8}.append(nil))
	k.refused(unix.EINVAL, cmdRead, transfer{1 << 63, 1, 8}.append(nil))
	k.refused(unix.EINVAL, cmdRead, transfer{0, 2, 4}.append(nil))
	k.refused(unix.ENOSYS, 16, nil)
}

func TestAResetForgets(t *testing.T) {
	k := connect(t, made(t))
	fill := func() {
		t.Helper()
		k.write(1, 31<<30, 1, 2, 3)
		k.write(confRegion, offCommand, 6, 4)
		if got := k.read(1, 31<<30, 4); !bytes.Equal(got, []byte{1, 2, 3, 0}) || k.read(confRegion, offCommand, 1)[0] != 6 {
			t.Fatalf("nothing is kept: %x", got)
		}
	}
	empty := func(how string) {
		t.Helper()
		if got := k.read(1, 31<<30, 4); le.Uint32(got) != 0 || k.read(confRegion, offCommand, 1)[0] != 0 {
			t.Errorf("after %s: %x", how, got)
		}
	}
	empty("Open, whatever the host's driver had set")
	fill()
	k.ask(cmdReset, nil)
	empty("a reset")
	fill()
	k.write(confRegion, 0x78+8, 0, 0x80)
	empty("a reset of the function")
}

func TestMemoryAndInterrupts(t *testing.T) {
	k := connect(t, made(t))
	dma := func(addr, size uint64) []byte {
		return le.AppendUint64(le.AppendUint64(le.AppendUint64(words(32, 3), 0), addr), size)
	}
	k.ask(cmdDMAMap, dma(0, 1<<20))
	k.refused(unix.EEXIST, cmdDMAMap, dma(4096, 4096))
	k.ask(cmdDMAMap, dma(1<<20, 4096))
	unmap := func(flags uint32, addr, size uint64) []byte {
		return le.AppendUint64(le.AppendUint64(words(24, flags), addr), size)
	}
	k.refused(unix.ENOENT, cmdDMAUnmap, unmap(0, 0, 4096))
	k.ask(cmdDMAUnmap, unmap(0, 0, 1<<20))
	k.ask(cmdDMAMap, dma(0, 1<<20))
	k.ask(cmdDMAUnmap, unmap(dmaUnmapAll, 0, 0))
	k.ask(cmdDMAMap, dma(0, 1<<20))

	event, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(event)
	k.ask(cmdSetIRQs, words(20, irqEvent|irqTrigger, irqMSIX, 2, 1), event)
	k.ask(cmdSetIRQs, words(20, irqNone|irqTrigger, irqMSIX, 2, 1))
	var n [8]byte
	if _, err := unix.Read(event, n[:]); err != nil || n[0] != 1 {
		t.Errorf("a vector that was triggered: %x, %v", n, err)
	}
	k.ask(cmdSetIRQs, words(20, irqNone|irqTrigger, irqMSIX, 0, 0))
	k.ask(cmdSetIRQs, words(20, irqNone|irqTrigger, irqMSIX, 2, 1))
	if _, err := unix.Read(event, n[:]); err != unix.EAGAIN {
		t.Errorf("a vector that was taken back: %v", err)
	}
	k.refused(unix.EINVAL, cmdSetIRQs, words(20, irqNone|irqTrigger, irqMSIX, 6, 1))
}

// A function that fell off the bus reads as ones, for the next client too.
func TestALostFunction(t *testing.T) {
	f := made(t)
	k := connect(t, f)
	f.Lose()
	for region, off := range map[uint32]uint64{confRegion: 0, 0: 1024, 1: 31 << 30} {
		if got := le.Uint32(k.read(region, off, 4)); got != 0xffff_ffff {
			t.Errorf("region %d reads %#x", region, got)
		}
	}
	k.write(confRegion, offCommand, 6)
	k.refused(unix.EIO, cmdReset, nil)
}

// A guest that writes everywhere is refused before the machine that serves is full.
func TestMemoryOfABarIsBounded(t *testing.T) {
	f := made(t)
	data := make([]byte, maxTransfer)
	var err error
	for i := uint64(0); i < 2*maxHeld/maxTransfer && err == nil; i++ {
		err = f.write(transfer{i * maxTransfer, 1, maxTransfer}, data)
	}
	if err != unix.ENOSPC {
		t.Errorf("a guest fills %d bytes: %v", 2*maxHeld, err)
	}
}

// Who breaks the protocol is cut off; the next client is served.
func TestAStrangerIsCutOff(t *testing.T) {
	f := made(t)
	said := make(chan error, 1)
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- f.Serve(l, func(err error) { said <- err }) }()
	for _, tc := range []struct{ message, want string }{
		{string(header{Command: cmdRead, Size: 16}.append(nil)), "before the version"},
		{strings.Repeat("\xff", 16), "has 4294967295 bytes"},
	} {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, tc.message); err != nil {
			t.Fatal(err)
		}
		if err := <-said; !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v; want %q", tc.message, err, tc.want)
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("%q is answered", tc.message)
		}
		conn.Close()
	}
	if err := errors.Join(l.Close(), f.Close(), <-done); err != nil {
		t.Error(err)
	}
}

func TestHostsThatAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		file, text, want string
	}{
		"a short configuration space": {"config", "\x00", "has 1 bytes, want 256 or 4096"},
		"a bridge":                    {"config", strings.Repeat("\x01", 256), "is a bridge"},
		"a vendor that is no number":  {"vendor", "nvidia", "vendor: "},
		"a window of no size":         {"resource", "0x1000 0x2fff0 0x200\n", "line 1: a window from 0x1000 to 0x2fff0"},
		"a line with two numbers":     {"resource", "0x0 0x0\n", `line 1: "0x0 0x0" has 2 words`},
	} {
		f := board()
		f[tc.file] = tc.text
		if _, err := Open(f, bdf); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
	}
}
