/* What LevelDB's own test of its C API asks, phase by phase, in our words: the life of one database
   from its first error to a comparator and filters of the program's own. */

#include "check.h"

static leveldb_comparator_t* comparator;
static leveldb_cache_t* cache;
static leveldb_env_t* env;
static leveldb_options_t* options;
static leveldb_readoptions_t* reading;
static leveldb_writeoptions_t* writing;
static leveldb_t* db;

static void phase(const char* name) {
  CHECK_OK();
  printf("%s\n", name);
  fflush(stdout);
}

static void nothing_to_destroy(void* state) { (void)state; }

static int compare_bytes(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  size_t shorter = alen < blen ? alen : blen;
  int order = memcmp(a, b, shorter);
  (void)state;
  return order != 0 ? order : (alen > blen) - (alen < blen);
}

static const char* comparator_name(void* state) {
  (void)state;
  return "the test's order";
}

static uint8_t filter_says = 1;

static const char* filter_name(void* state) {
  (void)state;
  return "the test's filter";
}

static char* make_filter(void* state, const char* const* keys, const size_t* lengths, int count,
                         size_t* filter_length) {
  char* filter = malloc(6);
  (void)state;
  CHECK(count > 0 && keys[0] != NULL && lengths[0] > 0);
  memcpy(filter, "filter", 6);
  *filter_length = 6;
  return filter;
}

static uint8_t ask_filter(void* state, const char* key, size_t length, const char* filter,
                          size_t filter_length) {
  (void)state;
  CHECK(key != NULL && length > 0);
  CHECK(is(filter, filter_length, "filter"));
  return filter_says;
}

/* Of a batch: the first update of each kind, counted. */
struct told {
  int puts, deletes;
};

static void told_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
  struct told* told = state;
  static const char* expected[][2] = {{"bar", "b"}, {"box", "c"}};
  CHECK(told->puts < 2 && told->deletes == 0);
  CHECK(is(k, klen, expected[told->puts][0]) && is(v, vlen, expected[told->puts][1]));
  told->puts++;
}

static void told_delete(void* state, const char* k, size_t klen) {
  struct told* told = state;
  CHECK(told->puts == 2 && told->deletes == 0 && is(k, klen, "bar"));
  told->deletes++;
}

static void objects(void) {
  comparator = leveldb_comparator_create(NULL, nothing_to_destroy, compare_bytes, comparator_name);
  env = leveldb_create_default_env();
  cache = leveldb_cache_create_lru(100000);
  options = leveldb_options_create();
  leveldb_options_set_comparator(options, comparator);
  leveldb_options_set_error_if_exists(options, 1);
  leveldb_options_set_cache(options, cache);
  leveldb_options_set_env(options, env);
  leveldb_options_set_info_log(options, NULL);
  leveldb_options_set_write_buffer_size(options, 100000);
  leveldb_options_set_paranoid_checks(options, 1);
  leveldb_options_set_max_open_files(options, 10);
  leveldb_options_set_block_size(options, 1024);
  leveldb_options_set_block_restart_interval(options, 8);
  leveldb_options_set_max_file_size(options, 3 << 20);
  leveldb_options_set_compression(options, leveldb_no_compression);
  reading = leveldb_readoptions_create();
  leveldb_readoptions_set_verify_checksums(reading, 1);
  leveldb_readoptions_set_fill_cache(reading, 0);
  writing = leveldb_writeoptions_create();
  leveldb_writeoptions_set_sync(writing, 1);
}

static void opening(const char* path) {
  phase("destroy what is not there");
  leveldb_destroy_db(options, path, &error);

  phase("open what is not there");
  leveldb_open(options, path, &error);
  CHECK_FAILED("Invalid argument: ");

  phase("open");
  leveldb_options_set_create_if_missing(options, 1);
  db = leveldb_open(options, path, &error);
  CHECK_OK();
  CHECK(value_is(db, reading, "foo", NULL));
}

static void writes(void) {
  phase("put");
  leveldb_put(db, writing, "foo", 3, "hello", 5, &error);
  CHECK(value_is(db, reading, "foo", "hello"));

  phase("compact everything");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  CHECK(value_is(db, reading, "foo", "hello"));

  phase("compact a range");
  leveldb_compact_range(db, "a", 1, "z", 1);
  CHECK(value_is(db, reading, "foo", "hello"));
}

static void batches(void) {
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_t* more = leveldb_writebatch_create();
  struct told told = {0, 0};

  phase("write a batch");
  leveldb_writebatch_put(batch, "foo", 3, "a", 1);
  leveldb_writebatch_clear(batch);
  leveldb_writebatch_put(batch, "bar", 3, "b", 1);
  leveldb_writebatch_put(batch, "box", 3, "c", 1);
  leveldb_writebatch_put(more, "bar", 3, "d", 1);
  leveldb_writebatch_clear(more);
  leveldb_writebatch_delete(more, "bar", 3);
  leveldb_writebatch_append(batch, more);
  leveldb_write(db, writing, batch, &error);
  CHECK_OK();
  CHECK(value_is(db, reading, "foo", "hello"));
  CHECK(value_is(db, reading, "bar", NULL));
  CHECK(value_is(db, reading, "box", "c"));

  phase("go through a batch");
  leveldb_writebatch_iterate(batch, &told, told_put, told_delete);
  CHECK(told.puts == 2 && told.deletes == 1);
  leveldb_writebatch_destroy(batch);
  leveldb_writebatch_destroy(more);
}

