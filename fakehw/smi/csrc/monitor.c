/* dmon and pmon: what GPUs and processes do, a line a second. The columns are those that
 * NVIDIA's programs of 470 and of 535 to 580 print; between 470 and 535 they are
 * unverified. There are never processes. */
#include "fields.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct column {
	const char *name, *unit, *field;
	int since;
};

static const struct column columns[] = {
    {"pwr", "W", "power.draw", 0},		  {"gtemp", "C", "temperature.gpu", 0},	      {"mtemp", "C", "temperature.memory", 0},
    {"sm", "%", "utilization.gpu", 0},		  {"mem", "%", "utilization.memory", 0},      {"enc", "%", "utilization.encoder", 0},
    {"dec", "%", "utilization.decoder", 0},	  {"jpg", "%", "utilization.jpeg", 535},      {"ofa", "%", "utilization.ofa", 535},
    {"mclk", "MHz", "clocks.current.memory", 0}, {"pclk", "MHz", "clocks.current.graphics", 0}, {0, 0, 0, 0},
};

static void cells(const char *first, int units)
{
	fputs(first, stdout);
	for (const struct column *c = columns; c->name; c++)
		if (machine.branch >= c->since)
			printf(" %*s", machine.branch < 535 ? 5 : 6, units ? c->unit : c->name);
	puts(machine.branch < 535 ? "" : " ");
}

static void device_line(const struct gpu *g)
{
	printf("%5u", g->index);
	for (const struct column *c = columns; c->name; c++) {
		char value[TEXT];
		const char *unit;
		if (machine.branch < c->since)
			continue;
		if (get(g, c->field, value, &unit))
			strcpy(value, "-");
		value[strcspn(value, ".")] = 0;
		printf(" %*s", machine.branch < 535 ? 5 : 6, value);
	}
	puts(machine.branch < 535 ? "" : " ");
}

static void process_line(const struct gpu *g)
{
	if (machine.branch < 550)
		printf("%5u          -     -      -      -      -      -    -              \n", g->index);
	else
		printf("%5u          -     -      -      -      -      -      -      -    -              \n", g->index);
}

static void head(int processes)
{
	if (!processes) {
		cells("# gpu", 0);
		cells("# Idx", 1);
	} else if (machine.branch < 550) {
		printf("# gpu         pid  type    sm    mem    enc    dec    command\n# Idx           #   C/G     %%      %%      %%      %%    name\n");
	} else {
		printf("# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command \n"
		       "# Idx           #    C/G      %%      %%      %%      %%      %%      %%    name \n");
	}
}

int monitor(int processes, int argc, char **argv)
{
	const char *name = processes ? "pmon" : "dmon", *ids = 0;
	unsigned times = 0, every = 1;
	for (int i = 0; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";
		if (strlen(argv[i]) != 2 || argv[i][0] != '-' || !strchr("cdi", argv[i][1])) {
			fprintf(stderr, "nvidia-smi %s %s is not modelled by this fake host, only -c, -d and -i\n", name, argv[i]);
			return NOT_SUPPORTED;
		}
		if (argv[i][1] == 'i')
			ids = value;
		else if (!number(value, argv[i][1] == 'c' ? &times : &every) || (argv[i][1] == 'd' ? every < 1 || every > 10 : !times))
			return bad("Invalid combination of input arguments.");
		i++;
	}
	int code = choose(ids);
	if (!machine.n)
		return code;
	for (unsigned n = 0; !times || n < times; n++) {
		if (n)
			sleep(every);
		if (n % 20 == 0)
			head(processes);
		for (int i = 0; i < machine.n; i++)
			(processes ? process_line : device_line)(&machine.gpu[i]);
		fflush(stdout);
	}
	return code;
}
