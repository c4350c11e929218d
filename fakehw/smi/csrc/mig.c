/* The arguments of nvidia-smi mig. */
#include "instances.h"

#include <string.h>

enum command { NONE, LGIP, LGIPP, LCIP, LGI, LCI, CGI, CCI, DGI, DCI, ID, GI, CI, WITH_CI, HELP };

/* An option; takes: 0 no argument, 1 one, 2 one or none. */
static const struct option {
	const char *name, *full;
	enum command is;
	int takes;
	const char *text;
} options[] = {
    {"-h", "--help", HELP, 0, "Display help information."},
    {"-i", "--id", ID, 1, "Enumeration index, PCI bus ID or UUID; several divided by commas."},
    {"-gi", "--gpu-instance-id", GI, 1, "GPU instance ID; several divided by commas."},
    {"-ci", "--compute-instance-id", CI, 1, "Compute instance ID; several divided by commas."},
    {"-lgip", "--list-gpu-instance-profiles", LGIP, 0, "List supported GPU instance profiles."},
    {"-lgipp", "--list-gpu-instance-possible-placements", LGIPP, 0, "List possible GPU instance placements."},
    {"-C", "--default-compute-instance", WITH_CI, 0, "Create compute instance with the default profile when used with -cgi."},
    {"-cgi", "--create-gpu-instance", CGI, 1, "Create GPU instances by profile name or ID, with a placement as in 9:0."},
    {"-dgi", "--destroy-gpu-instance", DGI, 0, "Destroy GPU instances."},
    {"-lgi", "--list-gpu-instances", LGI, 0, "List GPU instances."},
    {"-lcip", "--list-compute-instance-profiles", LCIP, 0, "List supported compute instance profiles."},
    {"-cci", "--create-compute-instance", CCI, 2, "Create compute instances by profile name or ID."},
    {"-dci", "--destroy-compute-instance", DCI, 0, "Destroy compute instances."},
    {"-lci", "--list-compute-instances", LCI, 0, "List compute instances."},
};

enum { OPTIONS = sizeof options / sizeof *options };

int mig_help(void)
{
	printf("\n    mig -- Multi Instance GPU management.\n\n    Usage: nvidia-smi mig [options]\n\n    Options include:\n");
	for (int i = 0; i < OPTIONS; i++)
		printf("    [%-6s | %s]: %s\n", options[i].name, options[i].full, options[i].text);
	printf("\n");
	return OK;
}

static const struct option *option_of(const char *arg)
{
	for (int i = 0; i < OPTIONS; i++)
		if (!strcmp(options[i].name, arg) || !strcmp(options[i].full, arg))
			return &options[i];
	return 0;
}

static int any_enabled(void)
{
	for (int i = 0; i < machine.n; i++)
		if (mig_on(machine.gpu[i].d))
			return 1;
	return 0;
}

static int carry_out(enum command command, const char *profiles, int with_ci, const struct only *only)
{
	if (!any_enabled()) {
		printf("No MIG-enabled devices found.\n");
		return NOT_FOUND;
	}
	switch (command) {
	case LGIP:
		return list_gi_profiles();
	case LGIPP:
		return list_gi_places();
	case LCIP:
		return list_ci_profiles(only);
	case LGI:
		return list_gi(only);
	case LCI:
		return list_ci(only);
	case CGI:
		return create_gi(profiles, with_ci);
	case CCI:
		return create_ci(profiles, only);
	case DGI:
		return destroy_gi(only);
	case DCI:
		return destroy_ci(only);
	default:
		return mig_help();
	}
}

int mig(int argc, char **argv)
{
	const char *ids = 0, *profiles = 0;
	struct only only = {0, 0};
	enum command command = NONE;
	int with_ci = 0;
	for (int i = 0; i < argc; i++) {
		const struct option *o = option_of(argv[i]);
		const char *value = 0;
		if (!o)
			return bad("Option \"%s\" is not recognized.", argv[i]);
		if (o->takes && i + 1 < argc && (o->takes == 1 || *argv[i + 1] != '-'))
			value = argv[++i];
		if (o->takes == 1 && !value)
			return bad("Option \"%s\" is missing its value.", o->name); /* unverified */
		switch (o->is) {
		case ID:
			ids = value;
			break;
		case GI:
			only.gi = value;
			break;
		case CI:
			only.ci = value;
			break;
		case WITH_CI:
			with_ci = 1;
			break;
		default:
			if (command)
				return bad("Invalid combination of input arguments.");
			command = o->is;
			profiles = value;
		}
	}
	if (command == HELP || command == NONE)
		return mig_help();
	if (with_ci && command != CGI)
		return bad("Invalid combination of input arguments.");
	int code = choose(ids);
	return code ? code : carry_out(command, profiles, with_ci, &only);
}
