/* LevelDB's C API, as siltstone provides it.

   The functions, their types and their rules are LevelDB's, so a program written for LevelDB compiles
   against this header and links with libsiltstone_c instead. What siltstone adds is in siltstone/c.h.

   Objects. All types are opaque. What a ..._create function or leveldb_open returns is yours, and ends
   with the matching ..._destroy or leveldb_close; these accept null. Nothing else does, unless it says
   so. A cache, comparator, filter policy or environment may be destroyed while databases use it: it
   then lives until the last of them is closed. (LevelDB wants them to be closed first.)

   Bytes. Keys and values are a pointer and a length, and may hold any bytes. They are copied before a
   call returns. Of no bytes, the pointer may be null.

   Errors. `errptr` points to null, or to a text from malloc. A call that fails frees that text and puts
   another one there, which you free with leveldb_free; a call that succeeds leaves it alone. So one
   variable serves many calls, if you look at it after each. A null errptr drops the text.
   Texts begin with the kind of the failure:
     "NotFound: "           a file is not there
     "Corruption: "         bytes on disk are not what was written; file and offset follow
     "Invalid argument: "   the call or the options are wrong, or do not fit this database
     "IO error: "           the system refused; the disk is full; the database is open elsewhere
   A key that is not there is no error.

   Truth values are uint8_t: 0 is false, all else is true.

   Threads. A leveldb_t and a snapshot may be used by many threads at once, as may options, caches,
   policies and environments that nobody changes meanwhile. An iterator or a write batch is used by one
   thread at a time. Callbacks run on any thread, several at once; they must not call the database,
   and must not throw or longjmp.

   Blocking. Every call runs on the caller's thread until it is done. Writes wait while compaction is
   far behind, and for the disk if they ask for it; leveldb_open replays the logs; leveldb_compact_range,
   leveldb_repair_db and leveldb_close take what their work takes. Reads wait for nothing but the disk. */

#ifndef SILTSTONE_LEVELDB_C_H
#define SILTSTONE_LEVELDB_C_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leveldb_t leveldb_t;
typedef struct leveldb_cache_t leveldb_cache_t;
typedef struct leveldb_comparator_t leveldb_comparator_t;
typedef struct leveldb_env_t leveldb_env_t;
typedef struct leveldb_filelock_t leveldb_filelock_t;
typedef struct leveldb_filterpolicy_t leveldb_filterpolicy_t;
typedef struct leveldb_iterator_t leveldb_iterator_t;
typedef struct leveldb_logger_t leveldb_logger_t;
typedef struct leveldb_options_t leveldb_options_t;
typedef struct leveldb_randomfile_t leveldb_randomfile_t;
typedef struct leveldb_readoptions_t leveldb_readoptions_t;
typedef struct leveldb_seqfile_t leveldb_seqfile_t;
typedef struct leveldb_snapshot_t leveldb_snapshot_t;
typedef struct leveldb_writablefile_t leveldb_writablefile_t;
typedef struct leveldb_writebatch_t leveldb_writebatch_t;
typedef struct leveldb_writeoptions_t leveldb_writeoptions_t;

/* ---- Databases ---- */

/* Opens the database in the folder `name`, recovers what its logs hold, and locks it against all other
   users, LevelDB too. Null after a failure. The options may change or go afterwards. */
leveldb_t* leveldb_open(const leveldb_options_t* options, const char* name, char** errptr);

/* Ends background work and syncs the log. Destroy iterators and release snapshots first: while one
   lives, the folder stays locked. siltstone_close also tells what failed. */
void leveldb_close(leveldb_t* db);

/* Sets the value of a key. */
void leveldb_put(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen,
                 const char* val, size_t vallen, char** errptr);

/* Removes a key; fine if it is not there. */
void leveldb_delete(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key,
                    size_t keylen, char** errptr);

/* Does all of a batch or nothing. The batch stays as it is. */
void leveldb_write(leveldb_t* db, const leveldb_writeoptions_t* options, leveldb_writebatch_t* batch,
                   char** errptr);

/* The value of a key: bytes from malloc, `*vallen` of them and no zero byte behind, for you to free.
   Not null if there are none. Null, and no error, if the key is not there. */
char* leveldb_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key, size_t keylen,
                  size_t* vallen, char** errptr);

/* An iterator over what the database holds now, standing nowhere. Never null: a failure shows in
   leveldb_iter_get_error. */
leveldb_iterator_t* leveldb_create_iterator(leveldb_t* db, const leveldb_readoptions_t* options);

/* What the database holds now, for leveldb_readoptions_set_snapshot. Costs disk space for what is
   overwritten while it lives. */
const leveldb_snapshot_t* leveldb_create_snapshot(leveldb_t* db);
void leveldb_release_snapshot(leveldb_t* db, const leveldb_snapshot_t* snapshot);

