/* nvidia-smi mig -lgip, -lgipp, -lgi, -lcip, -lci. Branch 570 made the columns of
 * names of GPU instances wider by two. */
#include "instances.h"

#include <string.h>

enum { LIST = 570 };

static int extra(void) { return machine.branch >= LIST ? 2 : 0; }

static void rule(int inner, char end, char c)
{
	putchar(end);
	while (inner--)
		putchar(c);
	putchar(end);
	putchar('\n');
}

static int none(const char *what)
{
	printf("%s\n", what);
	return NOT_FOUND;
}

int list_gi_profiles(void)
{
	int x = extra(), inner = 77 + x;
	for (int i = 0, head = 1; i < machine.n; i++) {
		const struct gpu *g = &machine.gpu[i];
		struct gi_profile p[GI_PROFILES];
		int n = mig_on(g->d) ? gi_profiles(g->d, p) : 0;
		for (int j = 0; j < n; j++, head = 0) {
			char instances[32], memory[32];
			unsigned left = 0;
			if (head) {
				rule(inner, '+', '-');
				printf("|%-*s|\n", inner, " GPU instance profiles:");
				printf("| GPU   Name             %*sID    Instances   Memory     P2P    SM    DEC   ENC  |\n", x, "");
				printf("|                        %*s      Free/Total   GiB              CE    JPEG  OFA  |\n", x, "");
				rule(inner, '|', '=');
			}
			nvml.DeviceGetGpuInstanceRemainingCapacity(g->d, p[j].id, &left);
			snprintf(instances, sizeof instances, "%u/%u", left, p[j].count);
			snprintf(memory, sizeof memory, "%.2f", p[j].memory_mb / 1024.0);
			printf("|%4u  MIG %-*s%3u     %-11s%-11s%-7s%-7u%-6u%-4u|\n", g->index, 13 + x, short_name(p[j].name), p[j].id, instances, memory,
			       p[j].p2p ? "Yes" : "No", p[j].sms, p[j].engines.decoders, p[j].engines.encoders);
			printf("|%*s%-6u%-6u%-4u|\n", 61 + x, "", p[j].engines.copy, p[j].engines.jpeg, p[j].engines.ofa);
			rule(inner, '+', '-');
		}
	}
	return OK;
}

int list_gi_places(void)
{
	for (int i = 0; i < machine.n; i++) {
		const struct gpu *g = &machine.gpu[i];
		struct gi_profile p[GI_PROFILES];
		int n = mig_on(g->d) ? gi_profiles(g->d, p) : 0;
		for (int j = 0; j < n; j++) {
			struct place at[MAX_GI];
			unsigned count = MAX_GI;
			if (nvml.DeviceGetGpuInstancePossiblePlacements_v2(g->d, p[j].id, at, &count) || !count)
				continue;
			printf("GPU %2u Profile ID %2u Placement%s: {", g->index, p[j].id, count > 1 ? "s" : " ");
			for (unsigned k = 0; k < count; k++)
				printf("%s%u", k ? "," : "", at[k].start);
			printf("}:%u\n", at[0].size);
		}
	}
	return OK;
}

int list_gi(const struct only *only)
{
	int x = extra(), inner = 55 + x, head = 1;
	for (int i = 0; i < machine.n; i++) {
		struct gi_row row[MAX_GI];
		int n = gi_rows(&machine.gpu[i], only, row);
		for (int j = 0; j < n; j++, head = 0) {
			char place[32];
			if (head) {
				rule(inner, '+', '-');
				printf("|%-*s|\n", inner, " GPU instances:");
				printf("| GPU   Name             %*sProfile  Instance   Placement  |\n", x, "");
				printf("|                        %*s  ID       ID       Start:Size |\n", x, "");
				rule(inner, '|', '=');
			}
			snprintf(place, sizeof place, "%u:%u", row[j].info.at.start, row[j].info.at.size);
			printf("|%4u  MIG %-*s%3u%9u          %-8s|\n", row[j].g->index, 15 + x, short_name(row[j].profile.name), row[j].info.profile,
			       row[j].info.id, place);
			rule(inner, '+', '-');
		}
	}
	return head ? none("No GPU instances found: Not Found") : OK;
}

int list_ci_profiles(const struct only *only)
{
	int head = 1;
	for (int i = 0; i < machine.n; i++) {
		struct gi_row row[MAX_GI];
		int n = gi_rows(&machine.gpu[i], only, row);
		for (int j = 0; j < n; j++) {
			struct ci_profile p[CI_PROFILES];
			int m = ci_profiles(row[j].h, p);
			for (int k = 0; k < m; k++, head = 0) {
				char id[16], instances[32];
				unsigned left = 0;
				if (head) {
					rule(86, '+', '-');
					printf("|%-86s|\n", " Compute instance profiles:");
					printf("| GPU     GPU       Name             Profile  Instances   Exclusive       Shared       |\n");
					printf("|       Instance                       ID     Free/Total     SM       DEC   ENC   OFA  |\n");
					printf("|         ID                                                          CE    JPEG       |\n");
					rule(86, '|', '=');
				}
				nvml.GpuInstanceGetComputeInstanceRemainingCapacity(row[j].h, p[k].id, &left);
				snprintf(id, sizeof id, "%u%s", p[k].id, p[k].slices == row[j].profile.slices ? "*" : "");
				snprintf(instances, sizeof instances, "%u/%u", left, p[k].count);
				printf("|%4u%7u       MIG %-17s%-7s%-14s%-10u%-6u%-6u%-4u|\n", row[j].g->index, row[j].info.id, short_name(p[k].name), id, instances,
				       p[k].sms, p[k].engines.decoders, p[k].engines.encoders, p[k].engines.ofa);
				printf("|%70s%-6u%-10u|\n", "", p[k].engines.copy, p[k].engines.jpeg);
				rule(86, '+', '-');
			}
		}
	}
	return head ? none("No GPU instances found: Not Found") : OK;
}

int list_ci(const struct only *only)
{
	int head = 1;
	for (int i = 0; i < machine.n; i++) {
		struct gi_row row[MAX_GI];
		int n = gi_rows(&machine.gpu[i], only, row);
		for (int j = 0; j < n; j++) {
			struct ci_row ci[MAX_CI];
			int m = ci_rows(row[j].h, only, ci);
			for (int k = 0; k < m; k++, head = 0) {
				char place[32];
				if (head) {
					rule(68, '+', '-');
					printf("|%-68s|\n", " Compute instances:");
					printf("| GPU     GPU       Name             Profile   Instance   Placement  |\n");
					printf("|       Instance                       ID        ID       Start:Size |\n");
					printf("|         ID                                                         |\n");
					rule(68, '|', '=');
				}
				snprintf(place, sizeof place, "%u:%u", ci[k].info.at.start, ci[k].info.at.size);
				printf("|%4u%7u       MIG %-17s%u%10u          %-8s|\n", row[j].g->index, row[j].info.id, short_name(ci[k].profile.name),
				       ci[k].info.profile, ci[k].info.id, place);
				rule(68, '+', '-');
			}
		}
	}
	return head ? none("No compute instances found: Not Found") : OK;
}
