/* The checks of a debug build (build.sh with BERTH_DEBUG=1). The compiled code of the plugin calls these functions before
 * undefined behaviour. Each call is a fault that names the file and the line. */
#ifdef BERTH_DEBUG

#include <string.h>

#include "table.h"

/* The compiler's descriptions of a place and of an access. */
struct place {
  const char *file;
  uint32_t line, column;
};

struct access {
  struct place place;
  const void *type;
  uint8_t log_alignment, kind;
};

static _Noreturn void undefined(const struct place *place, const char *what) {
  const char *slash = strrchr(place->file, '/');
  berth_panic_at(what, slash ? slash + 1 : place->file, place->line);
}

void __ubsan_handle_type_mismatch_v1_abort(const struct access *access, uintptr_t address) {
  undefined(&access->place, address ? "an address that is not aligned, or too small an object" : "a null pointer is followed");
}

/* The functions differ in the number of operands that they get. The operands are not reported. */
#define CHECK(name, parameters, what) \
  void __ubsan_handle_##name parameters { undefined(place, what); }
#define NO_OPERANDS (const struct place *place)
#define ONE_OPERAND (const struct place *place, uintptr_t it)
#define TWO_OPERANDS (const struct place *place, uintptr_t left, uintptr_t right)
#pragma clang diagnostic ignored "-Wunused-parameter"

CHECK(pointer_overflow_abort, TWO_OPERANDS, "arithmetic on a null pointer, or beyond the end of memory")
CHECK(out_of_bounds_abort, ONE_OPERAND, "an index beyond the array")
CHECK(divrem_overflow_abort, TWO_OPERANDS, "a division by zero, or beyond the range of its type")
CHECK(add_overflow_abort, TWO_OPERANDS, "a sum beyond the range of its type")
CHECK(sub_overflow_abort, TWO_OPERANDS, "a difference beyond the range of its type")
CHECK(mul_overflow_abort, TWO_OPERANDS, "a product beyond the range of its type")
CHECK(negate_overflow_abort, ONE_OPERAND, "a negation beyond the range of its type")
CHECK(shift_out_of_bounds_abort, TWO_OPERANDS, "a shift by too many bits, or of a negative number")
CHECK(load_invalid_value_abort, ONE_OPERAND, "a value that its type does not have")
CHECK(vla_bound_not_positive_abort, ONE_OPERAND, "an array without elements")
CHECK(nonnull_arg_abort, NO_OPERANDS, "a null pointer is given to a function that takes none")
CHECK(builtin_unreachable, NO_OPERANDS, "code that cannot be reached")
CHECK(missing_return, NO_OPERANDS, "a function ends without its value")

/* berth_concat of the plugin: only the last of the texts may be NULL. */
const char *berth_concat_checked(const char *const *texts, size_t n, const char *file, unsigned line) {
  const char *joined = "";
  for (size_t i = 0; i + 1 < n; i++) {
    if (!texts[i]) berth_panic_at("berth_concat got a null pointer, which cuts the text off", file, line);
    joined = berth_concat(joined, texts[i], NULL);
  }
  return joined;
}

#endif
