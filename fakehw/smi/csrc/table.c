/* The summary that is printed without arguments. Its boxes have been as wide as
 * 79, 89 and 91 columns since branches 470, 530 and 550. */
#include "smi.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NARROW = 0, MIDDLE = 530, WIDE = 550, SHARED = 560, PIDS = 570, PLUS = 580, KMD = 600 };

static int width(void) { return machine.branch >= WIDE ? 91 : machine.branch >= MIDDLE ? 89 : 79; }

/* rule prints a line between rows, filled with '-' or '='. */
static void rule(char begin, char fill, const int *widths)
{
	putchar(begin);
	for (int i = 0; widths[i]; i++) {
		for (int n = widths[i]; n; n--)
			putchar(fill);
		putchar(widths[i + 1] || fill == '-' ? '+' : '|');
	}
	putchar('\n');
}

static const int *gpu_columns(void)
{
	static const int wide[] = {41, 24, 22, 0}, middle[] = {41, 22, 22, 0}, narrow[] = {31, 22, 22, 0};
	return machine.branch >= WIDE ? wide : machine.branch >= MIDDLE ? middle : narrow;
}

static const int *mig_columns(void)
{
	static const int wide[] = {18, 34, 11, 23, 0}, middle[] = {18, 32, 11, 23, 0}, narrow[] = {18, 22, 11, 23, 0};
	return machine.branch >= WIDE ? wide : machine.branch >= MIDDLE ? middle : narrow;
}

static void whole(char begin, char fill)
{
	int all[] = {width() - 2, 0};
	rule(begin, fill, all);
}

/* row prints one line that is one cell. */
static void row(const char *text) { printf("|%-*s|\n", width() - 2, text); }

static void gpu_header(void)
{
	int b = machine.branch, extra = b >= WIDE ? 2 : 0;
	printf("| NVIDIA-SMI %-*s%s: %-*s%s: %-9s|\n", b >= MIDDLE ? 23 : 13, machine.smi, b >= KMD ? "KMD Version" : "Driver Version",
	       b >= KMD ? 14 : 13 + extra, machine.driver, b >= KMD ? "CUDA UMD Version" : "CUDA Version", machine.cuda);
	rule(b >= PLUS ? '+' : '|', '-', gpu_columns());
	if (b >= MIDDLE) {
		printf("| GPU  Name                 Persistence-M | Bus-Id        %*sDisp.A | Volatile Uncorr. ECC |\n", extra, "");
		printf("| Fan  Temp   Perf          Pwr:Usage/Cap |%*s         Memory-Usage | GPU-Util  Compute M. |\n", extra, "");
		printf("|                                         |%*s                      |               MIG M. |\n", extra, "");
	} else {
		printf("| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n");
		printf("| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |\n");
		printf("|                               |                      |               MIG M. |\n");
	}
	rule('|', '=', gpu_columns());
}

/* value copies a field, or what stands in its place; with its unit, if wanted. */
static int value(const struct gpu *g, const char *field, const char *unit, char out[TEXT])
{
	const char *own;
	char v[TEXT];
	unsigned r = get(g, field, v, &own);
	if (r)
		strcpy(out, r == NOT_SUPPORTED || r == NO_FUNCTION ? "N/A" : "ERR!");
	else
		snprintf(out, TEXT, "%.100s%s", v, unit);
	return !r;
}

/* on_off turns a mode into a word of three letters. */
static void on_off(const struct gpu *g, const char *field, char out[TEXT])
{
	char v[TEXT];
	if (value(g, field, "", v))
		strcpy(v, !strcmp(v, "Enabled") ? "On" : "Off");
	strcpy(out, v);
}