static void iterators(void) {
  leveldb_iterator_t* iter = leveldb_create_iterator(db, reading);
  phase("iterate");
  CHECK(!leveldb_iter_valid(iter));
  leveldb_iter_seek_to_first(iter);
  CHECK(entry_is(iter, "box", "c"));
  leveldb_iter_next(iter);
  CHECK(entry_is(iter, "foo", "hello"));
  leveldb_iter_prev(iter);
  CHECK(entry_is(iter, "box", "c"));
  leveldb_iter_prev(iter);
  CHECK(!leveldb_iter_valid(iter));
  leveldb_iter_seek_to_last(iter);
  CHECK(entry_is(iter, "foo", "hello"));
  leveldb_iter_seek(iter, "b", 1);
  CHECK(entry_is(iter, "box", "c"));
  leveldb_iter_seek(iter, "g", 1);
  CHECK(!leveldb_iter_valid(iter));
  leveldb_iter_get_error(iter, &error);
  CHECK_OK();
  leveldb_iter_destroy(iter);
}

static void sizes(void) {
  const char* starts[2] = {"a", "k00000000000000010000"};
  const char* limits[2] = {"k00000000000000010000", "z"};
  size_t start_lengths[2] = {1, 21}, limit_lengths[2] = {21, 1};
  uint64_t found[2] = {0, 0};
  int i;

  phase("approximate sizes");
  leveldb_writeoptions_set_sync(writing, 0);
  for (i = 0; i < 20000; i++) {
    char key[32], value[32];
    snprintf(key, sizeof key, "k%020d", i);
    snprintf(value, sizeof value, "v%020d", i);
    leveldb_put(db, writing, key, strlen(key), value, strlen(value), &error);
    CHECK_OK();
  }
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_approximate_sizes(db, 2, starts, start_lengths, limits, limit_lengths, found);
  CHECK(found[0] > 200000 && found[1] > 200000);

  phase("property");
  {
    char* value = leveldb_property_value(db, "nosuchprop");
    CHECK(value == NULL);
    value = leveldb_property_value(db, "leveldb.stats");
    CHECK(value != NULL && strstr(value, "Compactions") != NULL);
    leveldb_free(value);
  }
}

static void snapshots(void) {
  const leveldb_snapshot_t* snapshot;
  phase("snapshot");
  snapshot = leveldb_create_snapshot(db);
  leveldb_delete(db, writing, "foo", 3, &error);
  CHECK_OK();
  leveldb_readoptions_set_snapshot(reading, snapshot);
  CHECK(value_is(db, reading, "foo", "hello"));
  leveldb_readoptions_set_snapshot(reading, NULL);
  CHECK(value_is(db, reading, "foo", NULL));
  leveldb_release_snapshot(db, snapshot);
}

static void repair(const char* path) {
  phase("repair");
  leveldb_close(db);
  leveldb_options_set_create_if_missing(options, 0);
  leveldb_options_set_error_if_exists(options, 0);
  leveldb_repair_db(options, path, &error);
  CHECK_OK();
  db = leveldb_open(options, path, &error);
  CHECK_OK();
  CHECK(value_is(db, reading, "foo", NULL));
  CHECK(value_is(db, reading, "bar", NULL));
  CHECK(value_is(db, reading, "box", "c"));
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_error_if_exists(options, 1);
}

/* A new database with a filter: first the program's own, then Bloom's. */
static void filters(const char* path) {
  int bloom;
  for (bloom = 0; bloom < 2; bloom++) {
    leveldb_filterpolicy_t* policy =
        bloom ? leveldb_filterpolicy_create_bloom(10)
              : leveldb_filterpolicy_create(NULL, nothing_to_destroy, make_filter, ask_filter,
                                            filter_name);
    phase(bloom ? "Bloom filter" : "filter");
    leveldb_close(db);
    leveldb_destroy_db(options, path, &error);
    CHECK_OK();
    leveldb_options_set_filter_policy(options, policy);
    db = leveldb_open(options, path, &error);
    CHECK_OK();
    put(db, "foo", "foovalue");
    put(db, "bar", "barvalue");
    leveldb_compact_range(db, NULL, 0, NULL, 0);

    filter_says = 1;
    CHECK(value_is(db, reading, "foo", "foovalue"));
    CHECK(value_is(db, reading, "bar", "barvalue"));
    if (!bloom) {
      /* A filter that lies is believed. */
      filter_says = 0;
      CHECK(value_is(db, reading, "foo", NULL));
      CHECK(value_is(db, reading, "bar", NULL));
      filter_says = 1;
      CHECK(value_is(db, reading, "foo", "foovalue"));
    }
    /* The filter is still with the database and the options. */
    leveldb_filterpolicy_destroy(policy);
  }
  leveldb_options_set_filter_policy(options, NULL);
}

int main(int count, char** arguments) {
  const char* path;
  CHECK(count == 2);
  path = in(arguments[1], "db");
  CHECK(leveldb_major_version() >= 1 && leveldb_minor_version() >= 1);
  objects();
  opening(path);
  leveldb_free(leveldb_env_get_test_directory(env));
  writes();
  batches();
  iterators();
  sizes();
  snapshots();
  repair(path);
  filters(path);

  phase("clean up");
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  leveldb_cache_destroy(cache);
  leveldb_comparator_destroy(comparator);
  leveldb_env_destroy(env);
  puts("passed");
  return 0;
}
