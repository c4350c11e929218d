// Package vfiouser serves PCI functions of a host to virtual machines, as a device's
// side of the protocol vfio-user: QEMU 10.1 and later gives a machine such a function
// by "-device vfio-user-pci". The guest finds it as it would find the real one behind
// VFIO: configuration space, BARs of the board's size, ROM, interrupts and reset.
//
// No engine is behind it: a BAR keeps what is written to it until the next reset, and
// nothing reads or writes the guest's memory. What a guest's driver would do with a
// real board is not shown.
//
// Reference: https://www.qemu.org/docs/master/interop/vfio-user.html, protocol 0.1
package vfiouser

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"gpurig/core/host"
	"gpurig/core/pci"
)

// Flags of a BAR as sysfs prints them (include/linux/ioport.h).
const (
	flagIO   = 0x100
	flagPref = 0x2000
	flag64   = 0x100000
)

// A bar is one base address register, or the ROM's.
type bar struct {
	size, flags uint64 // bytes, a power of two; 0: there is none
	memory      int    // file whose holes are zero; -1: none
}

func (b bar) is64() bool { return b.size > 0 && b.flags&flag64 != 0 }

// low are the low bits of the register, which no write changes.
func (b bar) low() uint32 {
	switch {
	case b.size == 0:
		return 0
	case b.flags&flagIO != 0:
		return 1
	}
	var bits uint32
	if b.flags&flag64 != 0 {
		bits |= 4
	}
	if b.flags&flagPref != 0 {
		bits |= 8
	}
	return bits
}

// A Function is one PCI function that can be served. It is safe for use by several
// goroutines. Close it.
type Function struct {
	mu    sync.Mutex
	space *space
	bars  [barRegions + 1]bar
	lost  bool
	conn  io.Closer // the client's; nil: there is none
	ended bool
}

// Open returns the function at b of a host, after a reset: what its files in sysfs say.
func Open(r host.Root, b pci.BDF) (*Function, error) {
	dir := "/sys/bus/pci/devices/" + b.String()
	config, err := r.ReadFile(dir + "/config")
	if err != nil {
		return nil, err
	}
	if len(config) != 256 && len(config) != 4096 {
		return nil, fmt.Errorf("%s/config has %d bytes, want 256 or 4096", dir, len(config))
	}
	config = append([]byte(nil), config...)
	if config[0x0e]&0x7f != 0 {
		return nil, fmt.Errorf("%s is a bridge, which goes to no machine", b)
	}
	// Of a virtual function VFIO has these from the kernel, as its own read all ones.
	for off, name := range map[int]string{0: "vendor", 2: "device"} {
		text, err := r.ReadFile(dir + "/" + name)
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 16)
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", dir, name, err)
		}
		le.PutUint16(config[off:], uint16(n))
	}
	f := &Function{}
	for i := range f.bars {
		f.bars[i].memory = -1
	}
	text, err := r.ReadFile(dir + "/resource")
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(text), "\n") {
		if i >= len(f.bars) {
			break
		}
		if err := f.bars[i].parse(line); err != nil {
			return nil, errors.Join(fmt.Errorf("%s/resource: line %d: %w", dir, i+1, err), f.Close())
		}
	}
	rom, err := r.ReadFile(dir + "/rom")
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EINVAL) {
		return nil, errors.Join(err, f.Close())
	}
	if len(rom) > 0 && f.bars[romRegion].size > 0 {
		if _, err := unix.Pwrite(f.bars[romRegion].memory, rom[:min(len(rom), int(f.bars[romRegion].size))], 0); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	f.space = newSpace(config, f.bars)
	return f, nil
}

