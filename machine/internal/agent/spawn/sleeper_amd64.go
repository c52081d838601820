package spawn

const sleeperMachine = 62

var sleeperCode = []byte{
	0xb8, 157, 0, 0, 0, // mov eax, SYS_prctl
	0xbf, 15, 0, 0, 0, // mov edi, PR_SET_NAME
	0x48, 0x8d, 0x35, 11, 0, 0, 0, // lea rsi, the name below
	0x0f, 0x05, // syscall
	0xb8, 34, 0, 0, 0, // mov eax, SYS_pause
	0x0f, 0x05, // syscall
	0xeb, 0xf7, // jmp back to that mov
	'i', 'n', 'i', 't', 0,
}