/* A property as text, for you to free; null if there is none of that name. Names:
   leveldb.num-files-at-level<N> (0 to 6), leveldb.stats, leveldb.sstables,
   leveldb.approximate-memory-usage, and siltstone.metrics. */
char* leveldb_property_value(leveldb_t* db, const char* propname);

/* For each of so many ranges, about how many bytes on disk hold the keys from its start up to, and not
   with, its limit. */
void leveldb_approximate_sizes(leveldb_t* db, int num_ranges, const char* const* range_start_key,
                               const size_t* range_start_key_len, const char* const* range_limit_key,
                               const size_t* range_limit_key_len, uint64_t* sizes);

/* Compacts the tables with keys from start to limit; null is open. siltstone_compact_range also tells
   what failed. */
void leveldb_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len,
                           const char* limit_key, size_t limit_key_len);

/* Removes a database that is not open, and nothing else in its folder. Fine if there is none. */
void leveldb_destroy_db(const leveldb_options_t* options, const char* name, char** errptr);

/* Saves what can be read of a database that is not open, and puts it in its place. The old files are
   kept in the folder lost/repair-N below `name`; a crash leaves the old database or the new one.
   siltstone_repair_db leaves the old one alone. */
void leveldb_repair_db(const leveldb_options_t* options, const char* name, char** errptr);

/* ---- Iterators ---- */

/* An iterator stands on an entry or nowhere. What key and value return is valid until it moves; from
   nowhere they return null. leveldb_iter_next and leveldb_iter_prev do nothing from nowhere. */
void leveldb_iter_destroy(leveldb_iterator_t* iter);
uint8_t leveldb_iter_valid(const leveldb_iterator_t* iter);
void leveldb_iter_seek_to_first(leveldb_iterator_t* iter);
void leveldb_iter_seek_to_last(leveldb_iterator_t* iter);
/* To the first key that is not before k. */
void leveldb_iter_seek(leveldb_iterator_t* iter, const char* k, size_t klen);
void leveldb_iter_next(leveldb_iterator_t* iter);
void leveldb_iter_prev(leveldb_iterator_t* iter);
const char* leveldb_iter_key(const leveldb_iterator_t* iter, size_t* klen);
const char* leveldb_iter_value(const leveldb_iterator_t* iter, size_t* vlen);
/* The first failure since the iterator was made, if there was one. Ask when it stands nowhere: an end
   and a failure look alike before. */
void leveldb_iter_get_error(const leveldb_iterator_t* iter, char** errptr);

/* ---- Write batches ---- */

leveldb_writebatch_t* leveldb_writebatch_create(void);
void leveldb_writebatch_destroy(leveldb_writebatch_t* batch);
/* Empties it, and keeps its memory. */
void leveldb_writebatch_clear(leveldb_writebatch_t* batch);
void leveldb_writebatch_put(leveldb_writebatch_t* batch, const char* key, size_t klen, const char* val,
                            size_t vlen);
void leveldb_writebatch_delete(leveldb_writebatch_t* batch, const char* key, size_t klen);
/* Tells what the batch holds, in its order. */
void leveldb_writebatch_iterate(const leveldb_writebatch_t* batch, void* state,
                                void (*put)(void* state, const char* k, size_t klen, const char* v,
                                            size_t vlen),
                                void (*deleted)(void* state, const char* k, size_t klen));
/* Adds what source holds, which may be the destination itself. */
void leveldb_writebatch_append(leveldb_writebatch_t* destination, const leveldb_writebatch_t* source);

/* ---- Options ---- */

/* Defaults are LevelDB's. Numbers out of range are moved into it when a database is opened. */
leveldb_options_t* leveldb_options_create(void);
void leveldb_options_destroy(leveldb_options_t* options);
/* The order of keys; null is bytewise. A database opens with the one it was made with only. */
void leveldb_options_set_comparator(leveldb_options_t* options, leveldb_comparator_t* comparator);
/* Filters that spare reads of tables without a key; null is none. */
void leveldb_options_set_filter_policy(leveldb_options_t* options, leveldb_filterpolicy_t* policy);
void leveldb_options_set_create_if_missing(leveldb_options_t* options, uint8_t value);
void leveldb_options_set_error_if_exists(leveldb_options_t* options, uint8_t value);
/* Fail on any damage in a log. Checksums of blocks are for read options to say. */
void leveldb_options_set_paranoid_checks(leveldb_options_t* options, uint8_t value);
/* Null is the default one. */
void leveldb_options_set_env(leveldb_options_t* options, leveldb_env_t* env);
/* Accepted for LevelDB's sake: nothing makes a logger. The log is the file LOG in the folder. */
void leveldb_options_set_info_log(leveldb_options_t* options, leveldb_logger_t* logger);
/* Bytes of writes gathered in memory; 64 KiB to 1 GiB, 4 MiB if not set. */
void leveldb_options_set_write_buffer_size(leveldb_options_t* options, size_t bytes);
/* 74 to 50,000; 1000 if not set. */
void leveldb_options_set_max_open_files(leveldb_options_t* options, int files);
/* Null, as if not set, is a cache of 8 MiB of each database's own. */
void leveldb_options_set_cache(leveldb_options_t* options, leveldb_cache_t* cache);
/* Bytes of a block before compression; 1 KiB to 4 MiB, 4 KiB if not set. */
void leveldb_options_set_block_size(leveldb_options_t* options, size_t bytes);
/* Keys between restart points; 16 if not set. */
void leveldb_options_set_block_restart_interval(leveldb_options_t* options, int keys);
/* Bytes of a table; 1 MiB to 1 GiB, 2 MiB if not set. */
void leveldb_options_set_max_file_size(leveldb_options_t* options, size_t bytes);

