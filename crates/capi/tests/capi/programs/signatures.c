/* LevelDB's header and ours in one file: a function that the two declare differently is an error. */

#define leveldb_no_compression theirs_none
#define leveldb_snappy_compression theirs_snappy
#include LEVELDB_HEADER
#undef leveldb_no_compression
#undef leveldb_snappy_compression

#include "leveldb/c.h"

_Static_assert((int)leveldb_no_compression == (int)theirs_none, "the same value");
_Static_assert((int)leveldb_snappy_compression == (int)theirs_snappy, "the same value");
