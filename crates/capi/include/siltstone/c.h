/* What siltstone's C API has beyond LevelDB's. The rules of leveldb/c.h hold here, too. */

#ifndef SILTSTONE_C_H
#define SILTSTONE_C_H

#include <leveldb/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/* siltstone's version, such as "0.1.0". Not to be freed. */
const char* siltstone_version(void);

/* ---- Options ---- */

/* For leveldb_options_set_compression: tighter than Snappy, and slower. No tagged release of LevelDB
   reads such tables. */
enum { siltstone_zstd_compression = 2 };

/* Recover the last log into memory instead of writing a table: opening is faster. Safe after a crash,
   unlike LevelDB's option of this name. False if not set. */
void siltstone_options_set_reuse_logs(leveldb_options_t* options, uint8_t value);

/* How tables are merged: "leveled" (if not set), "cursor", "sliced" or "l2sm". The last two write less, and
   LevelDB does not open a database that was written with them, until siltstone_drain_logs. */
void siltstone_options_set_compaction(leveldb_options_t* options, const char* name, char** errptr);

/* ---- Databases ---- */

/* Opens a database for reading only: no lock is taken and no file touched, and another process may
   have it open and write. Shows the state of the moment. Writes to it fail. */
leveldb_t* siltstone_open_read_only(const leveldb_options_t* options, const char* name, char** errptr);

/* leveldb_close, and what failed: the last sync, or what had ended writing before. The database is
   closed in any case. */
void siltstone_close(leveldb_t* db, char** errptr);

/* Shows the value of a key to `found` where it lies, without copying it; only during the call. Returns
   whether there is one. `found` must not call the database. */
uint8_t siltstone_read(leveldb_t* db, const leveldb_readoptions_t* options, const char* key,
                       size_t keylen, void* state,
                       void (*found)(void* state, const char* val, size_t vallen), char** errptr);

/* Writes all that memory holds as tables, and waits until they are durable. */
void siltstone_flush(leveldb_t* db, char** errptr);

/* leveldb_compact_range, and what failed. */
void siltstone_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len,
                             const char* limit_key, size_t limit_key_len, char** errptr);

/* Merges what the logs beside the levels hold ("sliced", "l2sm"), and writes a manifest that LevelDB reads.
   From then on the database compacts as "leveled", until it is opened again. */
void siltstone_drain_logs(leveldb_t* db, char** errptr);

/* Makes a copy of the database, as it is now, in the folder `path`, which must not exist or be empty.
   Tables are linked where that is possible. Reads and writes go on. */
void siltstone_checkpoint(leveldb_t* db, const char* path, char** errptr);

/* Saves what can be read of the database in the folder `name` into a new one in the folder `out`, which
   must not exist or be empty. The damaged one is only read. */
void siltstone_repair_db(const leveldb_options_t* options, const char* name, const char* out,
                         char** errptr);

/* ---- Environments ---- */

/* Files in memory, gone when the environment and all databases in it are. For tests. */
leveldb_env_t* siltstone_create_memory_env(void);

/* A file system of your own. Set `size` to sizeof(siltstone_file_system_t), and all else that you do not
   set to zero: members that come later count as null.

   Each function gets `state` first, and returns 0 or a number of errno.h. ENOENT and ENOSPC are told
   apart from other failures: a missing file is looked for, and after a full disk writes resume when
   there is space. Calls come from any thread, several at once; those on one file being written come
   one after another. A call that is interrupted or does only a part goes on until it is done.

   The engine relies on this much for what survives a power cut: after `sync`, the bytes of a file; after
   `sync_dir`, the names in a folder; and `rename` is atomic. */
typedef struct siltstone_file_system_t {
  size_t size;
  void* state;
  /* Called once, when nothing uses the state any more; may be null. */
  void (*destructor)(void* state);

  /* A file being written. `create` makes an empty file, in place of what was there, and sets *file to
     whatever you need; `append` writes at its end. `close` is called once for each file, also after
     failures, and ends it in any case. */
  int (*create)(void* state, const char* path, void** file);
  int (*append)(void* state, void* file, const char* data, size_t length);
  int (*sync)(void* state, void* file);
  int (*close)(void* state, void* file);

  /* A file being read, from several threads at once. `open` also tells its length. `read` sets *count:
     fewer than `length` bytes only where the file ends. The file stays readable when its name is
     removed. */
  int (*open)(void* state, const char* path, void** file, uint64_t* length);
  int (*read)(void* state, void* file, char* buffer, size_t length, uint64_t offset, size_t* count);
  void (*release)(void* state, void* file);

  /* Names. `metadata` tells a file's length and whether it is a folder. `list` calls `name` with
     `names` and each name in a folder. `create_dir` makes missing parents, too, and is fine with a
     folder that is there; `remove_dir` removes an empty one. `rename` replaces what has the new name.
     `hard_link` may be null: files are copied then. */
  int (*metadata)(void* state, const char* path, uint64_t* length, uint8_t* is_folder);
  int (*list)(void* state, const char* folder, void* names, void (*name)(void* names, const char* name));
  int (*create_dir)(void* state, const char* folder);
  int (*remove_dir)(void* state, const char* folder);
  int (*remove_file)(void* state, const char* path);
  int (*rename)(void* state, const char* from, const char* to);
  int (*hard_link)(void* state, const char* from, const char* to);
  int (*sync_dir)(void* state, const char* folder);

  /* Takes a lock without waiting, and makes its file if need be; EAGAIN if somebody has it. */
  int (*lock)(void* state, const char* path, void** lock);
  void (*unlock)(void* state, void* lock);
} siltstone_file_system_t;

/* An environment of these files and the system's clock and threads. The struct is copied. Null after a
   failure, which is that a function is missing; the destructor is then not called. */
leveldb_env_t* siltstone_create_env(const siltstone_file_system_t* file_system, char** errptr);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