/* siltstone/c.h has one more, Zstandard. With any other value the options are refused where they are
   used. */
enum { leveldb_no_compression = 0, leveldb_snappy_compression = 1 };
void leveldb_options_set_compression(leveldb_options_t* options, int compression);

/* ---- Comparators ---- */

/* An order of keys of your own. `compare` returns less than, equal to or more than 0; it is called with
   locks held and must not block. `name` is called once, here; its text, which goes into every database,
   must be UTF-8. `destructor` (null: none) is called once, when neither this object nor options nor a
   database use the state any more. */
leveldb_comparator_t* leveldb_comparator_create(void* state, void (*destructor)(void* state),
                                                int (*compare)(void* state, const char* a, size_t alen,
                                                               const char* b, size_t blen),
                                                const char* (*name)(void* state));
void leveldb_comparator_destroy(leveldb_comparator_t* comparator);

/* ---- Filter policies ---- */

/* A filter of your own. `create_filter` returns bytes from malloc, which are freed here, and their
   number. `key_may_match` must be true for every key of the filter. A filter is made for the keys of a
   whole table, in order; one key may come several times. The rest is as for comparators. */
leveldb_filterpolicy_t* leveldb_filterpolicy_create(
    void* state, void (*destructor)(void* state),
    char* (*create_filter)(void* state, const char* const* key_array, const size_t* key_length_array,
                           int num_keys, size_t* filter_length),
    uint8_t (*key_may_match)(void* state, const char* key, size_t length, const char* filter,
                             size_t filter_length),
    const char* (*name)(void* state));
/* LevelDB's Bloom filter. 10 bits per key let one absent key in a hundred pass. */
leveldb_filterpolicy_t* leveldb_filterpolicy_create_bloom(int bits_per_key);
void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t* policy);

/* ---- Read options ---- */

leveldb_readoptions_t* leveldb_readoptions_create(void);
void leveldb_readoptions_destroy(leveldb_readoptions_t* options);
/* Verify the checksum of each block read from disk. True if not set (LevelDB: false). */
void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t* options, uint8_t value);
/* Keep what is read in the cache. True if not set. */
void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t* options, uint8_t value);
/* Read as of a snapshot; null is now. The snapshot must not be released while the options are used.
   An iterator made with it may outlive it. */
void leveldb_readoptions_set_snapshot(leveldb_readoptions_t* options,
                                      const leveldb_snapshot_t* snapshot);

/* ---- Write options ---- */

leveldb_writeoptions_t* leveldb_writeoptions_create(void);
void leveldb_writeoptions_destroy(leveldb_writeoptions_t* options);
/* Return when the write, and every one before it, survives a power cut. False if not set: it then
   survives the death of the process. */
void leveldb_writeoptions_set_sync(leveldb_writeoptions_t* options, uint8_t value);

/* ---- Cache ---- */

/* A cache of decompressed blocks, which databases may share. Blocks of a long scan do not drive out
   those that are asked for again. */
leveldb_cache_t* leveldb_cache_create_lru(size_t capacity);
void leveldb_cache_destroy(leveldb_cache_t* cache);

/* ---- Environments ---- */

leveldb_env_t* leveldb_create_default_env(void);
void leveldb_env_destroy(leveldb_env_t* env);
/* A folder for tests, made if it is not there; the text is for you to free. */
char* leveldb_env_get_test_directory(leveldb_env_t* env);

/* ---- Utility ---- */

/* Frees what a function here returned, as free does; accepts null. */
void leveldb_free(void* ptr);

/* The release of LevelDB whose API this is: 1 and 23. siltstone_version tells siltstone's own. */
int leveldb_major_version(void);
int leveldb_minor_version(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
