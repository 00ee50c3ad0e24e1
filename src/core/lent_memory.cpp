// The table of memory that is lent out.
#include "core/lent_memory.h"

#include <mutex>
#include <unordered_map>
#include <utility>

namespace facula {

namespace {

struct Table {
  std::mutex mutex;
  std::unordered_map<const StorageImpl*, int64_t> readers;
};

// Never destroyed: readers may let go of their memory while the process ends.
Table& table() {
  static auto* made = new Table;
  return *made;
}

void give_back(const StorageImpl* storage) noexcept {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  const auto found = t.readers.find(storage);
  if (--found->second == 0) t.readers.erase(found);
}

}  // namespace

LentMemory::LentMemory(Storage storage) : storage_(std::move(storage)) {
  if (!storage_) return;
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  ++t.readers[storage_.impl()];
}

LentMemory& LentMemory::operator=(LentMemory&& other) noexcept {
  std::swap(storage_, other.storage_);
  return *this;
}

LentMemory::~LentMemory() {
  if (storage_) give_back(storage_.impl());
}

bool is_lent(const StorageImpl& storage) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  return t.readers.contains(&storage);
}

}  // namespace facula
