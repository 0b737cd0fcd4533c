/* Reads members of JSON objects by key. The scheduler sends valid JSON, therefore errors are not reported. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

static const char *skip_space(const char *c) {
  while (*c == ' ' || *c == '\t' || *c == '\n' || *c == '\r') c++;
  return c;
}

static const char *skip_string(const char *c) {
  for (c++; *c && *c != '"'; c++) {
    if (*c == '\\' && c[1]) c++;
  }
  return *c ? c + 1 : c;
}

/* The place after the value at `c`. */
static const char *skip_value(const char *c) {
  size_t depth = 0;
  for (; *c; c++) {
    if (*c == '"') {
      c = skip_string(c) - 1;
    } else if (*c == '{' || *c == '[') {
      depth++;
    } else if ((*c == '}' || *c == ']' || *c == ',') && !depth) {
      return c;
    } else if (*c == '}' || *c == ']') {
      depth--;
    }
  }
  return c;
}

static unsigned hex(const char *c, size_t n_digits) {
  unsigned value = 0;
  for (size_t i = 0; i < n_digits && c[i]; i++) {
    unsigned char digit = (unsigned char)c[i];
    value = value * 16 + (digit <= '9' ? digit - '0' : (digit | 32u) - 'a' + 10u);
  }
  return value;
}

