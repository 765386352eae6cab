/* The rules of leveldb/c.h that its phases do not touch: who owns what, null arguments, error texts,
   iterators that fail, and when destructors run. */

#include "check.h"

#include <dirent.h>

static leveldb_options_t* creating(void) {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  return options;
}

static leveldb_t* opened(const leveldb_options_t* options, const char* path) {
  leveldb_t* db = leveldb_open(options, path, &error);
  CHECK_OK();
  CHECK(db != NULL);
  return db;
}

static char* copied(const char* text) {
  char* copy = malloc(strlen(text) + 1);
  strcpy(copy, text);
  return copy;
}

/* errptr: left alone by success, replaced by failure, null if nobody wants it. */
static void errors(const char* folder) {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_t* create = creating();
  char* before;
  leveldb_t* db;

  CHECK(leveldb_open(options, in(folder, "none"), NULL) == NULL);
  error = before = copied("an old text");
  db = leveldb_open(create, in(folder, "errors"), &error);
  CHECK(db != NULL && error == before && strcmp(error, "an old text") == 0);

  CHECK(leveldb_open(options, in(folder, "none"), &error) == NULL);
  CHECK(strstr(error, "an old text") == NULL && strstr(error, "none") != NULL);
  CHECK(strstr(error, "does not exist (create_if_missing is false)") != NULL);
  CHECK_FAILED("Invalid argument: ");

  CHECK(leveldb_open(options, in(folder, "errors"), &error) == NULL);
  CHECK(strstr(error, "LOCK: already held by process") != NULL);
  CHECK_FAILED("IO error: lock ");
  leveldb_repair_db(options, in(folder, "errors"), &error);
  CHECK_FAILED("IO error: lock ");
  leveldb_destroy_db(options, in(folder, "errors"), &error);
  CHECK_FAILED("IO error: lock ");
  leveldb_close(db);

  leveldb_options_set_error_if_exists(create, 1);
  CHECK(leveldb_open(create, in(folder, "errors"), &error) == NULL);
  CHECK(strstr(error, "exists (error_if_exists is true)") != NULL);
  CHECK_FAILED("Invalid argument: ");
  leveldb_repair_db(options, in(folder, "none"), &error);
  CHECK_FAILED("NotFound: ");

  /* Setters cannot fail; what they were told wrong comes out when it is used. */
  leveldb_options_set_error_if_exists(create, 0);
  leveldb_options_set_compression(create, 7);
  CHECK(leveldb_open(create, in(folder, "errors"), &error) == NULL);
  CHECK_FAILED("Invalid argument: compression 7");
  leveldb_options_set_compression(create, leveldb_snappy_compression);
  leveldb_close(opened(create, in(folder, "errors")));
  leveldb_options_destroy(options);
  leveldb_options_destroy(create);
}

/* Null where LevelDB allows it, and in what ends objects. */
static void nulls(const char* folder) {
  leveldb_options_t* options = creating();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  size_t length;
  char* value;
  leveldb_t* db;

  leveldb_options_set_comparator(options, NULL);
  leveldb_options_set_filter_policy(options, NULL);
  leveldb_options_set_env(options, NULL);
  leveldb_options_set_info_log(options, NULL);
  leveldb_options_set_cache(options, NULL);
  /* Out of range: moved into it. */
  leveldb_options_set_max_open_files(options, -1);
  leveldb_options_set_block_restart_interval(options, 0);
  leveldb_options_set_block_size(options, 0);
  leveldb_options_set_write_buffer_size(options, 0);
  db = opened(options, in(folder, "nulls"));

  /* Bytes of which there are none. */
  leveldb_put(db, writing, NULL, 0, NULL, 0, &error);
  value = leveldb_get(db, reading, NULL, 0, &length, &error);
  CHECK_OK();
  CHECK(value != NULL && length == 0);
  leveldb_free(value);
  leveldb_delete(db, writing, NULL, 0, &error);
  value = leveldb_get(db, reading, NULL, 0, &length, &error);
  CHECK(value == NULL && length == 0 && error == NULL);
  leveldb_put(db, writing, "a\0b", 3, "\0\0", 2, &error);
  value = leveldb_get(db, reading, "a\0b", 3, &length, &error);
  CHECK(value != NULL && length == 2 && memcmp(value, "\0\0", 2) == 0);
  leveldb_free(value);
  CHECK(value_is(db, reading, "a", NULL));

  CHECK(leveldb_property_value(db, "") == NULL);
  CHECK(leveldb_property_value(db, "leveldb.num-files-at-level7") == NULL);
  CHECK(leveldb_property_value(db, "\xff\xfe") == NULL);
  leveldb_approximate_sizes(db, 0, NULL, NULL, NULL, NULL, NULL);
  leveldb_compact_range(db, NULL, 0, "m", 1);
  leveldb_compact_range(db, "m", 1, NULL, 0);
  leveldb_readoptions_set_snapshot(reading, NULL);
  leveldb_close(db);

  leveldb_close(NULL);
  leveldb_free(NULL);
  leveldb_options_destroy(NULL);
  leveldb_readoptions_destroy(NULL);
  leveldb_writeoptions_destroy(NULL);
  leveldb_writebatch_destroy(NULL);
  leveldb_iter_destroy(NULL);
  leveldb_comparator_destroy(NULL);
  leveldb_filterpolicy_destroy(NULL);
  leveldb_cache_destroy(NULL);
  leveldb_env_destroy(NULL);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
}

