// Makes the files of this folder with LevelDB's own library; see README.md.

#include <cstdio>
#include <cstdlib>
#include <string>

#include "leveldb/db.h"
#include "leveldb/dumpfile.h"
#include "leveldb/env.h"
#include "leveldb/write_batch.h"

namespace {

void Check(const leveldb::Status& status) {
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(1);
  }
}

leveldb::DB* Open(const std::string& path) {
  leveldb::Options options;
  options.create_if_missing = true;
  leveldb::DB* db = nullptr;
  Check(leveldb::DB::Open(options, path, &db));
  return db;
}

// A text that is the same on every machine and does not repeat soon.
std::string Text(unsigned bytes) {
  std::string text;
  for (unsigned line = 0; text.size() < bytes; line++) {
    text += std::to_string(line * 7919u) + ",";
  }
  text.resize(bytes);
  return text;
}

void MakeSmall(const std::string& path) {
  const leveldb::WriteOptions write;
  leveldb::DB* db = Open(path);
  Check(db->Put(write, "apple", "red"));
  Check(db->Put(write, "banana", "yellow"));
  Check(db->Delete(write, "apple"));
  delete db;

  // The second opening turns the first log into a table and removes it from the manifest; the
  // compaction that follows moves that table and leaves a compaction pointer and a removal.
  db = Open(path);
  Check(db->Put(write, "banana", "brown"));
  Check(db->Put(write, "cherry", std::string("\x00\xff'\\", 4)));
  db->CompactRange(nullptr, nullptr);
  leveldb::WriteBatch batch;
  batch.Put("date", "");
  batch.Put("", "empty key");
  batch.Delete("banana");
  Check(db->Write(write, &batch));
  leveldb::WriteBatch empty;
  Check(db->Write(write, &empty));
  Check(db->Put(write, "elder", "last"));
  delete db;
}

void MakeLong(const std::string& path) {
  const leveldb::WriteOptions write;
  leveldb::DB* db = Open(path);
  // Sizes at which records end just before, at and just behind the border of a block.
  for (unsigned bytes : {10u, 32700u, 1u, 32725u, 32726u, 32727u, 32728u, 0u, 100000u, 5u}) {
    Check(db->Put(write, "k" + std::to_string(bytes), Text(bytes)));
  }
  delete db;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "small") {
    MakeSmall(argv[2]);
  } else if (argc == 3 && std::string(argv[1]) == "long") {
    MakeLong(argv[2]);
  } else if (argc == 4 && std::string(argv[1]) == "dump") {
    leveldb::WritableFile* out = nullptr;
    Check(leveldb::Env::Default()->NewWritableFile(argv[3], &out));
    Check(leveldb::DumpFile(leveldb::Env::Default(), argv[2], out));
    Check(out->Close());
    delete out;
  } else {
    std::fprintf(stderr, "usage: make small|long FOLDER | make dump FILE OUTPUT\n");
    return 2;
  }
}