static void name_row(const struct gpu *g)
{
	char name[TEXT], persistence[TEXT], display[TEXT], ecc[TEXT];
	int room = machine.branch >= MIDDLE ? 27 : 18;
	title(nvml.DeviceGetName, g->d, name);
	if ((int)strlen(name) > room)
		strcpy(name + room - 3, "...");
	on_off(g, "persistence_mode", persistence);
	on_off(g, "display_active", display);
	if (mig_on(g->d))
		strcpy(ecc, "On");
	else if (value(g, "ecc.mode.current", "", ecc) && strcmp(ecc, "Enabled"))
		strcpy(ecc, "Off");
	else
		value(g, "ecc.errors.uncorrected.volatile.total", "", ecc);
	printf("|%4u  %-*s", g->index, room, name);
	if (machine.branch < MIDDLE)
		printf("  %-3s  |", persistence);
	else if (!strcmp(persistence, "N/A"))
		printf("   N/A  |");
	else
		printf("    %-3s |", persistence);
	printf("%s%-16s %3s |%21s |\n", machine.branch >= WIDE ? "   " : " ", g->bus, display, ecc);
}

static void state_row(const struct gpu *g)
{
	char fan[TEXT], temperature[TEXT], pstate[TEXT], usage[TEXT], cap[TEXT], gpu[TEXT], mode[TEXT];
	int b = machine.branch;
	struct memory_v2 m;
	value(g, "fan.speed", "%", fan);
	value(g, "temperature.gpu", "C", temperature);
	value(g, "pstate", "", pstate);
	int known = value(g, "power.draw", "", usage), capped = value(g, "power.limit", "", cap);
	value(g, "utilization.gpu", "%", gpu);
	value(g, "compute_mode", "", mode);
	if (!strncmp(mode, "Exclusive_", 10))
		strcpy(mode, mode[10] == 'P' ? "E. Process" : "E. Thread");
	if (known)
		snprintf(usage, TEXT, "%dW", (int)(strtod(usage, 0) + 0.5));
	if (capped)
		snprintf(cap, TEXT, "%dW", (int)(strtod(cap, 0) + 0.5));
	printf("|%4s%6s%s%-*s", fan, temperature, !strcmp(pstate, "N/A") ? "  " : "    ", !strcmp(pstate, "N/A") ? 4 : 2, pstate);
	if (b >= WIDE)
		printf("%*s / %5s |", known ? 16 : -16, known ? usage : "            N/A", cap); /* N/A ends one column before a number does */
	else
		printf("%*s / %4s |", b >= MIDDLE ? 17 : 7, usage, cap);
	unsigned r = memory_of(g->d, &m);
	if (r == NOT_SUPPORTED)
		printf(" %-*s|", b >= WIDE ? 23 : 21, "Not Supported");
	else if (r)
		printf("%*s |", b >= WIDE ? 23 : 21, "ERR!");
	else
		printf("%*lluMiB /%*lluMiB |", b >= WIDE ? 8 : 7, m.used >> 20, b >= WIDE ? 7 : 6, m.total >> 20);
	printf("%8s %12s |\n", gpu, mode);
}

static void mig_row(const struct gpu *g)
{
	const int *w = gpu_columns();
	char mode[TEXT];
	value(g, "mig.mode.current", "", mode);
	printf("|%*s|%*s|%21s |\n", w[0], "", w[1], "", mode);
}

static void gpus(void)
{
	whole('+', '-');
	gpu_header();
	for (int i = 0; i < machine.n; i++) {
		name_row(&machine.gpu[i]);
		state_row(&machine.gpu[i]);
		mig_row(&machine.gpu[i]);
		rule('+', '-', gpu_columns());
	}
}

static void mig_header(void)
{
	int b = machine.branch;
	printf("\n");
	whole('+', '-');
	row(" MIG devices:");
	rule('+', '-', mig_columns());
	printf("| GPU  GI  CI  MIG |%*s |        Vol|%s|\n", mig_columns()[1] - 1, "Memory-Usage",
	       b >= SHARED ? "        Shared         " : b >= MIDDLE ? "      Shared           " : "         Shared        ");
	printf("|      ID  ID  Dev |%*s | SM     Unc|%s|\n", mig_columns()[1] - 1, "BAR1-Usage",
	       b >= SHARED ? " CE ENC  DEC  OFA  JPG " : b >= MIDDLE ? " CE ENC DEC OFA JPG    " : " CE  ENC  DEC  OFA  JPG");
	printf("|                  |%*s|        ECC|                       |\n", mig_columns()[1], "");
	rule('|', '=', mig_columns());
}

