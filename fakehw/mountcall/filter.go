package mountcall

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data: of the arguments the lower half, as on every
// architecture that is little-endian.
const (
	offNr   = 0
	offArch = 4
	offArg0 = 16
)

const (
	// elsewhere are flags of mount(2) by which nothing new is mounted.
	elsewhere = unix.MS_REMOUNT | unix.MS_MOVE | unix.MS_SHARED | unix.MS_PRIVATE | unix.MS_SLAVE | unix.MS_UNBINDABLE
	magic     = 0xC0ED0000 // in the upper half of the flags, which mean nothing then
)

// filter is the program: what it does not name is allowed, and so is a call of
// another architecture than ours. Nil: it is not known for this one.
func filter() []unix.SockFilter {
	arch := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if arch == 0 {
		return nil
	}
	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	jump := func(op uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	const allow, tell = 19, 20 // where the ends are
	to := func(from, at int) uint8 { return uint8(at - from - 1) }
	return []unix.SockFilter{
		0:     load(offArch),
		1:     jump(unix.BPF_JEQ, arch, 0, to(1, allow)),
		2:     load(offNr),
		3:     jump(unix.BPF_JEQ, unix.SYS_MOUNT, to(3, 12), 0),
		4:     jump(unix.BPF_JEQ, unix.SYS_FSOPEN, to(4, tell), 0),
		5:     jump(unix.BPF_JEQ, unix.SYS_FSMOUNT, to(5, 10), 0),
		6:     jump(unix.BPF_JEQ, unix.SYS_UMOUNT2, to(6, 8), 0),
		7:     jump(unix.BPF_JEQ, unix.SYS_UNAME, to(7, tell), to(7, allow)),
		8:     load(offArg0 + 1*8),
		9:     jump(unix.BPF_JSET, unix.MNT_FORCE|unix.MNT_DETACH|unix.MNT_EXPIRE, to(9, allow), to(9, tell)),
		10:    load(offArg0 + 2*8),
		11:    jump(unix.BPF_JSET, Unseen, to(11, allow), to(11, tell)),
		12:    load(offArg0 + 3*8),
		13:    {Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xffff0000},
		14:    jump(unix.BPF_JEQ, magic, 0, to(14, 16)),
		15:    {Code: unix.BPF_LD | unix.BPF_IMM, K: 0},
		16:    jump(unix.BPF_JSET, elsewhere&0xffff0000, to(16, allow), 0),
		17:    load(offArg0 + 3*8),
		18:    jump(unix.BPF_JSET, elsewhere&0xffff, to(18, allow), to(18, tell)),
		allow: ret(unix.SECCOMP_RET_ALLOW),
		tell:  ret(unix.SECCOMP_RET_USER_NOTIF),
	}
}
