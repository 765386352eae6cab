/* What siltstone/c.h adds: each function once, and a file system of the program's own. */

#include "check.h"

#include <siltstone/c.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static leveldb_options_t* creating(void) {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  return options;
}

static void keep(void* state, const char* value, size_t length) {
  snprintf(state, 16, "%.*s", (int)length, value);
}

static void reading_and_closing(const char* folder) {
  leveldb_options_t* options = creating();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  char kept[16] = "nothing";
  leveldb_t *db, *reader;

  leveldb_options_set_compression(options, siltstone_zstd_compression);
  siltstone_options_set_reuse_logs(options, 1);
  siltstone_options_set_compaction(options, "sliced", &error);
  CHECK_OK();
  siltstone_options_set_compaction(options, "sideways", &error);
  CHECK(error != NULL && strstr(error, "sideways") != NULL);
  leveldb_free(error);
  error = NULL;
  db = leveldb_open(options, in(folder, "db"), &error);
  CHECK_OK();
  put(db, "a", "1");
  siltstone_flush(db, &error);
  CHECK_OK();
  put(db, "b", "2");
  siltstone_compact_range(db, "a", 1, NULL, 0, &error);
  CHECK_OK();
  siltstone_drain_logs(db, &error);
  CHECK_OK();
  put(db, "c", "3");

  CHECK(siltstone_read(db, reading, "a", 1, kept, keep, &error) == 1 && strcmp(kept, "1") == 0);
  CHECK(siltstone_read(db, reading, "x", 1, kept, keep, &error) == 0 && strcmp(kept, "1") == 0);
  CHECK_OK();

  /* Beside the writer, without its lock; and it writes nothing. */
  reader = siltstone_open_read_only(options, in(folder, "db"), &error);
  CHECK_OK();
  put(db, "d", "4");
  CHECK(value_is(reader, reading, "c", "3") && value_is(reader, reading, "d", NULL));
  put(reader, "e", "5");
  CHECK_FAILED("IO error: ");
  siltstone_close(reader, &error);
  CHECK_OK();

  siltstone_checkpoint(db, in(folder, "copy"), &error);
  CHECK_OK();
  siltstone_checkpoint(db, in(folder, "copy"), &error);
  CHECK_FAILED("Invalid argument: ");
  siltstone_close(db, &error);
  CHECK_OK();
  siltstone_close(NULL, &error);
  CHECK_OK();

  siltstone_repair_db(options, in(folder, "copy"), in(folder, "saved"), &error);
  CHECK_OK();
  db = leveldb_open(options, in(folder, "saved"), &error);
  CHECK_OK();
  CHECK(value_is(db, reading, "a", "1") && value_is(db, reading, "d", "4"));
  leveldb_close(db);
  CHECK(siltstone_open_read_only(options, in(folder, "none"), &error) == NULL);
  CHECK_FAILED("Invalid argument: ");
  leveldb_readoptions_destroy(reading);
  leveldb_options_destroy(options);
}

static void in_memory(void) {
  leveldb_options_t* options = creating();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_env_t* env = siltstone_create_memory_env();
  int round;
  leveldb_options_set_env(options, env);
  leveldb_env_destroy(env);
  for (round = 0; round < 2; round++) {
    leveldb_t* db = leveldb_open(options, "/no/such/place", &error);
    CHECK_OK();
    CHECK(value_is(db, reading, "a", round == 0 ? NULL : "1"));
    put(db, "a", "1");
    leveldb_close(db);
  }
  CHECK(access("/no/such/place", F_OK) != 0);
  leveldb_readoptions_destroy(reading);
  leveldb_options_destroy(options);
}

/* A file system of the system's files, which counts what is open, and can be full. */
struct files {
  int writing, reading, locks, ends, syncs, is_full;
};

struct file {
  int descriptor;
};

static int answer(int result) { return result < 0 ? errno : 0; }

static int opened(const char* path, int flags, void** file) {
  struct file* made = malloc(sizeof *made);
  made->descriptor = open(path, flags | O_CLOEXEC, 0644);
  if (made->descriptor < 0) {
    int code = errno;
    free(made);
    return code;
  }
  *file = made;
  return 0;
}

static int closed(struct file* file) {
  int code = answer(close(file->descriptor));
  free(file);
  return code;
}

