#include "textflag.h"

// entry does what emptyBoundingSet does on the program's only thread, and goes on to
// where Go programs begin. Where it may not, nothing is changed.
TEXT ·entry(SB), NOSPLIT|NOFRAME, $0
	SUBQ  $32, SP
	MOVL  $0x20080522, 0(SP) // the header: _LINUX_CAPABILITY_VERSION_3, this thread
	MOVL  $0, 4(SP)
	MOVL  $125, AX           // capget: effective, permitted, inheritable, twice
	LEAQ  0(SP), DI
	LEAQ  8(SP), SI
	SYSCALL
	TESTQ AX, AX
	JNE   start
	MOVL  12(SP), AX         // inheritable is what is permitted: the next program has it
	MOVL  AX, 16(SP)
	MOVL  24(SP), AX
	MOVL  AX, 28(SP)
	MOVL  $126, AX           // capset
	LEAQ  0(SP), DI
	LEAQ  8(SP), SI
	SYSCALL
	TESTQ AX, AX
	JNE   start
	MOVL  $63, BX

drop:
	MOVL $157, AX // prctl
	MOVL $24, DI  // PR_CAPBSET_DROP
	MOVQ BX, SI
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	SYSCALL
	DECQ BX
	JGE  drop

start:
	ADDQ $32, SP
	JMP  _rt0_amd64_linux(SB)
