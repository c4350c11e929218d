package mountcall

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// told runs the filter on a call, as the kernel does.
func told(t *testing.T, arch uint32, nr int, args ...uint64) bool {
	t.Helper()
	data := make([]byte, 64)
	binary.LittleEndian.PutUint32(data[offNr:], uint32(nr))
	binary.LittleEndian.PutUint32(data[offArch:], arch)
	for i, a := range args {
		binary.LittleEndian.PutUint64(data[offArg0+8*i:], a)
	}
	code := filter()
	var a uint32
	for pc := 0; pc < len(code); pc++ {
		x := code[pc]
		yes := false
		switch x.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = binary.LittleEndian.Uint32(data[x.K:])
			continue
		case unix.BPF_LD | unix.BPF_IMM:
			a = x.K
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= x.K
			continue
		case unix.BPF_RET | unix.BPF_K:
			return x.K == unix.SECCOMP_RET_USER_NOTIF
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			yes = a == x.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			yes = a&x.K != 0
		default:
			t.Fatalf("instruction %d is not understood: %+v", pc, x)
		}
		if yes {
			pc += int(x.Jt)
		} else {
			pc += int(x.Jf)
		}
	}
	t.Fatal("the program has no end")
	return false
}

func TestWhichCallsAreTold(t *testing.T) {
	if filter() == nil {
		t.Skip("there is no filter for this architecture")
	}
	arch := filter()[1].K
	for _, tc := range []struct {
		name string
		nr   int
		args []uint64
		want bool
	}{
		{"read", unix.SYS_READ, nil, false},
		{"move_mount", unix.SYS_MOVE_MOUNT, nil, false},
		{"mount", unix.SYS_MOUNT, []uint64{1, 1, 1, unix.MS_NOSUID | unix.MS_RDONLY, 0}, true},
		{"mount, as older programs do", unix.SYS_MOUNT, []uint64{1, 1, 1, magic | unix.MS_NOSUID, 0}, true},
		{"bind", unix.SYS_MOUNT, []uint64{1, 1, 0, unix.MS_BIND | unix.MS_REC, 0}, true},
		{"remount", unix.SYS_MOUNT, []uint64{1, 1, 0, unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY, 0}, false},
		{"remount, as older programs do", unix.SYS_MOUNT, []uint64{1, 1, 0, magic | unix.MS_REMOUNT, 0}, false},
		{"move", unix.SYS_MOUNT, []uint64{1, 1, 0, unix.MS_MOVE, 0}, false},
		{"make private", unix.SYS_MOUNT, []uint64{1, 1, 0, unix.MS_PRIVATE | unix.MS_REC, 0}, false},
		{"make shared", unix.SYS_MOUNT, []uint64{1, 1, 0, unix.MS_SHARED, 0}, false},
		{"fsopen", unix.SYS_FSOPEN, []uint64{1, 1}, true},
		{"fsmount", unix.SYS_FSMOUNT, []uint64{3, 1, unix.MOUNT_ATTR_NOSUID}, true},
		{"fsmount that is not to be seen", unix.SYS_FSMOUNT, []uint64{3, 1, unix.MOUNT_ATTR_NOSUID | Unseen}, false},
		{"uname", unix.SYS_UNAME, []uint64{1}, true},
		{"umount", unix.SYS_UMOUNT2, []uint64{1, unix.UMOUNT_NOFOLLOW}, true},
		{"umount with what is below", unix.SYS_UMOUNT2, []uint64{1, unix.MNT_DETACH}, false},
	} {
		if got := told(t, arch, tc.nr, tc.args...); got != tc.want {
			t.Errorf("%s is told of: %v; want %v", tc.name, got, tc.want)
		}
		if told(t, arch+1, tc.nr, tc.args...) {
			t.Errorf("%s of another architecture is told of", tc.name)
		}
	}
}