/* usage prints a cell with used and total memory. */
static void usage(unsigned r, unsigned long long used, unsigned long long total, int bar1)
{
	char text[TEXT], all[32];
	int w = mig_columns()[1], gap = machine.branch >= WIDE ? 4 - 2 * bar1 : machine.branch >= MIDDLE ? 2 : 1;
	snprintf(all, sizeof all, "%lluMiB", total >> 20);
	snprintf(text, sizeof text, "%lluMiB / %8s", used >> 20, all);
	printf("%*s%*s|", w - gap, r ? "N/A" : text, gap, "");
}

/* mig_device prints one MIG device. Those of one GPU instance share its memory,
 * which only the first shows. */
static void mig_device(const struct gpu *g, device m, unsigned index, int first)
{
	struct attributes a = {0};
	struct memory bar = {0};
	struct memory_v2 mem = {0};
	unsigned gi = 0, ci = 0;
	nvml.DeviceGetGpuInstanceId(m, &gi);
	nvml.DeviceGetComputeInstanceId(m, &ci);
	nvml.DeviceGetAttributes_v2(m, &a);
	printf("|%3u%5u%4u%4u  |", g->index, gi, ci, index);
	unsigned r = memory_of(m, &mem);
	if (first)
		usage(r, mem.used, mem.total, 0);
	else
		printf("%*s|", mig_columns()[1], "");
	printf("%3u%7u |%3u%4u%5u%5u%5u |\n", a.sms, 0u, a.shared.copy, a.shared.encoders, a.shared.decoders, a.shared.ofa, a.shared.jpeg);
	printf("|                  |");
	r = nvml.DeviceGetBAR1MemoryInfo(m, &bar);
	if (first)
		usage(r, bar.used, bar.total, 1);
	else
		printf("%*s|", mig_columns()[1], "");
	printf("           |                       |\n");
}

/* divide prints the line below a MIG device, open where the next one shares its
 * memory. */
static void divide(int open)
{
	const int *w = mig_columns();
	if (open)
		printf("+------------------+%*s+-----------+-----------------------+\n", w[1], "");
	else
		rule('+', '-', w);
}

static void migs(void)
{
	int enabled = 0, found = 0;
	for (int i = 0; i < machine.n; i++)
		enabled |= mig_on(machine.gpu[i].d);
	if (!enabled)
		return;
	mig_header();
	for (int i = 0; i < machine.n; i++) {
		const struct gpu *g = &machine.gpu[i];
		unsigned most = 0, last = ~0u;
		if (!mig_on(g->d) || nvml.DeviceGetMaxMigDeviceCount(g->d, &most))
			continue;
		for (unsigned j = 0; j < most; j++) {
			unsigned gi;
			device m;
			if (nvml.DeviceGetMigDeviceHandleByIndex(g->d, j, &m) || nvml.DeviceGetGpuInstanceId(m, &gi))
				continue;
			if (found++)
				divide(gi == last);
			mig_device(g, m, j, gi != last);
			last = gi;
		}
		if (found)
			last = ~0u;
	}
	if (found) {
		divide(0);
	} else {
		row("  No MIG devices found");
		whole('+', '-');
	}
}

static void processes(void)
{
	int b = machine.branch, w = width() - 2;
	printf("%*s\n", w, "");
	whole('+', '-');
	row(" Processes:");
	const char *head = b >= PIDS ? "  GPU   GI   CI              PID   Type   Process name" : "  GPU   GI   CI        PID   Type   Process name";
	printf("|%-*s%s|\n", w - 11, head, "GPU Memory ");
	printf("|%-*s%s|\n", w - 11, "        ID   ID", "Usage      ");
	whole('|', '=');
	row("  No running processes found");
	whole('+', '-');
}

int table(void)
{
	char now[64];
	time_t t = time(0);
	struct tm tm;
	strftime(now, sizeof now, "%a %b %e %H:%M:%S %Y", localtime_r(&t, &tm));
	printf("%s       \n", now);
	gpus();
	migs();
	processes();
	return OK;
}