static char *put_utf8(char *end, unsigned code) {
  if (code < 0x80) {
    *end++ = (char)code;
  } else if (code < 0x800) {
    *end++ = (char)(0xC0 | code >> 6);
    *end++ = (char)(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    *end++ = (char)(0xE0 | code >> 12);
    *end++ = (char)(0x80 | (code >> 6 & 0x3F));
    *end++ = (char)(0x80 | (code & 0x3F));
  } else {
    *end++ = (char)(0xF0 | code >> 18);
    *end++ = (char)(0x80 | (code >> 12 & 0x3F));
    *end++ = (char)(0x80 | (code >> 6 & 0x3F));
    *end++ = (char)(0x80 | (code & 0x3F));
  }
  return end;
}

/* The string at `c` without escapes, in new memory. */
static char *parse_string(const char *c) {
  const char *stop = skip_string(c) - 1;
  char *text = berth_table_allocate((size_t)(stop - c) + 1), *end = text;
  for (c++; c < stop; c++) {
    if (*c != '\\') {
      *end++ = *c;
      continue;
    }
    c++;
    static const char escapes[] = "b\bf\fn\nr\rt\t";
    const char *escape = *c == 'u' ? NULL : strchr(escapes, *c);
    if (*c == 'u') {
      unsigned code = hex(c + 1, 4);
      c += 4;
      if (code >> 10 == 0x36 && c[1] == '\\' && c[2] == 'u') {
        code = 0x10000 + ((code & 0x3FF) << 10 | (hex(c + 3, 4) & 0x3FF));
        c += 6;
      }
      end = put_utf8(end, code);
    } else {
      *end++ = escape ? escape[1] : *c;
    }
  }
  *end = 0;
  return text;
}

/* The key of the first member, or NULL. */
static const char *first_key(const char *json) {
  if (!json) return NULL;
  const char *c = skip_space(json);
  if (*c != '{') return NULL;
  c = skip_space(c + 1);
  return *c == '"' ? c : NULL;
}

/* The value after a key. */
static const char *value_of(const char *key) {
  const char *c = skip_space(skip_string(key));
  return skip_space(*c ? c + 1 : c);
}

/* The key after a value, or NULL. */
static const char *next_key(const char *value) {
  const char *c = skip_value(value);
  if (*c != ',') return NULL;
  c = skip_space(c + 1);
  return *c == '"' ? c : NULL;
}

static bool is_key(const char *c, const char *key) {
  char *name = parse_string(c);
  bool is_same = !strcmp(name, key);
  free(name);
  return is_same;
}

/* The string at `c`. It is freed when the plugin is called again. */
static const char *text_for_call(const char *c) {
  char *text = parse_string(c);
  const char *copy = berth_concat(text, NULL);
  free(text);
  return copy;
}

/* The value of a member, or NULL. */
static const char *member(const char *json, const char *key) {
  for (const char *c = first_key(json); c; c = next_key(value_of(c))) {
    if (is_key(c, key)) return value_of(c);
  }
  return NULL;
}

const char *berth_json_object(const char *json, const char *key) {
  const char *value = member(json, key);
  return value && *value == '{' ? value : NULL;
}

const char *berth_json_next_key(const char *json, const char *after) {
  const char *value = after ? member(json, after) : NULL;
  const char *c = value ? next_key(value) : after ? NULL : first_key(json);
  return c ? text_for_call(c) : NULL;
}

bool berth_json_is_object(const char *json) {
  const char *c = skip_space(json);
  return *c == '{' || !strncmp(c, "null", 4);
}

static bool refuse(char error[BERTH_ERROR_SIZE], const char *reason) {
  strncpy(error, reason, BERTH_ERROR_SIZE - 1);
  return false;
}

bool berth_json_only(const char *json, char error[BERTH_ERROR_SIZE], const char *first, ...) {
  if (json && !berth_json_is_object(json)) return refuse(error, "must be a JSON object");
  for (const char *c = first_key(json); c; c = next_key(value_of(c))) {
    bool is_known = is_key(c, first);
    const char *known = first;
    va_list keys;
    va_start(keys, first);
    for (const char *key; (key = va_arg(keys, const char *));) {
      is_known |= is_key(c, key);
      known = berth_concat(known, ", ", key, NULL);
    }
    va_end(keys);
    if (!is_known) return refuse(error, berth_concat("unknown key \"", text_for_call(c), "\"; known: ", known, NULL));
  }
  return true;
}

enum berth_json berth_json_string(const char *json, const char *key, const char **value) {
  const char *c = member(json, key);
  if (!c) return BERTH_JSON_ABSENT;
  if (*c != '"') return BERTH_JSON_OTHER_TYPE;
  *value = parse_string(c);
  return BERTH_JSON_FOUND;
}

enum berth_json berth_json_bool(const char *json, const char *key, bool *value) {
  const char *c = member(json, key);
  if (!c) return BERTH_JSON_ABSENT;
  if (strncmp(c, "true", 4) && strncmp(c, "false", 5)) return BERTH_JSON_OTHER_TYPE;
  *value = *c == 't';
  return BERTH_JSON_FOUND;
}

bool berth_integer(const char *text, int64_t least, int64_t most, int64_t *value) {
  bool is_negative = *text == '-';
  if (*text == '-' || *text == '+') text++;
  if (!*text) return false;
  int64_t sum = 0;
  for (; *text; text++) {
    if (*text < '0' || *text > '9') return false;
    int64_t digit = *text - '0';
    if (__builtin_mul_overflow(sum, 10, &sum)) return false;
    if (__builtin_sub_overflow(sum, digit, &sum)) return false;
  }
  if (!is_negative && __builtin_sub_overflow((int64_t)0, sum, &sum)) return false;
  if (sum < least || sum > most) return false;
  *value = sum;
  return true;
}

enum berth_json berth_json_number(const char *json, const char *key, double *value) {
  const char *c = member(json, key);
  if (!c) return BERTH_JSON_ABSENT;
  if (*c != '-' && (*c < '0' || *c > '9')) return BERTH_JSON_OTHER_TYPE;
  *value = strtod(c, NULL);
  return BERTH_JSON_FOUND;
}

enum berth_json berth_json_integer(const char *json, const char *key, int64_t *value) {
  const char *c = member(json, key);
  if (!c) return BERTH_JSON_ABSENT;
  char digits[24];
  size_t n = 0;
  while (n < sizeof digits - 1 && c[n] && strchr("+-0123456789.eE", c[n])) {
    digits[n] = c[n];
    n++;
  }
  digits[n] = 0;
  return berth_integer(digits, INT64_MIN, INT64_MAX, value) ? BERTH_JSON_FOUND : BERTH_JSON_OTHER_TYPE;
}