// parse reads a line of sysfs' file resource: first and last address, flags.
func (b *bar) parse(line string) error {
	var n [3]uint64
	words := strings.Fields(line)
	if len(words) != 3 {
		return fmt.Errorf("%q has %d words, want 3", line, len(words))
	}
	for i, w := range words {
		var err error
		if n[i], err = strconv.ParseUint(w, 0, 64); err != nil {
			return err
		}
	}
	if n[2] == 0 {
		return nil
	}
	size := n[1] - n[0] + 1
	if size == 0 || size&(size-1) != 0 || n[1] < n[0] || size > 1<<48 {
		return fmt.Errorf("a window from %#x to %#x is none that a BAR has", n[0], n[1])
	}
	fd, err := unix.MemfdCreate("gpurig-bar", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("memfd: %w", err)
	}
	b.size, b.flags, b.memory = size, n[2], fd
	return unix.Ftruncate(fd, int64(size))
}

// Lose has the function fall off the bus: from now on it reads as ones, and takes no
// write, as it is with a board whose link is down.
func (f *Function) Lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = true
}

// Close cuts off a client and frees the memory of the BARs.
func (f *Function) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	if f.ended = true; f.conn != nil {
		errs = append(errs, f.conn.Close())
		f.conn = nil
	}
	for i := range f.bars {
		if f.bars[i].memory >= 0 {
			errs = append(errs, unix.Close(f.bars[i].memory))
			f.bars[i].memory = -1
		}
	}
	return errors.Join(errs...)
}

// connect has conn be the client's, until it is closed; not where f is closed.
func (f *Function) connect(conn io.Closer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.conn = conn
	}
	return !f.ended
}

// disconnect closes conn, unless Close has.
func (f *Function) disconnect() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn != nil {
		f.conn.Close()
		f.conn = nil
	}
}

// reset makes the function as it was at Open, but a ROM, which is never written to.
func (f *Function) reset() error {
	if f.lost {
		return unix.EIO
	}
	copy(f.space.now, f.space.reset)
	for _, b := range f.bars[:barRegions] {
		if b.memory < 0 {
			continue
		}
		if err := errors.Join(unix.Ftruncate(b.memory, 0), unix.Ftruncate(b.memory, int64(b.size))); err != nil {
			return err
		}
	}
	return nil
}

// size is how many bytes a region has; 0: there is no such region.
func (f *Function) size(region uint32) uint64 {
	switch {
	case region < uint32(len(f.bars)):
		return f.bars[region].size
	case region == confRegion:
		return uint64(len(f.space.now))
	}
	return 0
}

// within checks that a transfer is inside its region.
func (f *Function) within(t transfer) error {
	if size := f.size(t.Region); t.Offset > size || uint64(t.Count) > size-t.Offset {
		return unix.EINVAL
	}
	return nil
}

func (f *Function) read(t transfer) ([]byte, error) {
	if err := f.within(t); err != nil {
		return nil, err
	}
	out := make([]byte, t.Count)
	switch {
	case f.lost:
		for i := range out {
			out[i] = 0xff
		}
	case t.Region == confRegion:
		copy(out, f.space.now[t.Offset:])
	case t.Count > 0:
		if n, err := unix.Pread(f.bars[t.Region].memory, out, int64(t.Offset)); err != nil || n < len(out) {
			return nil, errors.Join(err, unix.EIO)
		}
	}
	return out, nil
}

// maxHeld is how much of its BARs' memory a guest can fill before writes are refused:
// the process that serves must outlive a guest that writes everywhere.
const maxHeld = 64 << 20

func (f *Function) write(t transfer, data []byte) error {
	if err := f.within(t); err != nil || f.lost {
		return err
	}
	switch {
	case t.Region == romRegion:
		return nil // as on the board: it takes no write
	case t.Region == confRegion:
		if f.space.write(int(t.Offset), data) {
			return f.reset()
		}
		return nil
	}
	b := f.bars[t.Region]
	var st unix.Stat_t
	if err := unix.Fstat(b.memory, &st); err != nil {
		return err
	}
	if st.Blocks*512 >= maxHeld {
		return unix.ENOSPC
	}
	if n, err := unix.Pwrite(b.memory, data, int64(t.Offset)); err != nil || n < len(data) {
		return errors.Join(err, unix.EIO)
	}
	return nil
}
