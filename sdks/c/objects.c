/* The objects of the kinds that the plugin requests, by their names. */
#include <stdlib.h>
#include <string.h>

#include "table.h"

enum { N_BUCKETS = 1024 };

struct entry {
  struct berth_object object;
  struct entry *next;
};

static struct entry *buckets[N_BUCKETS];

static size_t hash(size_t seed, const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) seed = (seed ^ (uint8_t)text[i]) * 16777619u;
  return seed;
}

static struct entry **place_of(const char *kind, const char *namespace, const char *name, const char *api_version) {
  size_t bucket = hash(hash(2166136261u, namespace, strlen(namespace)), name, strlen(name)) % N_BUCKETS;
  struct entry **place = &buckets[bucket];
  while (*place) {
    const struct berth_object *object = &(*place)->object;
    if (!strcmp(object->name, name) && !strcmp(object->namespace, namespace) && !strcmp(object->kind, kind) &&
        !strcmp(object->api_version, api_version)) {
      break;
    }
    place = &(*place)->next;
  }
  return place;
}

/* Reports a read of a kind that the manifest does not name. */
static void expect_kind(const char *api_version, const char *kind) {
  const struct berth_object_kind *named = berth_plugin.objects;
  for (; named && named->kind; named++) {
    if (!strcmp(named->kind, kind) && !strcmp(named->api_version, api_version)) return;
  }
  TELL_UNDECLARED("objects ", api_version, "/", kind);
}

const char *berth_object(const char *api_version, const char *kind, const char *namespace, const char *name) {
  const struct entry *entry = *place_of(kind, namespace, name, api_version);
  if (!entry) expect_kind(api_version, kind);
  return entry ? entry->object.json : NULL;
}

const struct berth_object *berth_next_object(const char *api_version, const char *kind,
                                             const struct berth_object *after) {
  size_t bucket = 0;
  const struct entry *entry = NULL;
  if (after) {
    bucket = hash(hash(2166136261u, after->namespace, strlen(after->namespace)), after->name, strlen(after->name)) %
             N_BUCKETS;
    entry = ((const struct entry *)after)->next;
    bucket++;
  }
  for (;; entry = buckets[bucket++]) {
    for (; entry; entry = entry->next) {
      if (!strcmp(entry->object.kind, kind) && !strcmp(entry->object.api_version, api_version)) return &entry->object;
    }
    if (bucket == N_BUCKETS) break;
  }
  if (!after) expect_kind(api_version, kind);
  return NULL;
}

#ifdef BERTH_EXPORTS_SYNC
static char *copy_of(const uint8_t *text, size_t n) {
  char *copy = berth_table_allocate(n + 1);
  if (n) memcpy(copy, text, n);
  return copy;
}

static void forget(struct entry **place) {
  struct entry *entry = *place;
  *place = entry->next;
  free((void *)entry->object.api_version);
  free((void *)entry->object.kind);
  free((void *)entry->object.namespace);
  free((void *)entry->object.name);
  free((void *)entry->object.json);
  free(entry);
}

void berth_objects_forget(void) {
  for (size_t bucket = 0; bucket < N_BUCKETS; bucket++) {
    while (buckets[bucket]) forget(&buckets[bucket]);
  }
}

void berth_objects_apply(const exports_berth_scheduler_sync_object_t *object) {
  struct berth_object made = {
      copy_of(object->api_version.ptr, object->api_version.len), copy_of(object->kind.ptr, object->kind.len),
      copy_of(object->namespace_.ptr, object->namespace_.len), copy_of(object->name.ptr, object->name.len), NULL};
  if (object->json.is_some) made.json = copy_of(object->json.val.ptr, object->json.val.len);
  struct entry **place = place_of(made.kind, made.namespace, made.name, made.api_version);
  if (*place) forget(place);
  struct entry *entry = berth_table_allocate(sizeof *entry);
  *entry = (struct entry){made, *place};
  *place = entry;
  if (!made.json) forget(place);
}
#endif
