#include "smi.h"

#include <string.h>

int help(void)
{
	printf("NVIDIA System Management Interface -- v%s\n\n", machine.smi);
	return OK;
}

int main(int argc, char **argv)
{
	int code = start();
	if (code)
		return code;
	code = choose(0);
	if (argc == 2 && (!strcmp(argv[1], "-L") || !strcmp(argv[1], "--list-gpus"))) {
		int r = machine.n ? list() : OK;
		return code ? code : r;
	}
	return bad("Option \"%s\" is not recognized.", argc > 1 ? argv[1] : "");
}