static void count_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
  (void)k, (void)klen, (void)v, (void)vlen;
  ++*(int*)state;
}

static void count_delete(void* state, const char* k, size_t klen) {
  (void)k, (void)klen;
  *(int*)state += 100;
}

static void batch_to_itself(void) {
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  int count = 0;
  leveldb_writebatch_put(batch, "k", 1, "v", 1);
  leveldb_writebatch_delete(batch, "k", 1);
  leveldb_writebatch_append(batch, batch);
  leveldb_writebatch_iterate(batch, &count, count_put, count_delete);
  CHECK(count == 202);
  leveldb_writebatch_destroy(batch);
}

/* From nowhere there is no way; and what an iterator sees outlives its snapshot. */
static void iterators(const char* folder) {
  leveldb_options_t* options = creating();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_t* db = opened(options, in(folder, "iterators"));
  const leveldb_snapshot_t* snapshot;
  leveldb_iterator_t* iter;
  size_t length = 1;

  put(db, "a", "1");
  put(db, "b", "2");
  snapshot = leveldb_create_snapshot(db);
  leveldb_readoptions_set_snapshot(reading, snapshot);
  delete(db, "a");
  iter = leveldb_create_iterator(db, reading);
  leveldb_release_snapshot(db, snapshot);
  leveldb_readoptions_destroy(reading);

  leveldb_iter_next(iter);
  leveldb_iter_prev(iter);
  CHECK(!leveldb_iter_valid(iter));
  CHECK(leveldb_iter_key(iter, &length) == NULL && length == 0);
  CHECK(leveldb_iter_value(iter, &length) == NULL && length == 0);
  leveldb_iter_seek_to_last(iter);
  CHECK(entry_is(iter, "b", "2"));
  leveldb_iter_prev(iter);
  CHECK(entry_is(iter, "a", "1"));
  leveldb_iter_prev(iter);
  leveldb_iter_prev(iter);
  CHECK(!leveldb_iter_valid(iter));
  leveldb_iter_seek(iter, NULL, 0);
  CHECK(entry_is(iter, "a", "1"));
  leveldb_iter_get_error(iter, &error);
  CHECK_OK();
  leveldb_iter_destroy(iter);
  leveldb_close(db);
  leveldb_options_destroy(options);
}

/* Turns a bit in the middle of the only table. */
static void damage(const char* path) {
  struct dirent* entry;
  DIR* folder = opendir(path);
  int damaged = 0;
  CHECK(folder != NULL);
  while ((entry = readdir(folder)) != NULL) {
    if (strstr(entry->d_name, ".ldb") != NULL) {
      FILE* file = fopen(in(path, entry->d_name), "r+b");
      long middle;
      int byte;
      CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
      middle = ftell(file) / 2;
      CHECK(fseek(file, middle, SEEK_SET) == 0);
      byte = fgetc(file);
      CHECK(fseek(file, middle, SEEK_SET) == 0 && fputc(byte ^ 0x20, file) != EOF);
      CHECK(fclose(file) == 0);
      damaged++;
    }
  }
  closedir(folder);
  CHECK(damaged == 1);
}

