#include "textflag.h"

// entry does what emptyBoundingSet does on the program's only thread, and goes on to
// where Go programs begin. Where it may not, nothing is changed.
TEXT ·entry(SB), NOSPLIT|NOFRAME, $0
	SUB  $32, RSP
	MOVW $0x20080522, R0 // the header: _LINUX_CAPABILITY_VERSION_3, this thread
	MOVW R0, 0(RSP)
	MOVW ZR, 4(RSP)
	MOVD $90, R8         // capget: effective, permitted, inheritable, twice
	MOVD RSP, R0
	ADD  $8, RSP, R1
	SVC
	CBNZ R0, start
	MOVW 12(RSP), R0     // inheritable is what is permitted: the next program has it
	MOVW R0, 16(RSP)
	MOVW 24(RSP), R0
	MOVW R0, 28(RSP)
	MOVD $91, R8         // capset
	MOVD RSP, R0
	ADD  $8, RSP, R1
	SVC
	CBNZ R0, start
	MOVD $63, R19

drop:
	MOVD $167, R8 // prctl
	MOVD $24, R0  // PR_CAPBSET_DROP
	MOVD R19, R1
	MOVD ZR, R2
	MOVD ZR, R3
	MOVD ZR, R4
	SVC
	SUBS $1, R19, R19
	BGE  drop

start:
	ADD $32, RSP
	B   _rt0_arm64_linux(SB)
