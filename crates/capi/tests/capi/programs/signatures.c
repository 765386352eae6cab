/* LevelDB's header and ours in one file: a function that the two declare differently is an error. */

#define leveldb_no_compression theirs_none
#define leveldb_snappy_compression theirs_snappy
#include LEVELDB_HEADER
#undef leveldb_no_compression
#undef leveldb_snappy_compression

#include "leveldb/c.h"

enum { same_none = 1 / (leveldb_no_compression == theirs_none) };
enum { same_snappy = 1 / (leveldb_snappy_compression == theirs_snappy) };
