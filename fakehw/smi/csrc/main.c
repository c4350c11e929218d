/* nvidia-smi: its arguments. */
#include "smi.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum action { SUMMARY, LIST, QUERY, CSV, CSV_APPS, CSV_HELP, VERSION, HELP, RESET, SET_MIG, SET_PERSISTENCE, SET_POWER };

/* An option. One that takes a value has it in the next argument, or after "=". */
static const struct option {
	const char *name, *full, *value, *text;
	int action; /* -1: it goes with another */
} options[] = {
    {"-h", "--help", 0, "Print usage information and exit.", HELP},
    {"--version", "--version", 0, "Print version information and exit.", VERSION},
    {"-L", "--list-gpus", 0, "Display a list of GPUs connected to the system.", LIST},
    {"-q", "--query", 0, "Display GPU info.", QUERY},
    {"-x", "--xml-format", 0, "Produce XML output of -q.", -1},
    {"-i", "--id=", "ID", "Target specific GPUs: index, UUID, serial number or PCI bus ID.", -1},
    {"-f", "--filename=", "FILE", "Log to a file rather than to stdout.", -1},
    {"-d", "--display=", "SECTIONS", "Display only selected information with -q.", -1},
    {"-l", "--loop=", "SEC", "Probe until Ctrl+C at that interval.", -1},
    {"-lms", "--loop-ms=", "MS", "Probe until Ctrl+C at that interval.", -1},
    {"--query-gpu", "--query-gpu=", "FIELDS", "Information about GPUs; --help-query-gpu lists the fields.", CSV},
    {"--query-compute-apps", "--query-compute-apps=", "FIELDS", "List of active compute processes.", CSV_APPS},
    {"--help-query-gpu", "--help-query-gpu", 0, "List the fields of --query-gpu.", CSV_HELP},
    {"--format", "--format=", "FORMAT", "csv, and noheader or nounits.", -1},
    {"-pm", "--persistence-mode=", "0|1", "Set persistence mode.", SET_PERSISTENCE},
    {"-mig", "--multi-instance-gpu=", "0|1", "Enable or disable Multi Instance GPU.", SET_MIG},
    {"-pl", "--power-limit=", "WATTS", "Set the maximum power limit.", SET_POWER},
    {"-r", "--gpu-reset", 0, "Trigger a reset of GPUs.", RESET},
};

enum { OPTIONS = sizeof options / sizeof *options };

/* What was asked for; by option, its value. */
struct request {
	int action; /* SUMMARY unless asked for */
	const char *value, *ids, *sections, *format, *file;
	int xml;
	unsigned every; /* milliseconds; 0: once */
};

int help(void)
{
	printf("NVIDIA System Management Interface -- v%s\n\n", machine.smi);
	printf("nvidia-smi [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...\n\n");
	for (int i = 0; i < OPTIONS; i++)
		printf("    %-5s %-24s%-10s%s\n", options[i].name[1] == '-' ? "" : options[i].name, options[i].full, options[i].value ? options[i].value : "", options[i].text);
	printf("\n    mig   %-34s%s\n", "", "Multi Instance GPU management. \"nvidia-smi mig -h\" for more information.");
	printf("    topo  %-34s%s\n", "-m", "How the GPUs reach each other.");
	printf("    nvlink%-34s%s\n", " -s", "The NVLinks of each GPU and their speed.");
	printf("    dmon  %-34s%s\n", "", "What the GPUs do, a line a second.");
	printf("    pmon  %-34s%s\n\n", "", "What processes do, a line a second.");
	return OK;
}

/* option_of finds an option and a value that came with it. */
static const struct option *option_of(const char *arg, const char **value)
{
	*value = 0;
	for (int i = 0; i < OPTIONS; i++) {
		const struct option *o = &options[i];
		size_t n = strlen(o->full);
		if (!strcmp(arg, o->name) || (strlen(arg) == n - (o->full[n - 1] == '=') && !strncmp(arg, o->full, strlen(arg))))
			return o;
		if (o->value && !strncmp(arg, o->full, n)) {
			*value = arg + n;
			return o;
		}
	}
	return 0;
}

