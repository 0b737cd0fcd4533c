/* The replica of the node table, fed by `sync.apply`. */
#include "table.h"

/* Some functions of this file are unused if the plugin does not export their interfaces. */
#pragma clang diagnostic ignored "-Wunused-function"
#pragma clang diagnostic ignored "-Wunused-variable"

#include <stdlib.h>
#include <string.h>

struct list {
  void *items;
  size_t n;
};

struct row {
  /* Whether the row has a node. */
  bool exists;
  bool unschedulable;
  berth_sym name;
  uint32_t taint_set;
  int64_t non_zero_milli_cpu, non_zero_memory, pod_count;
  struct list labels, images, host_ports, declared_features;
  /* Pairs of strings. */
  struct list annotations;
  /* Pointers to pods. */
  struct list pods;
};

struct label {
  berth_sym key, value;
};

/* The amounts of one resource on all nodes. */
struct resource {
  berth_sym name;
  int64_t *amounts;
  size_t n;
};

struct resources {
  struct resource *columns;
  size_t n;
};

struct annotation {
  char *key, *value;
};

/* The pod in a slot; NULL for a slot without a pod. */
struct slot {
  berth_pod *pod;
  berth_row node;
};

/* The record that several equal pods share, and the number of these pods. */
struct shared {
  berth_pod pod;
  size_t n;
};

/* A pod on a node. Its record shares all fields except uid and name. */
struct placed {
  berth_pod pod;
  uint32_t slot;
  bool has_own_names;
  struct shared *shared;
};

static struct slot *slots;
static size_t n_slots;
static struct row *rows;
static size_t n_rows;
static struct list *taint_sets;
static size_t n_taint_sets;
static struct resources allocatable, requested;

static const char **texts;
static int64_t *image_sizes;
static size_t n_texts, texts_capacity;
/* The hash table from texts to symbols, with open addressing; 0 is a free place. If the symbol of a text was given to another
 * text, the place of the first text stays occupied until place_all fills the table anew. */
static berth_sym *places;
static size_t n_places, n_taken;

void *berth_table_allocate(size_t size) {
  void *memory = calloc(1, size ? size : 1);
  if (!memory) __builtin_trap();
  return memory;
}

void *berth_table_resize(void *memory, size_t size) {
  memory = realloc(memory, size ? size : 1);
  if (!memory) __builtin_trap();
  return memory;
}

/* The symbols 1 to 10, which are the same in every table. */
static const char *const well_known[] = {
    "",
    "cpu",
    "memory",
    "ephemeral-storage",
    "pods",
    "TCP",
    "0.0.0.0",
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/unschedulable",
};

static size_t place_of(const char *text) {
  uint32_t hash = 2166136261u;
  for (const char *c = text; *c; c++) hash = (hash ^ (uint8_t)*c) * 16777619u;
  size_t place = hash & (n_places - 1);
  while (places[place] && strcmp(texts[places[place]], text)) place = (place + 1) & (n_places - 1);
  return place;
}

static void place(berth_sym symbol) {
  if (!*texts[symbol]) return;
  size_t at = place_of(texts[symbol]);
  n_taken += !places[at];
  places[at] = symbol;
}

static void place_all(void) {
  if (!n_places) n_places = 2048;
  while (n_texts * 4 > n_places) n_places *= 2;
  free(places);
  places = berth_table_allocate(n_places * sizeof *places);
  n_taken = 0;
  for (size_t i = 1; i < n_texts; i++) place((berth_sym)i);
}

/* Sets the text of a symbol, and owns the text. The previous text of the symbol is replaced. An empty text frees the symbol. */
static void set_text(berth_sym symbol, const char *text) {
  if (symbol >= texts_capacity) {
    size_t capacity = symbol < 512 ? 1024 : (size_t)symbol * 2;
    texts = berth_table_resize(texts, capacity * sizeof *texts);
    image_sizes = berth_table_resize(image_sizes, capacity * sizeof *image_sizes);
    for (size_t i = texts_capacity; i < capacity; i++) {
      texts[i] = "";
      image_sizes[i] = 0;
    }
    texts_capacity = capacity;
  }
  if (*texts[symbol]) free((char *)texts[symbol]);
  texts[symbol] = text;
  image_sizes[symbol] = 0;
  if (symbol >= n_texts) n_texts = (size_t)symbol + 1;
  if (n_texts * 2 > n_places || n_taken * 2 > n_places) {
    place_all();
  } else {
    place(symbol);
  }
}

