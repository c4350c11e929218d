/* --query-gpu and --query-compute-apps, --format=csv. */
#include "fields.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FIELDS = 320 };

struct layout {
	int csv, header, units;
};

/* layout_of reads "csv,noheader,nounits". */
static int layout_of(const char *format, struct layout *out)
{
	char *copy = strdup(format ? format : ""), *rest = copy, *word;
	int code = OK;
	*out = (struct layout){0, 1, 1};
	while (!code && (word = strsep(&rest, ","))) {
		word += strspn(word, " ");
		if (!strcmp(word, "csv"))
			out->csv = 1;
		else if (!strcmp(word, "noheader"))
			out->header = 0;
		else if (!strcmp(word, "nounits"))
			out->units = 0;
		else if (*word)
			code = bad("\"%s\" is not a valid format.", word); /* unverified */
	}
	free(copy);
	if (!code && !out->csv) {
		printf("\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n"); /* unverified */
		code = BAD_ARGUMENT;
	}
	return code;
}

/* missing is what a field without a value reads. */
static const char *missing(unsigned r)
{
	switch (r) {
	case NOT_SUPPORTED:
	case NO_FUNCTION:
		return "[N/A]";
	case NO_PERMISSION:
		return "[Insufficient Permissions]";
	case DEPRECATED:
		return "[Requested functionality has been deprecated]";
	case GPU_IS_LOST:
		return "[GPU is lost]";
	case NOT_FOUND:
		return "[Not Found]";
	}
	return "[Unknown Error]";
}

static void print_value(const struct gpu *g, const struct field *f, int units)
{
	char value[TEXT];
	unsigned r = f->get(g, value);
	if (r)
		fputs(missing(r), stdout);
	else
		printf("%s%s%s", value, units && *f->unit ? " " : "", units ? f->unit : "");
}

/* known finds the fields that a list names; private ones are none. */
static int known(const char *names, const struct field *out[MAX_FIELDS], int *n)
{
	char *copy = strdup(names), *rest = copy, *name;
	int code = OK;
	*n = 0;
	while (!code && (name = strsep(&rest, ","))) {
		name += strspn(name, " ");
		name[strcspn(name, " ")] = 0;
		const struct field *f = field_named(name);
		if (!f || !strncmp(name, "q.", 2) || !in_branch(name, machine.branch) || *n == MAX_FIELDS) {
			printf("Field \"%s\" is not a valid field to query.\n\n", name);
			code = BAD_ARGUMENT;
		} else {
			out[(*n)++] = f;
		}
	}
	free(copy);
	return code;
}

int csv(const char *names, const char *format)
{
	const struct field *f[MAX_FIELDS];
	struct layout l;
	int n, code = known(names, f, &n);
	if (!code)
		code = layout_of(format, &l);
	if (code)
		return code;
	for (int i = 0; l.header && i < n; i++) {
		int unit = l.units && *f[i]->unit;
		printf("%s%s%s%s%s%s", i ? ", " : "", f[i]->name, unit ? " [" : "", unit ? f[i]->unit : "", unit ? "]" : "", i == n - 1 ? "\n" : "");
	}
	for (int g = 0; g < machine.n; g++)
		for (int i = 0; i < n; i++) {
			fputs(i ? ", " : "", stdout);
			print_value(&machine.gpu[g], f[i], l.units);
			fputs(i == n - 1 ? "\n" : "", stdout);
		}
	return OK;
}

/* There are no processes, so only the header is left to print. */
int csv_apps(const char *names, const char *format)
{
	static const char *const known[] = {"timestamp", "gpu_name", "gpu_bus_id", "gpu_serial", "gpu_uuid", "pid", "process_name", "name",
					    "used_gpu_memory", "used_memory", 0};
	struct layout l;
	int code = layout_of(format, &l);
	char *copy = strdup(names), *rest = copy, *name;
	char head[1024] = "";
	while (!code && (name = strsep(&rest, ","))) {
		int i = 0;
		name += strspn(name, " ");
		while (known[i] && strcmp(known[i], name))
			i++;
		if (!known[i] || strlen(head) > sizeof head - 64) {
			printf("Field \"%s\" is not a valid field to query.\n\n", name);
			code = BAD_ARGUMENT;
			break;
		}
		if (*head)
			strcat(head, ", ");
		strcat(head, !strcmp(name, "name") ? "process_name" : !strcmp(name, "used_memory") ? "used_gpu_memory" : name);
		if (l.units && !strncmp(name, "used_", 5))
			strcat(head, " [MiB]");
	}
	free(copy);
	if (!code && l.header)
		printf("%s\n", head);
	return code;
}

int csv_help(void)
{
	printf("List of valid properties to query for the switch \"--query-gpu\":\n");
	for (const struct field *f = fields; f->name && strncmp(f->name, "q.", 2); f++) {
		int has = in_branch(f->name, machine.branch), other = f->alias && strcmp(f->alias, f->name) && in_branch(f->alias, machine.branch);
		if (!has && !other)
			continue;
		printf("\n\"%s\"", has ? f->name : f->alias);
		if (has && other)
			printf(" or \"%s\"", f->alias);
		printf("\n%s%s\n", *f->unit ? "In " : "", *f->unit ? f->unit : "A value without a unit.");
	}
	printf("\n");
	return OK;
}