static int take(struct request *r, const struct option *o, const char *value)
{
	unsigned n;
	if (o->action >= 0) {
		if (r->action != SUMMARY && r->action != o->action)
			return bad("Invalid combination of input arguments.");
		r->action = o->action;
		r->value = value;
		return OK;
	}
	switch (o->name[1]) {
	case 'x':
		r->xml = 1;
		break;
	case 'i':
		r->ids = value;
		break;
	case 'f':
		r->file = value;
		break;
	case 'd':
		r->sections = value;
		break;
	case 'l':
		if (!number(value, &n) || n == 0 || n > 1000000)
			return bad("Invalid combination of input arguments.");
		r->every = o->name[2] ? n : n * 1000;
		break;
	default:
		r->format = value;
	}
	return OK;
}

static int parse(int argc, char **argv, struct request *r)
{
	int code = OK;
	*r = (struct request){.action = SUMMARY};
	for (int i = 1; !code && i < argc; i++) {
		const char *value;
		const struct option *o = option_of(argv[i], &value);
		if (!o)
			return bad("Option \"%s\" is not recognized.", argv[i]);
		if (o->value && !value && !(value = i + 1 < argc ? argv[++i] : 0))
			return bad("Option \"%s\" is missing its value.", argv[i]); /* unverified */
		code = take(r, o, value);
	}
	if (!code && ((r->sections && r->action != QUERY) || (r->format && r->action != CSV && r->action != CSV_APPS) || (r->xml && r->action != QUERY)))
		return bad("Invalid combination of input arguments.");
	return code;
}

static int once(const struct request *r)
{
	int code = OK, lost = r->action == RESET ? OK : choose(r->ids);
	if (lost && !machine.n)
		return lost;
	switch (r->action) {
	case LIST:
		code = list();
		break;
	case QUERY:
		code = r->xml ? xml() : query(r->sections);
		break;
	case CSV:
		code = csv(r->value, r->format);
		break;
	case CSV_APPS:
		code = csv_apps(r->value, r->format);
		break;
	case SET_MIG:
		code = set_mig(r->value);
		break;
	case SET_PERSISTENCE:
		code = set_persistence(r->value);
		break;
	case SET_POWER:
		code = set_power(r->value);
		break;
	case RESET:
		code = reset(r->ids);
		break;
	default:
		code = table();
	}
	return lost ? lost : code;
}

/* subcommand carries out what does not begin with a dash. */
static int subcommand(int argc, char **argv)
{
	if (!strcmp(argv[1], "mig"))
		return mig(argc - 2, argv + 2);
	if (!strcmp(argv[1], "topo"))
		return topo(argc - 2, argv + 2);
	if (!strcmp(argv[1], "nvlink"))
		return nvlink(argc - 2, argv + 2);
	if (!strcmp(argv[1], "dmon") || !strcmp(argv[1], "pmon"))
		return monitor(*argv[1] == 'p', argc - 2, argv + 2);
	static const char *const others[] = {"daemon", "replay", "stats", "clocks", "vgpu", "drain", "compute-policy",
					     "boost-slider", "power-hint", "power-smoothing", "power-profiles", "conf-compute", "c2c", "encodersessions", 0};
	for (int i = 0; others[i]; i++)
		if (!strcmp(argv[1], others[i])) {
			fprintf(stderr, "nvidia-smi %s is not modelled by this fake host\n", argv[1]);
			return NOT_SUPPORTED;
		}
	return bad("Option \"%s\" is not recognized.", argv[1]);
}

int main(int argc, char **argv)
{
	struct request r;
	int code = start();
	if (code)
		return code;
	if (argc > 1 && argv[1][0] != '-')
		return subcommand(argc, argv);
	code = parse(argc, argv, &r);
	if (code)
		return code;
	if (r.action == HELP)
		return help();
	if (r.action == VERSION)
		return version();
	if (r.action == CSV_HELP)
		return csv_help();
	if (r.file && !freopen(r.file, "w", stdout)) {
		fprintf(stderr, "Cannot open %s for writing\n", r.file);
		return BAD_ARGUMENT;
	}
	for (;;) {
		code = once(&r);
		fflush(stdout);
		if (!r.every || code)
			return code;
		usleep(r.every * 1000);
	}
}
