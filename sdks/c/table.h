/* The replica of the node table: what the SDK itself needs of it. */
#ifndef BERTH_TABLE_H
#define BERTH_TABLE_H

#include "berth.h"

/* Zeroed memory; traps when there is none. */
void *berth_table_allocate(size_t size);
void *berth_table_resize(void *memory, size_t size);

/* Zeroed memory that lives until the plugin is called again. */
void *berth_allocate_for_call(size_t size);

/* The pod of an open cycle, or NULL. */
const berth_pod *berth_pod_of(uint64_t cycle);
/* The same at the start of a call; without a pod, `status` says why. */
const berth_pod *berth_enter(uint64_t cycle, berth_scheduler_types_status_t *status);
/* Frees what lived until the plugin is called again. */
void berth_forget(void);
void berth_set_status(berth_scheduler_types_status_t *status, berth_verdict verdict);
/* The set rows of a bitmap, to be freed. */
berth_row *berth_rows(const berth_scheduler_types_rows_t *nodes, size_t *n_nodes);
/* Whether the replica has the pods on nodes. */
bool berth_follows_pods(void);
/* The slot of a pod that a node holds. */
uint32_t berth_table_slot(const berth_pod *pod);
/* The other way round. */
const berth_pod *berth_table_pod(uint32_t slot);

#ifdef BERTH_EXPORTS_SYNC
/* Takes over what it keeps of the delta, and leaves the rest to be freed. */
void berth_table_apply(exports_berth_scheduler_sync_delta_t *delta);
/* The part of it that is about objects of other kinds. */
void berth_objects_apply(const exports_berth_scheduler_sync_object_t *object);
void berth_objects_forget(void);
#endif

#ifdef BERTH_EXPORTS_FILTER
/* Takes pods away from a node and adds others, until it is restored. One node at a time. */
void berth_table_alter(const exports_berth_scheduler_filter_dry_run_case_t *change, const berth_pod *pods);
void berth_table_restore(const exports_berth_scheduler_filter_dry_run_case_t *change, const berth_pod *pods);
#endif

#endif