static void count_end(void* state) { ((struct files*)state)->ends++; }

static int create_file(void* state, const char* path, void** file) {
  int code = opened(path, O_RDWR | O_CREAT | O_TRUNC, file);
  __atomic_add_fetch(&((struct files*)state)->writing, code == 0, __ATOMIC_SEQ_CST);
  return code;
}

static int append_file(void* state, void* file, const char* data, size_t length) {
  if (__atomic_load_n(&((struct files*)state)->is_full, __ATOMIC_SEQ_CST)) return ENOSPC;
  while (length > 0) {
    ssize_t written = write(((struct file*)file)->descriptor, data, length);
    if (written < 0) return errno;
    data += written;
    length -= (size_t)written;
  }
  return 0;
}

static int sync_file(void* state, void* file) {
  __atomic_add_fetch(&((struct files*)state)->syncs, 1, __ATOMIC_SEQ_CST);
  return answer(fsync(((struct file*)file)->descriptor));
}

static int close_file(void* state, void* file) {
  __atomic_sub_fetch(&((struct files*)state)->writing, 1, __ATOMIC_SEQ_CST);
  return closed(file);
}

static int open_file(void* state, const char* path, void** file, uint64_t* length) {
  struct stat found;
  int code = opened(path, O_RDONLY, file);
  if (code != 0) return code;
  __atomic_add_fetch(&((struct files*)state)->reading, 1, __ATOMIC_SEQ_CST);
  code = answer(fstat(((struct file*)*file)->descriptor, &found));
  *length = (uint64_t)found.st_size;
  return code;
}

static int read_file(void* state, void* file, char* buffer, size_t length, uint64_t offset,
                     size_t* count) {
  (void)state;
  *count = 0;
  while (*count < length) {
    ssize_t part = pread(((struct file*)file)->descriptor, buffer + *count, length - *count,
                         (off_t)(offset + *count));
    if (part < 0) return errno;
    if (part == 0) return 0;
    *count += (size_t)part;
  }
  return 0;
}

static void release_file(void* state, void* file) {
  __atomic_sub_fetch(&((struct files*)state)->reading, 1, __ATOMIC_SEQ_CST);
  closed(file);
}

static int look(void* state, const char* path, uint64_t* length, uint8_t* is_folder) {
  struct stat found;
  (void)state;
  if (stat(path, &found) < 0) return errno;
  *length = (uint64_t)found.st_size;
  *is_folder = S_ISDIR(found.st_mode);
  return 0;
}

static int list(void* state, const char* path, void* names,
                void (*name)(void* names, const char* name)) {
  struct dirent* entry;
  DIR* folder = opendir(path);
  (void)state;
  if (folder == NULL) return errno;
  while ((entry = readdir(folder)) != NULL) {
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
      name(names, entry->d_name);
    }
  }
  closedir(folder);
  return 0;
}

/* With missing parents. */
static int create_dir(void* state, const char* path) {
  char part[512];
  size_t at;
  (void)state;
  for (at = 1; at <= strlen(path); at++) {
    if (path[at] == '/' || path[at] == '\0') {
      snprintf(part, sizeof part, "%.*s", (int)at, path);
      if (mkdir(part, 0755) < 0 && errno != EEXIST) return errno;
    }
  }
  return 0;
}

static int remove_dir(void* state, const char* path) { return (void)state, answer(rmdir(path)); }

static int remove_file(void* state, const char* path) { return (void)state, answer(unlink(path)); }

static int rename_file(void* state, const char* from, const char* to) {
  (void)state;
  return answer(rename(from, to));
}

static int sync_dir(void* state, const char* path) {
  struct file* folder;
  int code = opened(path, O_RDONLY | O_DIRECTORY, (void**)&folder);
  (void)state;
  if (code != 0) return code;
  code = answer(fsync(folder->descriptor));
  closed(folder);
  return code;
}

static int lock_file(void* state, const char* path, void** lock) {
  int code = opened(path, O_RDWR | O_CREAT, lock);
  if (code != 0) return code;
  if (flock(((struct file*)*lock)->descriptor, LOCK_EX | LOCK_NB) < 0) {
    code = errno;
    closed(*lock);
    return code;
  }
  __atomic_add_fetch(&((struct files*)state)->locks, 1, __ATOMIC_SEQ_CST);
  return 0;
}