static void know_symbols(void) {
  if (n_texts) return;
  for (berth_sym i = 0; i < sizeof well_known / sizeof *well_known; i++) set_text(i, well_known[i]); /* These texts are never freed. */
}

const char *berth_text(berth_sym symbol) {
  know_symbols();
  return symbol < n_texts ? texts[symbol] : "";
}

berth_sym berth_symbol(const char *text) {
  know_symbols();
  return *text ? places[place_of(text)] : 0;
}

uint32_t berth_table_slot(const berth_pod *pod) { return ((const struct placed *)pod)->slot; }

const berth_pod *berth_table_pod(uint32_t slot) { return slot < n_slots ? slots[slot].pod : NULL; }

const berth_row *berth_nodes(size_t *n_nodes) {
  if (!berth_follows_pods() && !berth_plugin.columns && !berth_plugin.label_keys && !berth_plugin.annotation_keys) {
    berth_panic("berth_nodes needs columns");
  }
  berth_row *found = berth_allocate_for_call(n_rows * sizeof *found);
  *n_nodes = 0;
  for (size_t node = 0; node < n_rows; node++) {
    if (rows[node].exists) found[(*n_nodes)++] = (berth_row)node;
  }
  return found;
}

const berth_pod *const *berth_pods(size_t *n_pods) {
  if (!berth_follows_pods()) berth_panic("berth_pods needs pods");
  const berth_pod **found = berth_allocate_for_call(n_slots * sizeof *found);
  *n_pods = 0;
  for (size_t slot = 0; slot < n_slots; slot++) {
    if (slots[slot].pod) found[(*n_pods)++] = slots[slot].pod;
  }
  return found;
}

berth_row berth_pod_node(const berth_pod *pod) { return slots[berth_table_slot(pod)].node; }

const char *berth_pod_label(const berth_pod *pod, const char *key) {
  for (size_t i = 0; i < pod->labels.len; i++) {
    if (!strcmp(berth_text(pod->labels.ptr[i].f0), key)) return berth_text(pod->labels.ptr[i].f1);
  }
  return NULL;
}

/* The maximum number of different undeclared reads that are logged. The scheduler keeps no more. */
enum { MAX_TOLD = 64 };

/* Says whether the text consists of the parts. */
static bool consists_of(const char *text, const char *const *parts) {
  for (; *parts; parts++) {
    size_t length = strlen(*parts);
    if (strncmp(text, *parts, length)) return false;
    text += length;
  }
  return !*text;
}

void berth_table_tell_undeclared(const char *const *parts) {
  static char *told[MAX_TOLD];
  static size_t n_told;
  for (size_t i = 0; i < n_told; i++) {
    if (consists_of(told[i], parts)) return;
  }
  if (n_told == MAX_TOLD) return;
  size_t length = 0;
  for (size_t i = 0; parts[i]; i++) length += strlen(parts[i]);
  char *read = berth_table_allocate(length + 1);
  for (size_t i = 0; parts[i]; i++) strcat(read, parts[i]);
  told[n_told++] = read;
  /* The scheduler recognizes the log line by its first words. */
  berth_log(BERTH_SCHEDULER_HOST_LEVEL_WARN, berth_concat("undeclared read: ", read, NULL));
}

