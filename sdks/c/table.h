/* The replica of the node table: what the SDK itself needs of it. */
#ifndef BERTH_TABLE_H
#define BERTH_TABLE_H

#include "berth.h"

/* Zeroed memory; traps when there is none. */
void *berth_table_allocate(size_t size);
void *berth_table_resize(void *memory, size_t size);

#ifdef BERTH_EXPORTS_SYNC
/* Takes over what it keeps of the delta, and leaves the rest to be freed. */
void berth_table_apply(exports_berth_scheduler_sync_delta_t *delta);
#endif

#ifdef BERTH_EXPORTS_FILTER
/* Takes pods away from a node and adds others, until it is restored. One node at a time. */
void berth_table_alter(const exports_berth_scheduler_filter_dry_run_case_t *change, const berth_pod *pods);
void berth_table_restore(const exports_berth_scheduler_filter_dry_run_case_t *change, const berth_pod *pods);
#endif

#endif
