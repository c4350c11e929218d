/* Memory of a program: got piece by piece, freed at once. */
#include "ptx.h"

#include <stdlib.h>
#include <string.h>

/* More than any PTX text of a sane size needs. */
enum { CHUNK = 64 << 10 };
static const size_t most = (size_t)1 << 30;

struct chunk {
	struct chunk *next;
	size_t have, used;
	_Alignas(16) char data[];
};

void *arena_get(struct arena *a, size_t n)
{
	if (n > most || a->used + n > most)
		return 0;
	n = (n + 15) & ~(size_t)15;
	struct chunk *c = a->first;
	if (!c || c->have - c->used < n) {
		size_t have = n > CHUNK / 4 ? n : CHUNK;
		struct chunk *new = calloc(1, sizeof *new + have);
		if (!new)
			return 0;
		new->have = have;
		if (c && have == n) { /* a large piece goes behind the one in use */
			new->next = c->next;
			c->next = new;
		} else {
			new->next = c;
			a->first = new;
		}
		c = new;
	}
	void *p = c->data + c->used;
	c->used += n;
	a->used += n;
	return p;
}

char *arena_text(struct arena *a, const char *s, size_t n)
{
	char *to = arena_get(a, n + 1);
	if (to)
		memcpy(to, s, n);
	return to;
}

void arena_free(struct arena *a)
{
	while (a->first) {
		struct chunk *next = a->first->next;
		free(a->first);
		a->first = next;
	}
	a->used = 0;
}