/* A scan into damage ends early, and says so as often as it is asked; a repair mends it. */
static void damaged(const char* folder) {
  leveldb_options_t* options = creating();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_t* db = opened(options, in(folder, "damaged"));
  leveldb_iterator_t* iter;
  int i, seen = 0;

  for (i = 0; i < 2000; i++) {
    char key[32];
    snprintf(key, sizeof key, "key%06d", (i * 7919) % 2000);
    put(db, key, key);
  }
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_close(db);
  damage(in(folder, "damaged"));

  db = opened(options, in(folder, "damaged"));
  iter = leveldb_create_iterator(db, reading);
  for (leveldb_iter_seek_to_first(iter); leveldb_iter_valid(iter); leveldb_iter_next(iter)) seen++;
  CHECK(seen > 0 && seen < 2000);
  for (i = 0; i < 2; i++) {
    leveldb_iter_get_error(iter, &error);
    CHECK(error != NULL && strstr(error, ".ldb at byte ") != NULL);
    CHECK_FAILED("Corruption: ");
  }
  leveldb_iter_seek_to_first(iter);
  CHECK(entry_is(iter, "key000000", "key000000"));
  leveldb_iter_get_error(iter, &error);
  CHECK_FAILED("Corruption: ");
  leveldb_iter_destroy(iter);
  {
    size_t length = 1;
    char key[32];
    snprintf(key, sizeof key, "key%06d", seen);
    CHECK(leveldb_get(db, reading, key, strlen(key), &length, &error) == NULL && length == 0);
    CHECK_FAILED("Corruption: ");
  }
  leveldb_close(db);

  leveldb_repair_db(options, in(folder, "damaged"), &error);
  CHECK_OK();
  db = opened(options, in(folder, "damaged"));
  iter = leveldb_create_iterator(db, reading);
  for (i = 0, leveldb_iter_seek_to_first(iter); leveldb_iter_valid(iter); leveldb_iter_next(iter)) i++;
  leveldb_iter_get_error(iter, &error);
  CHECK_OK();
  CHECK(i >= seen && i < 2000);
  leveldb_iter_destroy(iter);
  leveldb_close(db);
  leveldb_readoptions_destroy(reading);
  leveldb_options_destroy(options);
}

struct counted {
  int names, ends;
};

static void count_end(void* state) { ((struct counted*)state)->ends++; }

static const char* reversed_name(void* state) {
  ((struct counted*)state)->names++;
  return "reversed";
}

static int reversed(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  size_t shorter = alen < blen ? alen : blen;
  int order = memcmp(b, a, shorter);
  (void)state;
  return order != 0 ? order : (blen > alen) - (blen < alen);
}

static char* one_byte(void* state, const char* const* keys, const size_t* lengths, int count,
                      size_t* length) {
  (void)state, (void)keys, (void)lengths, (void)count;
  *length = 1;
  return copied("!");
}

static uint8_t perhaps(void* state, const char* key, size_t length, const char* filter,
                       size_t filter_length) {
  (void)state, (void)key, (void)length;
  return is(filter, filter_length, "!");
}

