/* Sends the lines of standard output and standard error to the scheduler's log. The C library writes with functions of WASI,
 * which a plugin must not import. This file replaces these functions. Other functions of WASI stay imports, and imports.py
 * refuses them. */
#include <string.h>

#include "table.h"

/* Error codes of WASI: success, a bad file descriptor, a stream that cannot seek. */
enum { OK = 0, BADF = 8, SPIPE = 70 };

enum { CHARACTER_DEVICE = 2, STANDARD_OUTPUT = 1, STANDARD_ERROR = 2 };

struct fdstat {
  uint8_t filetype;
  uint16_t flags;
  uint64_t rights, inheriting;
};

struct piece {
  const char *text;
  size_t n;
};

/* The unfinished line of each stream. A line that is longer than the buffer is logged in parts. */
static char lines[STANDARD_ERROR][1024];
static size_t lengths[STANDARD_ERROR];

static void end_line(int32_t fd) {
  size_t *length = &lengths[fd - 1];
  plugin_string_t text = {(uint8_t *)lines[fd - 1], *length};
  bool is_error = fd == STANDARD_ERROR;
  berth_scheduler_host_log(is_error ? BERTH_SCHEDULER_HOST_LEVEL_ERROR : BERTH_SCHEDULER_HOST_LEVEL_INFO, &text);
  *length = 0;
}

int32_t __imported_wasi_snapshot_preview1_fd_write(int32_t fd, int32_t pieces, int32_t n_pieces, int32_t n_written) {
  if (fd != STANDARD_OUTPUT && fd != STANDARD_ERROR) return BADF;
  const struct piece *all = (const struct piece *)pieces;
  size_t total = 0;
  for (int32_t i = 0; i < n_pieces; i++) {
    total += all[i].n;
    for (size_t at = 0; at < all[i].n; at++) {
      char letter = all[i].text[at];
      if (letter != '\n') lines[fd - 1][lengths[fd - 1]++] = letter;
      if (letter == '\n' || lengths[fd - 1] == sizeof lines[fd - 1]) end_line(fd);
    }
  }
  *(size_t *)n_written = total;
  return OK;
}

/* Reports a terminal, because the C library then writes after each line. */
int32_t __imported_wasi_snapshot_preview1_fd_fdstat_get(int32_t fd, int32_t stat) {
  if (fd != STANDARD_OUTPUT && fd != STANDARD_ERROR) return BADF;
  *(struct fdstat *)stat = (struct fdstat){.filetype = CHARACTER_DEVICE};
  return OK;
}

int32_t __imported_wasi_snapshot_preview1_fd_seek(int32_t fd, int64_t offset, int32_t whence, int32_t position) {
  (void)fd, (void)offset, (void)whence, (void)position;
  return SPIPE;
}

/* zig's C library implements this function in zig. Its implementation imports the function of WASI directly. */
int close(int fd) {
  (void)fd;
  return OK;
}

__attribute__((noreturn)) void __imported_wasi_snapshot_preview1_proc_exit(int32_t code) {
  berth_log(BERTH_SCHEDULER_HOST_LEVEL_ERROR, berth_concat("exit(", berth_decimal(code), ")", NULL));
  __builtin_trap();
}