static void unlock_file(void* state, void* lock) {
  __atomic_sub_fetch(&((struct files*)state)->locks, 1, __ATOMIC_SEQ_CST);
  closed(lock);
}

static siltstone_file_system_t file_system(struct files* files) {
  siltstone_file_system_t calls;
  memset(&calls, 0, sizeof calls);
  calls.size = sizeof calls;
  calls.state = files;
  calls.destructor = count_end;
  calls.create = create_file;
  calls.append = append_file;
  calls.sync = sync_file;
  calls.close = close_file;
  calls.open = open_file;
  calls.read = read_file;
  calls.release = release_file;
  calls.metadata = look;
  calls.list = list;
  calls.create_dir = create_dir;
  calls.remove_dir = remove_dir;
  calls.remove_file = remove_file;
  calls.rename = rename_file;
  calls.sync_dir = sync_dir;
  calls.lock = lock_file;
  calls.unlock = unlock_file;
  return calls;
}

static void use(leveldb_options_t* options, struct files* files, const char* path) {
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_t* db = leveldb_open(options, path, &error);
  int i;
  CHECK_OK();
  CHECK(leveldb_open(options, path, &error) == NULL);
  CHECK_FAILED("IO error: lock ");
  for (i = 0; i < 3000; i++) {
    char key[16];
    snprintf(key, sizeof key, "%08d", (i * 7919) % 3000);
    put(db, key, key);
    CHECK_OK();
  }
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  CHECK(value_is(db, reading, "00000042", "00000042"));
  CHECK(files->syncs > 0);

  /* Full: writes fail, reads go on, and writes resume when there is space. */
  __atomic_store_n(&files->is_full, 1, __ATOMIC_SEQ_CST);
  put(db, "more", "1");
  CHECK_FAILED("IO error: ");
  CHECK(value_is(db, reading, "00000043", "00000043"));
  __atomic_store_n(&files->is_full, 0, __ATOMIC_SEQ_CST);
  put(db, "more", "2");
  CHECK_OK();

  /* Without links it copies. */
  siltstone_checkpoint(db, in(path, "copy"), &error);
  CHECK_OK();
  siltstone_close(db, &error);
  CHECK_OK();
  db = siltstone_open_read_only(options, in(path, "copy"), &error);
  CHECK_OK();
  CHECK(value_is(db, reading, "more", "2"));
  leveldb_close(db);
  leveldb_repair_db(options, path, &error);
  CHECK_OK();
  leveldb_destroy_db(options, in(path, "copy"), &error);
  leveldb_destroy_db(options, path, &error);
  CHECK_OK();
  CHECK(access(path, F_OK) != 0);
  leveldb_readoptions_destroy(reading);
}

static void own_files(const char* folder) {
  struct files files = {0, 0, 0, 0, 0, 0};
  siltstone_file_system_t calls = file_system(&files);
  leveldb_options_t* options = creating();
  leveldb_env_t* env;

  calls.read = NULL;
  CHECK(siltstone_create_env(&calls, &error) == NULL);
  CHECK_FAILED("Invalid argument: the file system has no read");
  calls = file_system(&files);
  calls.size = offsetof(siltstone_file_system_t, unlock);
  CHECK(siltstone_create_env(&calls, &error) == NULL);
  CHECK_FAILED("Invalid argument: the file system has no unlock");
  CHECK(files.ends == 0);

  calls = file_system(&files);
  env = siltstone_create_env(&calls, &error);
  CHECK_OK();
  memset(&calls, 0, sizeof calls);
  leveldb_options_set_env(options, env);
  leveldb_env_destroy(env);
  use(options, &files, in(folder, "own"));
  CHECK(files.writing == 0 && files.reading == 0 && files.locks == 0 && files.ends == 0);
  leveldb_options_destroy(options);
  CHECK(files.ends == 1);
}

int main(int count, char** arguments) {
  CHECK(count == 2);
  printf("siltstone %s\n", siltstone_version());
  reading_and_closing(arguments[1]);
  in_memory();
  own_files(arguments[1]);
  puts("passed");
  return 0;
}