#define DECLARED(column, function) \
  if (!(berth_plugin.columns & BERTH_COLUMN_##column)) TELL_UNDECLARED("BERTH_COLUMN_" #column " (" #function ")")

static bool is_among(const char *key, const char *const *keys) {
  for (; keys && *keys; keys++) {
    if (!strcmp(*keys, key)) return true;
  }
  return false;
}

const char *berth_pod_json(const berth_pod *pod) {
  if (!berth_plugin.pod_json) TELL_UNDECLARED("pod_json (berth_pod_json)");
  plugin_string_t json = {pod->json.val.ptr, pod->json.val.len};
  return pod->json.is_some ? berth_string(&json) : NULL;
}

static const struct row *row_at(berth_row node) {
  static const struct row none;
  return node < n_rows ? &rows[node] : &none;
}

const char *berth_node_name(berth_row node) {
  DECLARED(NAME, berth_node_name);
  return berth_text(row_at(node)->name);
}

bool berth_node_unschedulable(berth_row node) {
  DECLARED(UNSCHEDULABLE, berth_node_unschedulable);
  return row_at(node)->unschedulable;
}

static bool find_label(berth_row node, berth_sym key, berth_sym *value) {
  const struct row *row = row_at(node);
  const struct label *labels = row->labels.items;
  for (size_t i = 0; i < row->labels.n; i++) {
    if (labels[i].key == key) {
      if (value) *value = labels[i].value;
      return true;
    }
  }
  return false;
}

bool berth_node_has_label(berth_row node, berth_sym key, berth_sym *value) {
  if (!berth_plugin.label_keys) DECLARED(LABELS, berth_node_has_label);
  return find_label(node, key, value);
}

const char *berth_node_label(berth_row node, const char *key) {
  berth_sym value, symbol = berth_symbol(key);
  if (symbol && find_label(node, symbol, &value)) return berth_text(value);
  bool is_declared = berth_plugin.columns & BERTH_COLUMN_LABELS || is_among(key, berth_plugin.label_keys);
  if (!is_declared) TELL_UNDECLARED("label ", key);
  return NULL;
}

const char *berth_node_annotation(berth_row node, const char *key) {
  const struct list *list = &row_at(node)->annotations;
  const struct annotation *annotations = list->items;
  for (size_t i = 0; i < list->n; i++) {
    if (!strcmp(annotations[i].key, key)) return annotations[i].value;
  }
  if (!is_among(key, berth_plugin.annotation_keys)) TELL_UNDECLARED("annotation ", key);
  return NULL;
}

const berth_pod *const *berth_node_pods(berth_row node, size_t *n_pods) {
  if (!berth_follows_pods()) TELL_UNDECLARED("pods (berth_node_pods)");
  const struct list *list = &row_at(node)->pods;
  *n_pods = list->n;
  return list->items;
}

const berth_taint *berth_node_taints(berth_row node, size_t *n_taints) {
  DECLARED(TAINTS, berth_node_taints);
  uint32_t set = row_at(node)->taint_set;
  *n_taints = set < n_taint_sets ? taint_sets[set].n : 0;
  return set < n_taint_sets ? taint_sets[set].items : NULL;
}

static int64_t amount(const struct resources *table, berth_row node, berth_sym resource) {
  for (size_t i = 0; i < table->n; i++) {
    const struct resource *column = &table->columns[i];
    if (column->name == resource) return node < column->n ? column->amounts[node] : 0;
  }
  return 0;
}

int64_t berth_node_allocatable(berth_row node, berth_sym resource) {
  DECLARED(ALLOCATABLE, berth_node_allocatable);
  return amount(&allocatable, node, resource);
}

int64_t berth_node_requested(berth_row node, berth_sym resource) {
  DECLARED(REQUESTED, berth_node_requested);
  return amount(&requested, node, resource);
}

int64_t berth_node_non_zero_milli_cpu(berth_row node) {
  DECLARED(NON_ZERO_REQUESTED, berth_node_non_zero_milli_cpu);
  return row_at(node)->non_zero_milli_cpu;
}

int64_t berth_node_non_zero_memory(berth_row node) {
  DECLARED(NON_ZERO_REQUESTED, berth_node_non_zero_memory);
  return row_at(node)->non_zero_memory;
}

int64_t berth_node_pod_count(berth_row node) {
  DECLARED(POD_COUNT, berth_node_pod_count);
  return row_at(node)->pod_count;
}

const berth_sym *berth_node_images(berth_row node, size_t *n_images) {
  DECLARED(IMAGES, berth_node_images);
  const struct list *list = &row_at(node)->images;
  *n_images = list->n;
  return list->items;
}

const berth_host_port *berth_node_host_ports(berth_row node, size_t *n_ports) {
  DECLARED(HOST_PORTS, berth_node_host_ports);
  const struct list *list = &row_at(node)->host_ports;
  *n_ports = list->n;
  return list->items;
}

const berth_sym *berth_node_declared_features(berth_row node, size_t *n_features) {
  DECLARED(DECLARED_FEATURES, berth_node_declared_features);
  const struct list *list = &row_at(node)->declared_features;
  *n_features = list->n;
  return list->items;
}

int64_t berth_image_size(berth_sym image) { return image < n_texts ? image_sizes[image] : 0; }

static void append(struct list *list, const void *item, size_t size) {
  list->items = berth_table_resize(list->items, (list->n + 1) * size);
  memcpy((char *)list->items + list->n++ * size, item, size);
}

static void take_out(struct list *list, size_t index, size_t size) {
  char *item = (char *)list->items + index * size;
  memmove(item, item + size, (--list->n - index) * size);
}

static void set_amount(struct resource *column, berth_row node, int64_t value) {
  if (node >= column->n) {
    size_t n = (size_t)node + 1 > column->n * 2 ? (size_t)node + 1 : column->n * 2;
    column->amounts = berth_table_resize(column->amounts, n * sizeof *column->amounts);
    memset(column->amounts + column->n, 0, (n - column->n) * sizeof *column->amounts);
    column->n = n;
  }
  column->amounts[node] = value;
}

static struct resource *column_for(struct resources *table, berth_sym name) {
  for (size_t i = 0; i < table->n; i++) {
    if (table->columns[i].name == name) return &table->columns[i];
  }
  table->columns = berth_table_resize(table->columns, (table->n + 1) * sizeof *table->columns);
  table->columns[table->n] = (struct resource){.name = name};
  return &table->columns[table->n++];
}

#if defined BERTH_EXPORTS_FILTER || defined BERTH_EXPORTS_SYNC
/* The row of a node. A new row is added. */
static struct row *row_for(berth_row node) {
  if (node >= n_rows) {
    size_t n = (size_t)node + 1 > n_rows * 2 ? (size_t)node + 1 : n_rows * 2;
    rows = berth_table_resize(rows, n * sizeof *rows);
    memset(rows + n_rows, 0, (n - n_rows) * sizeof *rows);
    n_rows = n;
  }
  return &rows[node];
}

#endif

#ifdef BERTH_EXPORTS_FILTER
/* The original lists of the row that berth_table_alter changed. */
static struct list saved_pods, saved_host_ports;

static struct list copy_of(const struct list *list, size_t size) {
  struct list copy = {berth_table_allocate(list->n * size), list->n};
  if (list->n) memcpy(copy.items, list->items, list->n * size);
  return copy;
}

static void count_amount(berth_row node, berth_sym resource, int64_t change) {
  if (change) set_amount(column_for(&requested, resource), node, amount(&requested, node, resource) + change);
}

static void count_pod(berth_row node, const berth_pod *pod, int64_t sign) {
  struct row *row = &rows[node];
  row->pod_count += sign;
  row->non_zero_milli_cpu += sign * pod->placed_non_zero.milli_cpu;
  row->non_zero_memory += sign * pod->placed_non_zero.memory;
  count_amount(node, BERTH_CPU, sign * pod->placed_requests.milli_cpu);
  count_amount(node, BERTH_MEMORY, sign * pod->placed_requests.memory);
  count_amount(node, BERTH_EPHEMERAL_STORAGE, sign * pod->placed_requests.ephemeral_storage);
  for (size_t i = 0; i < pod->placed_requests.scalars.len; i++) {
    count_amount(node, pod->placed_requests.scalars.ptr[i].f0, sign * pod->placed_requests.scalars.ptr[i].f1);
  }
}

static void take_pod(struct row *row, const berth_pod *pod) {
  berth_pod **pods = row->pods.items;
  for (size_t i = 0; i < row->pods.n; i++) {
    if (pods[i]->uid.len == pod->uid.len && !memcmp(pods[i]->uid.ptr, pod->uid.ptr, pod->uid.len)) {
      take_out(&row->pods, i, sizeof *pods);
      break;
    }
  }
  for (size_t p = 0; p < pod->host_ports.len; p++) {
    const berth_host_port *port = &pod->host_ports.ptr[p], *used = row->host_ports.items;
    for (size_t i = 0; i < row->host_ports.n; i++) {
      if (used[i].address == port->address && used[i].protocol == port->protocol && used[i].port == port->port) {
        take_out(&row->host_ports, i, sizeof *used);
        break;
      }
    }
  }
}

void berth_table_alter(const exports_berth_scheduler_filter_dry_run_case_t *change, const berth_pod *pods) {
  struct row *row = row_for(change->node);
  saved_pods = row->pods;
  saved_host_ports = row->host_ports;
  row->pods = copy_of(&saved_pods, sizeof(berth_pod *));
  row->host_ports = copy_of(&saved_host_ports, sizeof(berth_host_port));
  for (size_t i = 0; i < change->minus.len; i++) {
    take_pod(row, &pods[change->minus.ptr[i]]);
    count_pod(change->node, &pods[change->minus.ptr[i]], -1);
  }
  for (size_t i = 0; i < change->plus.len; i++) {
    const berth_pod *pod = &pods[change->plus.ptr[i]];
    append(&row->pods, &pod, sizeof pod);
    for (size_t p = 0; p < pod->host_ports.len; p++) append(&row->host_ports, &pod->host_ports.ptr[p], sizeof(berth_host_port));
    count_pod(change->node, pod, 1);
  }
}

void berth_table_restore(const exports_berth_scheduler_filter_dry_run_case_t *change, const berth_pod *pods) {
  struct row *row = &rows[change->node];
  free(row->pods.items);
  free(row->host_ports.items);
  row->pods = saved_pods;
  row->host_ports = saved_host_ports;
  for (size_t i = 0; i < change->minus.len; i++) count_pod(change->node, &pods[change->minus.ptr[i]], 1);
  for (size_t i = 0; i < change->plus.len; i++) count_pod(change->node, &pods[change->plus.ptr[i]], -1);
}
#endif

#ifdef BERTH_EXPORTS_SYNC
static void copy(struct list *list, const void *items, size_t n, size_t size) {
  free(list->items);
  list->n = n;
  list->items = n ? berth_table_allocate(n * size) : NULL;
  if (n) memcpy(list->items, items, n * size);
}

static void clear_amounts(struct resources *table, berth_row node) {
  for (size_t i = 0; i < table->n; i++) {
    if (node < table->columns[i].n) table->columns[i].amounts[node] = 0;
  }
}

static void clear_annotations(struct row *row) {
  struct annotation *annotations = row->annotations.items;
  for (size_t i = 0; i < row->annotations.n; i++) {
    free(annotations[i].key);
    free(annotations[i].value);
  }
  row->annotations.n = 0;
}

static void empty_row(berth_row node) {
  struct row *row = row_for(node);
  clear_annotations(row);
  struct list *lists[] = {&row->labels, &row->images, &row->host_ports, &row->declared_features,
                          &row->annotations, &row->pods};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) free(lists[i]->items);
  memset(row, 0, sizeof *row);
  clear_amounts(&allocatable, node);
  clear_amounts(&requested, node);
}

static void free_placed(struct placed *placed) {
  if (placed->has_own_names) {
    free(placed->pod.uid.ptr);
    free(placed->pod.name.ptr);
  }
  if (!--placed->shared->n) {
    berth_scheduler_types_pod_free(&placed->shared->pod);
    free(placed->shared);
  }
  free(placed);
}

static void remove_pod(uint32_t slot) {
  if (slot >= n_slots || !slots[slot].pod) return;
  berth_pod *pod = slots[slot].pod;
  struct row *row = row_for(slots[slot].node);
  berth_pod **pods = row->pods.items;
  for (size_t i = 0; i < row->pods.n; i++) {
    if (pods[i] == pod) {
      take_out(&row->pods, i, sizeof *pods);
      break;
    }
  }
  slots[slot].pod = NULL;
  if (berth_plugin.pod_removed) {
    berth_forget();
    berth_plugin.pod_removed(pod, slots[slot].node);
  }
  free_placed((struct placed *)pod);
}

static void put_pod(struct placed *made, berth_row node) {
  uint32_t slot = made->slot;
  berth_pod *pod = &made->pod;
  remove_pod(slot);
  if (slot >= n_slots) {
    size_t n = (size_t)slot + 1 > n_slots * 2 ? (size_t)slot + 1 : n_slots * 2;
    slots = berth_table_resize(slots, n * sizeof *slots);
    memset(slots + n_slots, 0, (n - n_slots) * sizeof *slots);
    n_slots = n;
  }
  slots[slot] = (struct slot){pod, node};
  append(&row_for(node)->pods, &pod, sizeof pod);
  if (berth_plugin.pod_placed) {
    berth_forget();
    berth_plugin.pod_placed(pod, node);
  }
}

/* Places a pod on its node, and moves the memory of the pod's record out of `placed`. */
static void place_pod(exports_berth_scheduler_sync_placed_pod_t *placed) {
  struct shared *shared = berth_table_allocate(sizeof *shared);
  *shared = (struct shared){placed->pod, 1};
  memset(&placed->pod, 0, sizeof placed->pod);
  struct placed *made = berth_table_allocate(sizeof *made);
  *made = (struct placed){.pod = shared->pod, .slot = placed->slot, .shared = shared};
  put_pod(made, placed->node);
}

static void empty_table(void) {
  for (size_t node = 0; node < n_rows; node++) empty_row((berth_row)node);
  for (size_t i = 0; i < n_taint_sets; i++) copy(&taint_sets[i], NULL, 0, 0);
  berth_objects_forget();
  if (texts_capacity) memset(image_sizes, 0, texts_capacity * sizeof *image_sizes);
}

static void apply_resources(struct resources *table, const exports_berth_scheduler_sync_list_row_t *changed,
                            const exports_berth_scheduler_sync_resource_columns_t *columns) {
  for (size_t i = 0; i < changed->len; i++) clear_amounts(table, changed->ptr[i]);
  for (size_t c = 0; c < columns->names.len; c++) {
    struct resource *column = column_for(table, columns->names.ptr[c]);
    const plugin_list_s64_t *values = &columns->values.ptr[c];
    for (size_t i = 0; i < changed->len && i < values->len; i++) set_amount(column, changed->ptr[i], values->ptr[i]);
  }
}

/* Sets the list at `offset` in each row. The lists lie one after the other in `items`. Each item has `size` bytes. */
static void apply_lists(const exports_berth_scheduler_sync_list_row_t *changed, const plugin_list_u32_t *ends,
                        const void *items, size_t size, size_t offset) {
  size_t start = 0;
  for (size_t i = 0; i < changed->len && i < ends->len; i++) {
    struct list *list = (struct list *)((char *)row_for(changed->ptr[i]) + offset);
    copy(list, (const char *)items + start * size, ends->ptr[i] - start, size);
    start = ends->ptr[i];
  }
}

static char *text_of(const plugin_string_t *string) {
  char *text = berth_table_allocate(string->len + 1);
  memcpy(text, string->ptr, string->len);
  return text;
}

#define EACH(changed) for (size_t i = 0; i < (changed)->len; i++)

static void apply_column(const exports_berth_scheduler_sync_column_change_t *change) {
  const exports_berth_scheduler_sync_list_row_t *changed = &change->rows;
  const exports_berth_scheduler_sync_column_data_t *data = &change->data;
  switch (data->tag) {
    case EXPORTS_BERTH_SCHEDULER_SYNC_COLUMN_DATA_NAME:
      EACH(changed) row_for(changed->ptr[i])->name = data->val.name.ptr[i];
      break;
    case EXPORTS_BERTH_SCHEDULER_SYNC_COLUMN_DATA_UNSCHEDULABLE:
      EACH(changed) row_for(changed->ptr[i])->unschedulable = data->val.unschedulable.ptr[i];
      break;
    case EXPORTS_BERTH_SCHEDULER_SYNC_COLUMN_DATA_LABELS:
      apply_lists(changed, &data->val.labels.ends, data->val.labels.items.ptr, sizeof(struct label),
                  offsetof(struct row, labels));
      break;
    case EXPORTS_BERTH_SCHEDULER_SYNC_COLUMN_DATA_TAINTS:
      EACH(changed) row_for(changed->ptr[i])->taint_set = data->val.taints.ptr[i];
      break;
    case EXPORTS_BERTH_SCHEDULER_SYNC_COLUMN_DATA_ALLOCATABLE:
      apply_resources(&allocatable, changed, &data->val.allocatable);
      break;
    case EXPORTS_BERTH_SCHEDULER_SYNC_COLUMN_DATA_REQUESTED:
      apply_resources(&requested, changed, &data->val.requested);
      break;
    case EXPORTS_BERTH_SCHEDULER_SYNC_COLUMN_DATA_NON_ZERO_REQUESTED:
      EACH(changed) {
        row_for(changed->ptr[i])->non_zero_milli_cpu = data->val.non_zero_requested.milli_cpu.ptr[i];
        row_for(changed->ptr[i])->non_zero_memory = data->val.non_zero_requested.memory.ptr[i];
      }
      break;
    case EXPORTS_BERTH_SCHEDULER_SYNC_COLUMN_DATA_POD_COUNT:
      EACH(changed) row_for(changed->ptr[i])->pod_count = data->val.pod_count.ptr[i];
      break;
    case EXPORTS_BERTH_SCHEDULER_SYNC_COLUMN_DATA_IMAGES:
      apply_lists(changed, &data->val.images.ends, data->val.images.items.ptr, sizeof(berth_sym),
                  offsetof(struct row, images));
      break;
    case EXPORTS_BERTH_SCHEDULER_SYNC_COLUMN_DATA_HOST_PORTS:
      apply_lists(changed, &data->val.host_ports.ends, data->val.host_ports.items.ptr, sizeof(berth_host_port),
                  offsetof(struct row, host_ports));
      break;
    case EXPORTS_BERTH_SCHEDULER_SYNC_COLUMN_DATA_ANNOTATIONS:
      EACH(changed) {
        struct row *row = row_for(changed->ptr[i]);
        clear_annotations(row);
        for (size_t a = 0; a < data->val.annotations.ptr[i].len; a++) {
          const plugin_tuple2_string_string_t *pair = &data->val.annotations.ptr[i].ptr[a];
          struct annotation annotation = {text_of(&pair->f0), text_of(&pair->f1)};
          append(&row->annotations, &annotation, sizeof annotation);
        }
      }
      break;
    case EXPORTS_BERTH_SCHEDULER_SYNC_COLUMN_DATA_DECLARED_FEATURES:
      apply_lists(changed, &data->val.declared_features.ends, data->val.declared_features.items.ptr, sizeof(berth_sym),
                  offsetof(struct row, declared_features));
      break;
    default:
      break;
  }
}

static void announce(const exports_berth_scheduler_sync_tuple2_sym_string_t *symbol) {
  set_text(symbol->f0, text_of(&symbol->f1));
}

void berth_table_apply(exports_berth_scheduler_sync_delta_t *delta) {
  know_symbols();
  /* Pods are removed before the symbols change, because a symbol of a removed pod may get another text. */
  for (size_t slot = 0; delta->full && slot < n_slots; slot++) remove_pod((uint32_t)slot);
  for (size_t i = 0; i < delta->pods_removed.len; i++) remove_pod(delta->pods_removed.ptr[i]);
  for (size_t i = 0; i < delta->symbols.len; i++) announce(&delta->symbols.ptr[i]);
  if (delta->full) empty_table();
  for (size_t i = 0; i < delta->removed.len; i++) empty_row(delta->removed.ptr[i]);
  for (size_t i = 0; i < delta->added.len; i++) row_for(delta->added.ptr[i])->exists = true;
  for (size_t i = 0; i < delta->taint_sets.len; i++) {
    uint32_t id = delta->taint_sets.ptr[i].f0;
    if (id >= n_taint_sets) {
      taint_sets = berth_table_resize(taint_sets, ((size_t)id + 1) * sizeof *taint_sets);
      memset(taint_sets + n_taint_sets, 0, ((size_t)id + 1 - n_taint_sets) * sizeof *taint_sets);
      n_taint_sets = (size_t)id + 1;
    }
    copy(&taint_sets[id], delta->taint_sets.ptr[i].f1.ptr, delta->taint_sets.ptr[i].f1.len, sizeof(berth_taint));
  }
  for (size_t i = 0; i < delta->columns.len; i++) apply_column(&delta->columns.ptr[i]);
  for (size_t i = 0; i < delta->pods_placed.len; i++) place_pod(&delta->pods_placed.ptr[i]);
  for (size_t i = 0; i < delta->image_sizes.len; i++) {
    berth_sym image = delta->image_sizes.ptr[i].f0;
    if (image < n_texts) image_sizes[image] = delta->image_sizes.ptr[i].f1;
  }
  for (size_t i = 0; i < delta->objects.len; i++) berth_objects_apply(&delta->objects.ptr[i]);
}

#ifdef BERTH_EXPORTS_SYNC_PODS
static void place_alike(exports_berth_scheduler_sync_pods_alike_pod_t *alike) {
  if (alike->like >= n_slots || !slots[alike->like].pod) berth_panic("a pod is like one that there is not");
  struct shared *shared = ((struct placed *)slots[alike->like].pod)->shared;
  shared->n++;
  struct placed *made = berth_table_allocate(sizeof *made);
  *made = (struct placed){.pod = shared->pod, .slot = alike->slot, .has_own_names = true, .shared = shared};
  made->pod.uid = alike->uid;
  made->pod.name = alike->name;
  made->pod.node_name = alike->node_name;
  made->pod.nominated_node_name = alike->nominated_node_name;
  made->pod.started_at = alike->started_at;
  /* The pod owns the texts. */
  alike->uid = alike->name = (plugin_string_t){NULL, 0};
  put_pod(made, alike->node);
}

void exports_berth_scheduler_sync_pods_place(exports_berth_scheduler_sync_pods_list_alike_pod_t *pods) {
  for (size_t i = 0; i < pods->len; i++) place_alike(&pods->ptr[i]);
  exports_berth_scheduler_sync_pods_list_alike_pod_free(pods);
}

static void set_requested(berth_row node, const berth_scheduler_types_resources_t *amounts) {
  clear_amounts(&requested, node);
  set_amount(column_for(&requested, BERTH_CPU), node, amounts->milli_cpu);
  set_amount(column_for(&requested, BERTH_MEMORY), node, amounts->memory);
  set_amount(column_for(&requested, BERTH_EPHEMERAL_STORAGE), node, amounts->ephemeral_storage);
  for (size_t i = 0; i < amounts->scalars.len; i++) {
    set_amount(column_for(&requested, amounts->scalars.ptr[i].f0), node, amounts->scalars.ptr[i].f1);
  }
}

void exports_berth_scheduler_sync_pods_set_usage(uint64_t generation, exports_berth_scheduler_sync_pods_list_usage_t *usage) {
  (void)generation;
  for (size_t i = 0; i < usage->len; i++) {
    const exports_berth_scheduler_sync_pods_usage_t *change = &usage->ptr[i];
    struct row *row = row_for(change->node);
    if (change->requested.is_some) set_requested(change->node, &change->requested.val);
    if (change->non_zero_requested.is_some) {
      row->non_zero_milli_cpu = change->non_zero_requested.val.milli_cpu;
      row->non_zero_memory = change->non_zero_requested.val.memory;
    }
    if (change->pod_count.is_some) row->pod_count = change->pod_count.val;
  }
  exports_berth_scheduler_sync_pods_list_usage_free(usage);
}
#endif
#endif
