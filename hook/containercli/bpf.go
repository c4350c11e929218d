package containercli

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"gpurig/core/device"
	"gpurig/core/place"
)

// Cgroup version 2 has no list of devices: a container manager attaches a program
// that decides, and every one that is attached has to allow. So each is replaced by
// itself with the rules before it.
//
// Reference: bpf(2), Documentation/admin-guide/cgroup-v2.rst, "Device controller"

// An insn is one instruction: struct bpf_insn.
type insn struct {
	code uint8
	regs uint8 // the source in the upper half
	off  int16
	imm  int32
}

// allowV2 changes the programs of the cgroup at dir. Without any, all is allowed.
func allowV2(dir string, rules []place.Rule) error {
	cgroup, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer cgroup.Close()
	flags, ids, err := attachedTo(cgroup)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := replace(cgroup, flags, id, rules); err != nil {
			return err
		}
	}
	return nil
}

// maxPrograms is how many programs a cgroup can have: BPF_CGROUP_MAX_PROGS.
const maxPrograms = 64

// attachedTo returns the device programs of a cgroup itself and how they are attached.
func attachedTo(cgroup *os.File) (flags uint32, ids []uint32, err error) {
	ids = make([]uint32, maxPrograms)
	q := struct {
		target, kind, query, flags uint32
		ids                        uint64
		count                      uint32
		_                          uint32
		_                          [4]uint64
	}{target: uint32(cgroup.Fd()), kind: unix.BPF_CGROUP_DEVICE, ids: address(&ids[0]), count: maxPrograms}
	_, err = bpf(unix.BPF_PROG_QUERY, unsafe.Pointer(&q), unsafe.Sizeof(q))
	runtime.KeepAlive(ids)
	if err != nil {
		return 0, nil, fmt.Errorf("query: %w", err)
	}
	return q.flags, ids[:q.count], nil
}

func replace(cgroup *os.File, flags, id uint32, rules []place.Rule) error {
	get := struct{ id, next, flags uint32 }{id: id}
	old, err := bpf(unix.BPF_PROG_GET_FD_BY_ID, unsafe.Pointer(&get), unsafe.Sizeof(get))
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer unix.Close(old)
	code, err := instructions(old)
	if err != nil {
		return err
	}
	changed, err := load(append(allowing(rules), code...))
	if err != nil {
		return err
	}
	defer unix.Close(changed)
	a := attachment{target: uint32(cgroup.Fd()), program: uint32(changed), kind: unix.BPF_CGROUP_DEVICE, flags: flags}
	if flags&unix.BPF_F_ALLOW_MULTI != 0 {
		a.flags, a.replace = flags|unix.BPF_F_REPLACE, uint32(old)
	}
	return a.attach()
}

// An attachment is what BPF_PROG_ATTACH reads.
type attachment struct{ target, program, kind, flags, replace uint32 }

func (a attachment) attach() error {
	if _, err := bpf(unix.BPF_PROG_ATTACH, unsafe.Pointer(&a), unsafe.Sizeof(a)); err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	return nil
}

// instructions reads a program as the kernel has it, which for this kind is as it
// was loaded.
func instructions(program int) ([]insn, error) {
	var info struct { // the beginning of struct bpf_prog_info
		kind, id     uint32
		tag          [8]byte
		jited, bytes uint32
		jitedAt, at  uint64
	}
	ask := func() error {
		q := struct {
			fd, size uint32
			info     uint64
		}{uint32(program), uint32(unsafe.Sizeof(info)), address(&info)}
		_, err := bpf(unix.BPF_OBJ_GET_INFO_BY_FD, unsafe.Pointer(&q), unsafe.Sizeof(q))
		return err
	}
	if err := ask(); err != nil {
		return nil, fmt.Errorf("size: %w", err)
	}
	if info.bytes == 0 {
		return nil, fmt.Errorf("the kernel does not show it: %w", unix.EPERM)
	}
	code := make([]insn, info.bytes/uint32(unsafe.Sizeof(insn{})))
	size := info.bytes
	info.jited, info.jitedAt, info.bytes, info.at = 0, 0, size, address(&code[0])
	err := ask()
	runtime.KeepAlive(code)
	if err != nil || info.bytes != size {
		return nil, fmt.Errorf("instructions: %w", err)
	}
	return code, nil
}

func load(code []insn) (int, error) {
	license := [...]byte{'A', 'p', 'a', 'c', 'h', 'e', 0}
	l := struct {
		kind, count           uint32
		code, license         uint64
		level, size           uint32
		log                   uint64
		kernel, flags         uint32
		name                  [16]byte
		ifindex, attachedLike uint32
	}{kind: unix.BPF_PROG_TYPE_CGROUP_DEVICE, count: uint32(len(code)), code: address(&code[0]), license: address(&license[0])}
	fd, err := bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&l), unsafe.Sizeof(l))
	runtime.KeepAlive(code)
	runtime.KeepAlive(&license)
	if err != nil {
		return -1, fmt.Errorf("load: %w", err)
	}
	return fd, nil
}

// allowing are instructions that end with "allowed" for the devices of rules, and
// else go on after their end with register 1 as it was.
func allowing(rules []place.Rule) []insn {
	const (
		load32 = unix.BPF_LDX | unix.BPF_MEM | unix.BPF_W
		move   = unix.BPF_ALU64 | unix.BPF_MOV
		and    = unix.BPF_ALU64 | unix.BPF_AND
		shift  = unix.BPF_ALU64 | unix.BPF_RSH
		unless = unix.BPF_JMP | unix.BPF_JNE
		exit   = unix.BPF_JMP | unix.BPF_EXIT
		x      = unix.BPF_X
	)
	reg := func(to, from uint8) uint8 {
		if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
			return from<<4 | to
		}
		return to<<4 | from
	}
	code := []insn{ // struct bpf_cgroup_dev_ctx: access in the upper half of the type, major, minor
		{load32, reg(2, 1), 0, 0}, {move | x, reg(3, 2), 0, 0}, {and, reg(3, 0), 0, 0xffff}, {shift, reg(2, 0), 0, 16},
		{load32, reg(4, 1), 4, 0}, {load32, reg(5, 1), 8, 0},
	}
	for _, r := range rules {
		kind, access := int32(unix.BPF_DEVCG_DEV_CHAR), int32(0)
		if r.Type == device.Block {
			kind = unix.BPF_DEVCG_DEV_BLOCK
		}
		if strings.Contains(r.Access, "r") {
			access |= unix.BPF_DEVCG_ACC_READ
		}
		if strings.Contains(r.Access, "w") {
			access |= unix.BPF_DEVCG_ACC_WRITE
		}
		code = append(code,
			insn{unless, reg(3, 0), 7, kind}, insn{move | x, reg(0, 2), 0, 0}, insn{and, reg(0, 0), 0, 0xffff &^ access}, insn{unless, reg(0, 0), 4, 0},
			insn{unless, reg(4, 0), 3, int32(r.Num.Major)}, insn{unless, reg(5, 0), 2, int32(r.Num.Minor)}, insn{move, reg(0, 0), 0, 1}, insn{exit, 0, 0, 0})
	}
	return code
}

func address[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

func bpf(command int, attr unsafe.Pointer, size uintptr) (int, error) {
	r, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(command), uintptr(attr), size)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}
