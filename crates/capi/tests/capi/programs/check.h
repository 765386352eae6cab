/* What the test programs share: a condition that ends the program, an error variable, and short forms
   of the usual calls. Each program is told its folder by its first argument. */

#ifndef CHECK_H
#define CHECK_H

#include <leveldb/c.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
#define UNUSED __attribute__((unused))
#else
#define UNUSED
#endif

#define CHECK(condition)                                                          \
  do {                                                                            \
    if (!(condition)) {                                                           \
      fprintf(stderr, "%s:%d: failed: %s (error: %s)\n", __FILE__, __LINE__,      \
              #condition, error != NULL ? error : "none");                        \
      abort();                                                                    \
    }                                                                             \
  } while (0)

#define CHECK_OK() CHECK(error == NULL)

/* The last call failed, with a text that begins so; forgets the error. */
#define CHECK_FAILED(start)                                                       \
  do {                                                                            \
    CHECK(error != NULL && strncmp(error, (start), strlen(start)) == 0);          \
    forget();                                                                     \
  } while (0)

static char* error = NULL;

UNUSED static void forget(void) {
  leveldb_free(error);
  error = NULL;
}

/* A text is its bytes without the zero. */
UNUSED static void put(leveldb_t* db, const char* key, const char* value) {
  leveldb_writeoptions_t* options = leveldb_writeoptions_create();
  leveldb_put(db, options, key, strlen(key), value, strlen(value), &error);
  leveldb_writeoptions_destroy(options);
}

UNUSED static void delete(leveldb_t* db, const char* key) {
  leveldb_writeoptions_t* options = leveldb_writeoptions_create();
  leveldb_delete(db, options, key, strlen(key), &error);
  leveldb_writeoptions_destroy(options);
}

/* True if the value of a key is this; null stands for none. */
UNUSED static int value_is(leveldb_t* db, const leveldb_readoptions_t* options, const char* key,
                           const char* expected) {
  size_t length = 4711;
  char* value = leveldb_get(db, options, key, strlen(key), &length, &error);
  int same;
  CHECK_OK();
  if (expected == NULL || value == NULL) {
    same = expected == NULL && value == NULL && length == 0;
  } else {
    same = length == strlen(expected) && memcmp(value, expected, length) == 0;
  }
  leveldb_free(value);
  return same;
}

UNUSED static int is(const char* bytes, size_t length, const char* expected) {
  return bytes != NULL && length == strlen(expected) && memcmp(bytes, expected, length) == 0;
}

UNUSED static int entry_is(const leveldb_iterator_t* iter, const char* key, const char* value) {
  size_t key_length, value_length;
  const char* its_key = leveldb_iter_key(iter, &key_length);
  const char* its_value = leveldb_iter_value(iter, &value_length);
  return leveldb_iter_valid(iter) && is(its_key, key_length, key) &&
         is(its_value, value_length, value);
}

/* The path of a file in the program's folder; good until the third call from now. */
UNUSED static const char* in(const char* folder, const char* name) {
  static char paths[3][512];
  static int next = 0;
  next = (next + 1) % 3;
  snprintf(paths[next], sizeof paths[next], "%s/%s", folder, name);
  return paths[next];
}

#endif