/* An order of the program's own; its state ends with its last user, and once. */
static void comparators(const char* folder) {
  struct counted counted = {0, 0};
  leveldb_options_t* options = creating();
  leveldb_options_t* bytewise = creating();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_iterator_t* iter;
  leveldb_t* db;
  leveldb_comparator_t* comparator =
      leveldb_comparator_create(&counted, count_end, reversed, reversed_name);

  leveldb_options_set_comparator(options, comparator);
  db = opened(options, in(folder, "reversed"));
  put(db, "a", "1");
  put(db, "ab", "2");
  put(db, "b", "3");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  put(db, "aa", "4");
  iter = leveldb_create_iterator(db, reading);
  leveldb_iter_seek_to_first(iter);
  CHECK(entry_is(iter, "b", "3"));
  leveldb_iter_next(iter);
  CHECK(entry_is(iter, "ab", "2"));
  leveldb_iter_next(iter);
  CHECK(entry_is(iter, "aa", "4"));
  leveldb_iter_next(iter);
  CHECK(entry_is(iter, "a", "1"));
  leveldb_iter_next(iter);
  CHECK(!leveldb_iter_valid(iter));
  leveldb_iter_seek(iter, "az", 2);
  CHECK(entry_is(iter, "ab", "2"));
  leveldb_iter_destroy(iter);

  leveldb_comparator_destroy(comparator);
  leveldb_options_destroy(options);
  CHECK(counted.ends == 0);
  put(db, "c", "5");
  CHECK(value_is(db, reading, "c", "5"));
  leveldb_close(db);
  CHECK(counted.ends == 1 && counted.names == 1);

  CHECK(leveldb_open(bytewise, in(folder, "reversed"), &error) == NULL);
  CHECK(strstr(error, "does not match existing comparator") != NULL);
  CHECK_FAILED("Invalid argument: ");

  /* Nobody else uses it: it ends here. And one without a destructor. */
  leveldb_comparator_destroy(
      leveldb_comparator_create(&counted, count_end, reversed, reversed_name));
  CHECK(counted.ends == 2);
  leveldb_comparator_destroy(leveldb_comparator_create(&counted, NULL, reversed, reversed_name));
  CHECK(counted.ends == 2);
  leveldb_readoptions_destroy(reading);
  leveldb_options_destroy(bytewise);
}

static void filters(const char* folder) {
  struct counted counted = {0, 0};
  leveldb_options_t* options = creating();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_t* db;
  leveldb_filterpolicy_t* policy =
      leveldb_filterpolicy_create(&counted, count_end, one_byte, perhaps, reversed_name);
  leveldb_options_set_filter_policy(options, policy);
  db = opened(options, in(folder, "filters"));
  put(db, "a", "1");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  CHECK(value_is(db, reading, "a", "1"));
  leveldb_filterpolicy_destroy(policy);
  leveldb_close(db);
  CHECK(counted.ends == 0);
  leveldb_options_destroy(options);
  CHECK(counted.ends == 1);
  leveldb_readoptions_destroy(reading);
}

/* Databases may share what they use, which may be destroyed before them. */
static void shared(const char* folder) {
  leveldb_options_t* options = creating();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_cache_t* cache = leveldb_cache_create_lru(1 << 20);
  leveldb_env_t* env = leveldb_create_default_env();
  leveldb_t *one, *other;
  char* folder_for_tests = leveldb_env_get_test_directory(env);
  CHECK(strcmp(folder_for_tests, getenv("TEST_TMPDIR")) == 0);
  leveldb_free(folder_for_tests);
  leveldb_options_set_cache(options, cache);
  leveldb_options_set_env(options, env);
  one = opened(options, in(folder, "one"));
  other = opened(options, in(folder, "other"));
  leveldb_cache_destroy(cache);
  leveldb_env_destroy(env);
  leveldb_options_destroy(options);
  put(one, "a", "1");
  put(other, "a", "2");
  leveldb_compact_range(one, NULL, 0, NULL, 0);
  leveldb_compact_range(other, NULL, 0, NULL, 0);
  CHECK(value_is(one, reading, "a", "1") && value_is(other, reading, "a", "2"));
  leveldb_close(one);
  CHECK(value_is(other, reading, "a", "2"));
  leveldb_close(other);
  leveldb_readoptions_destroy(reading);
}

/* Programs close their databases anywhere, in exit handlers, too: the thread's own data are gone by
   then. */
static leveldb_t* last;

static void at_exit(void) {
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  put(last, "late", "1");
  CHECK(value_is(last, reading, "late", "1"));
  leveldb_readoptions_destroy(reading);
  leveldb_close(last);
  puts("passed");
}

int main(int count, char** arguments) {
  leveldb_options_t* options = creating();
  CHECK(count == 2);
  CHECK(leveldb_major_version() == 1 && leveldb_minor_version() == 23);
  errors(arguments[1]);
  nulls(arguments[1]);
  batch_to_itself();
  iterators(arguments[1]);
  damaged(arguments[1]);
  comparators(arguments[1]);
  filters(arguments[1]);
  shared(arguments[1]);
  last = opened(options, in(arguments[1], "last"));
  put(last, "early", "1");
  leveldb_options_destroy(options);
  atexit(at_exit);
  return 0;
}
