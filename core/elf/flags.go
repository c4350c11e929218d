package elf

// Flags of cache entries, as glibc's ldconfig.h has them: the kind of library
// in the low byte, what the processor must offer in the next.
const (
	flagELF   = 0x0001 // any: the loader takes it for every kind
	flagLibc6 = 0x0003

	flagPPC64     = 0x0500
	flagS390x     = 0x0400
	flagX8664     = 0x0300
	flagX32       = 0x0800
	flagARMHard   = 0x0900
	flagAArch64   = 0x0a00
	flagARMSoft   = 0x0b00
	flagRISCVSoft = 0x0f00
	flagRISCVHard = 0x1000
	flagLoongSoft = 0x1100
	flagLoongHard = 0x1200

	efARMHard  = 0x400 // EF_ARM_ABI_FLOAT_HARD
	efARMSoft  = 0x200 // EF_ARM_ABI_FLOAT_SOFT
	efRISCV    = 0x6   // EF_RISCV_FLOAT_ABI
	efRISCVDbl = 0x4
	efLoong    = 0x7 // EF_LOONGARCH_ABI_MODIFIER
	efLoongDbl = 0x3
)

// CacheFlags returns the flags that glibc's cache has for a library: 0x0303 for
// x86-64, 0x0a03 for aarch64, 0x0003 for i386. A library of i386 that needs
// neither libc.so.6 nor libm.so.6 and has not glibc's interpreter is 0x0001, its
// loader for one (seen with glibc 2.36; other machines have no such kind). It is false for a machine, or a
// width of one, that the cache does not know.
func (f File) CacheFlags() (flags int32, ok bool) {
	wide := f.Class == Class64
	switch f.Machine {
	case I386:
		if !f.NeedsLibc && f.Interp != "/lib/ld-linux.so.2" {
			return flagELF, !wide
		}
		return flagLibc6, !wide
	case X8664:
		if !wide {
			return flagLibc6 | flagX32, true
		}
		return flagLibc6 | flagX8664, true
	case AArch64:
		return flagLibc6 | flagAArch64, wide
	case ARM:
		switch {
		case wide:
			return 0, false
		case f.Flags&efARMHard != 0:
			return flagLibc6 | flagARMHard, true
		case f.Flags&efARMSoft != 0:
			return flagLibc6 | flagARMSoft, true
		}
		return flagLibc6, true
	case PPC64:
		return flagLibc6 | flagPPC64, wide
	case S390:
		if wide {
			return flagLibc6 | flagS390x, true
		}
		return flagLibc6, true
	case RISCV:
		if f.Flags&efRISCV == efRISCVDbl {
			return flagLibc6 | flagRISCVHard, wide
		}
		return flagLibc6 | flagRISCVSoft, wide && f.Flags&efRISCV == 0
	case LoongArch:
		if f.Flags&efLoong == efLoongDbl {
			return flagLibc6 | flagLoongHard, wide
		}
		return flagLibc6 | flagLoongSoft, wide
	}
	return 0, false
}
