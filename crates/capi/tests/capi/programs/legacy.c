/* A program written for LevelDB, which knows of nothing else: a small library of books. What it prints
   must not depend on who provides the functions; who does goes to the other stream. */

#include <leveldb/c.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char* error = NULL;
static const char* folder;

static void tell(const char* what) {
  const char* text = error == NULL ? "fine" : error;
  /* The folder's name differs from run to run. */
  const char* at = strstr(text, folder);
  if (at != NULL) {
    printf("%s: %.*s...%s\n", what, (int)(at - text), text, at + strlen(folder));
  } else {
    printf("%s: %s\n", what, text);
  }
  leveldb_free(error);
  error = NULL;
}

static void show(const char* name, const char* bytes, size_t length) {
  printf("%s = %.*s (%lu)\n", name, (int)length, bytes, (unsigned long)length);
}

static void look_up(leveldb_t* db, leveldb_readoptions_t* options, const char* key) {
  size_t length;
  char* value = leveldb_get(db, options, key, strlen(key), &length, &error);
  if (value == NULL) {
    printf("%s is not there: %s\n", key, error == NULL ? "fine" : error);
  } else {
    show(key, value, length);
  }
  leveldb_free(value);
}

static void scan(leveldb_t* db, leveldb_readoptions_t* options, const char* from, int backwards) {
  leveldb_iterator_t* iter = leveldb_create_iterator(db, options);
  unsigned long sum = 5381;
  int count = 0;
  leveldb_iter_seek(iter, from, strlen(from));
  while (leveldb_iter_valid(iter)) {
    size_t key_length, value_length, i;
    const char* key = leveldb_iter_key(iter, &key_length);
    const char* value = leveldb_iter_value(iter, &value_length);
    if (count < 3) show("entry", key, key_length);
    for (i = 0; i < key_length; i++) sum = sum * 33 + (unsigned char)key[i];
    for (i = 0; i < value_length; i++) sum = sum * 33 + (unsigned char)value[i];
    count++;
    if (backwards) {
      leveldb_iter_prev(iter);
    } else {
      leveldb_iter_next(iter);
    }
  }
  leveldb_iter_get_error(iter, &error);
  printf("%d entries from %s, sum %lx\n", count, from, sum);
  tell("scan");
  leveldb_iter_destroy(iter);
}

static void on_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
  printf("%s put ", (const char*)state);
  show("", k, klen);
  (void)v, (void)vlen;
}

static void on_delete(void* state, const char* k, size_t klen) {
  printf("%s delete ", (const char*)state);
  show("", k, klen);
}

static int by_length(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  (void)state;
  if (alen != blen) return alen < blen ? -1 : 1;
  return memcmp(a, b, alen);
}

static const char* by_length_name(void* state) { return (void)state, "books.ByLength"; }

static void no_state(void* state) { (void)state; }

static void fill(leveldb_t* db, leveldb_writeoptions_t* writing) {
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  int i;
  for (i = 0; i < 30000; i++) {
    char key[32], value[160];
    int length = snprintf(value, sizeof value, "shelf %d, %*s", i % 97, i % 100, "dusty");
    snprintf(key, sizeof key, "book/%06d", (int)((i * 7919L) % 30000));
    if (i % 3 == 0) {
      leveldb_put(db, writing, key, strlen(key), value, (size_t)length, &error);
    } else {
      leveldb_writebatch_put(batch, key, strlen(key), value, (size_t)length);
    }
    if (i % 100 == 99) {
      leveldb_write(db, writing, batch, &error);
      leveldb_writebatch_clear(batch);
    }
  }
  tell("fill");
  leveldb_writebatch_put(batch, "book/a", 6, "A", 1);
  leveldb_writebatch_delete(batch, "book/000007", 11);
  leveldb_writebatch_iterate(batch, "batch", on_put, on_delete);
  leveldb_write(db, writing, batch, &error);
  leveldb_writebatch_destroy(batch);
}

static void custom_order(void) {
  char path[512];
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  leveldb_comparator_t* order = leveldb_comparator_create(NULL, no_state, by_length, by_length_name);
  leveldb_t* db;
  snprintf(path, sizeof path, "%s/ordered", folder);
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_comparator(options, order);
  db = leveldb_open(options, path, &error);
  leveldb_put(db, writing, "zz", 2, "2", 1, &error);
  leveldb_put(db, writing, "abc", 3, "3", 1, &error);
  leveldb_put(db, writing, "y", 1, "1", 1, &error);
  scan(db, reading, "", 0);
  leveldb_close(db);
  leveldb_options_destroy(options);
  options = leveldb_options_create();
  leveldb_open(options, path, &error);
  /* What stands before it is the library's affair. */
  printf("the wrong order: %s\n", strstr(error, "books.ByLength does not match"));
  leveldb_free(error);
  error = NULL;
  leveldb_options_destroy(options);
  leveldb_comparator_destroy(order);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
}

int main(int count, char** arguments) {
  char path[512];
  const leveldb_snapshot_t* snapshot;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  leveldb_cache_t* cache = leveldb_cache_create_lru(1 << 20);
  leveldb_filterpolicy_t* bloom = leveldb_filterpolicy_create_bloom(10);
  leveldb_t* db;
  char* value;
  if (count != 2) return 2;
  folder = arguments[1];
  snprintf(path, sizeof path, "%s/books", folder);

  leveldb_open(options, path, &error);
  tell("open what is not there");
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_cache(options, cache);
  leveldb_options_set_filter_policy(options, bloom);
  leveldb_options_set_write_buffer_size(options, 100000);
  db = leveldb_open(options, path, &error);
  tell("open");
  leveldb_open(options, path, &error);
  tell("open twice");
  value = leveldb_property_value(db, "siltstone.metrics");
  fprintf(stderr, "provided by %s\n", value == NULL ? "LevelDB" : "siltstone");
  leveldb_free(value);

  fill(db, writing);
  snapshot = leveldb_create_snapshot(db);
  leveldb_writeoptions_set_sync(writing, 1);
  leveldb_put(db, writing, "book/000001", 11, "", 0, &error);
  leveldb_delete(db, writing, "book/000002", 11, &error);
  tell("change");
  look_up(db, reading, "book/000001");
  look_up(db, reading, "book/000002");
  look_up(db, reading, "book/000007");
  leveldb_readoptions_set_snapshot(reading, snapshot);
  look_up(db, reading, "book/000001");
  look_up(db, reading, "book/000002");
  scan(db, reading, "book/", 0);
  leveldb_readoptions_set_snapshot(reading, NULL);
  leveldb_release_snapshot(db, snapshot);
  scan(db, reading, "book/015000", 0);
  scan(db, reading, "book/015000", 1);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  scan(db, reading, "", 0);
  value = leveldb_property_value(db, "leveldb.num-files-at-level0");
  printf("level 0 has %s\n", value);
  leveldb_free(value);
  leveldb_close(db);

  leveldb_repair_db(options, path, &error);
  tell("repair");
  leveldb_options_set_error_if_exists(options, 1);
  leveldb_open(options, path, &error);
  tell("open what is there");
  leveldb_options_set_error_if_exists(options, 0);
  db = leveldb_open(options, path, &error);
  tell("open again");
  scan(db, reading, "", 0);
  leveldb_close(db);
  custom_order();
  printf("LevelDB %d.%d\n", leveldb_major_version(), leveldb_minor_version());

  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  leveldb_filterpolicy_destroy(bloom);
  leveldb_cache_destroy(cache);
  return 0;
}
