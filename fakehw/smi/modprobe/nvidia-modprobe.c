/*
 * nvidia-modprobe: has the host make device nodes. The options are those of
 * nvidia-modprobe(1); each names a group, and no number of a node is looked at,
 * since nodes of a group come together here.
 */
#define _GNU_SOURCE
#include "codes.h"
#include "control.h"

#include <getopt.h>
#include <stdio.h>

static const char *const usage =
	"nvidia-modprobe: load NVIDIA's kernel modules and create their device nodes.\n\n"
	"  nvidia-modprobe [options]\n\n"
	"  -c N, --create=N                  create the node of minor N\n"
	"  -u, --unified-memory              for the module nvidia-uvm\n"
	"  -m, --modeset                     for the module nvidia-modeset\n"
	"  -f FILE, --create-nvidia-device-node=FILE\n"
	"                                    create the node of a capability file\n"
	"  -h, --help\n";

static int ask(const char *request)
{
	unsigned code = control_ask(request, 0, 0);
	if (!code)
		return 0;
	fprintf(stderr, "ERROR: could not create device nodes (%u)\n", code);
	return 1;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"create", required_argument, 0, 'c'}, {"unified-memory", no_argument, 0, 'u'}, {"modeset", no_argument, 0, 'm'},
		{"create-nvidia-device-node", required_argument, 0, 'f'}, {"help", no_argument, 0, 'h'}, {0},
	};
	int c, create = 0, uvm = 0, modeset = 0, caps = 0;
	while ((c = getopt_long(argc, argv, "c:umf:h", options, 0)) != -1)
		switch (c) {
		case 'c': create = 1; break;
		case 'u': uvm = 1; break;
		case 'm': modeset = 1; break;
		case 'f': caps = 1; break;
		case 'h': return fputs(usage, stdout) < 0;
		default: fputs(usage, stderr); return 1;
		}
	int failed = 0;
	if (uvm)
		failed |= ask("make-nodes uvm");
	if (modeset)
		failed |= ask("make-nodes modeset");
	if (caps)
		failed |= ask("make-nodes caps");
	if (create && !uvm && !modeset)
		failed |= ask("make-nodes gpus");
	return failed;
}
