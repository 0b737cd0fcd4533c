/* The functions of the replica that only the SDK itself calls. */
#ifndef BERTH_TABLE_H
#define BERTH_TABLE_H

#include "berth.h"

/* Returns zeroed memory. Traps if there is not enough memory. */
void *berth_table_allocate(size_t size);
void *berth_table_resize(void *memory, size_t size);

/* Returns zeroed memory that is freed when the plugin is called again. */
void *berth_allocate_for_call(size_t size);

/* Returns the pod of an open cycle, or NULL. */
const berth_pod *berth_pod_of(uint64_t cycle);
/* Starts a call, and returns the pod of the cycle. If the cycle is not open, the result is NULL and `status` is an error. */
const berth_pod *berth_enter(uint64_t cycle, berth_scheduler_types_status_t *status);
/* Frees the memory of the previous call. */
void berth_forget(void);
void berth_set_status(berth_scheduler_types_status_t *status, berth_verdict verdict);
/* Returns the rows in a bitmap. The caller frees the list. */
berth_row *berth_rows(const berth_scheduler_types_rows_t *nodes, size_t *n_nodes);
/* Says whether the replica has the pods on nodes. */
bool berth_follows_pods(void);
/* Returns the slot of a pod on a node. */
uint32_t berth_table_slot(const berth_pod *pod);
/* Returns the pod in a slot. */
const berth_pod *berth_table_pod(uint32_t slot);
/* Logs once that the plugin reads something which the manifest does not request. The parts, up to a NULL, name the read. */
void berth_table_tell_undeclared(const char *const *parts);
#define TELL_UNDECLARED(...) berth_table_tell_undeclared((const char *const[]){__VA_ARGS__, NULL})

#ifdef BERTH_EXPORTS_SYNC
/* Applies a delta to the replica. It moves the kept memory out of the delta. The caller frees the remaining memory. */
void berth_table_apply(exports_berth_scheduler_sync_delta_t *delta);
/* Applies a change of an object of another kind. */
void berth_objects_apply(const exports_berth_scheduler_sync_object_t *object);
void berth_objects_forget(void);
#endif

#ifdef BERTH_EXPORTS_FILTER
/* Removes pods from a node and adds others, until berth_table_restore. Only one node can be altered at a time. */
void berth_table_alter(const exports_berth_scheduler_filter_dry_run_case_t *change, const berth_pod *pods);
void berth_table_restore(const exports_berth_scheduler_filter_dry_run_case_t *change, const berth_pod *pods);
#endif

#endif
